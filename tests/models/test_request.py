"""Model requests become chat completion bodies that an endpoint accepts, whatever the log holds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.content import (
    Message,
    ModelSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserSource,
)
from acp_bridge.session.derive import MISSING_RESULT
from acp_bridge.session.events import ModelHeader, RequestConfig, ToolSchema
from acp_bridge_plugins.models_openai.request import chat_body, encoded_body
from tests.models.asking import call, prompt, reply, request_of, result


def sent(*messages: Message, model: str = "test-model") -> list[dict[str, Any]]:
    body = chat_body(request_of(*messages, model=model), official=False)
    messages_sent: list[dict[str, Any]] = body["messages"]
    assert messages_sent[0] == {"role": "system", "content": "Be brief."}
    return messages_sent[1:]


def test_a_conversation_with_a_call_is_mapped() -> None:
    assert sent(prompt("list"), reply(TextBlock("Sure."), call("a", "ls", '{"path": "."}')), result("a", "x.py")) == [
        {"role": "user", "content": "list"},
        {
            "role": "assistant",
            "content": "Sure.",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x.py"},
    ]


def test_a_reply_of_calls_alone_has_null_content() -> None:
    assert sent(prompt(), reply(call("a")), result("a"))[1]["content"] is None


def test_a_reply_without_text_and_calls_is_left_out() -> None:
    thought = Message("m", "assistant", (ReasoningBlock("hm"),), ModelSource("openai", "test-model"))
    assert sent(prompt("a"), thought, prompt("b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]


def test_settings_and_tools_are_sent_and_what_is_unset_is_not() -> None:
    config = RequestConfig("openai", "m", reasoning_effort="low", temperature=0.0, max_tokens=9, stop=("x",))
    tool = ToolSchema("ls", "Lists.", {"type": "object"})
    request = ModelRequest(ModelHeader(config, None, (tool,)), (prompt(),))
    body = chat_body(request, official=False)
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert (body["reasoning_effort"], body["temperature"], body["max_tokens"], body["stop"]) == ("low", 0.0, 9, ["x"])
    function = {"name": "ls", "description": "Lists.", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert "max_tokens" not in chat_body(request, official=True)
    assert chat_body(request, official=True)["max_completion_tokens"] == 9
    bare = json.loads(encoded_body(ModelRequest(ModelHeader(RequestConfig("openai", "m")), ()), official=True))
    assert bare == {"model": "m", "messages": [], "stream": True, "stream_options": {"include_usage": True}}


def test_ids_pass_through_and_empty_or_repeated_ones_become_unique_together_with_their_results() -> None:
    messages = sent(
        prompt(),
        reply(call("a"), call("a"), call("")),
        result("a", "first"),
        result("a", "second"),
        result("", "third"),
        prompt(),
        reply(call("a")),
        result("a", "fourth"),
    )
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    assert results == {"a": "first", "a-2": "second", "call": "third", "a-3": "fourth"}
    ids = [one["id"] for message in messages for one in message.get("tool_calls", ())]
    assert ids == list(results)


def test_a_missing_result_is_said_and_a_stray_one_left_out() -> None:
    messages = sent(prompt(), reply(call("a"), call("b")), result("b", "B"), result("zzz"), prompt("next"))
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": MISSING_RESULT},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "user", "content": "next"},
    ]


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("null", '{"invalid_arguments":"null"}'),
        ("[]", '{"invalid_arguments":"[]"}'),
        ('"x"', '{"invalid_arguments":"\\"x\\""}'),
        ('{"path": "a', '{"invalid_arguments":"{\\"path\\": \\"a"}'),
        ("[" * 5000, json.dumps({"invalid_arguments": "[" * 5000}, separators=(",", ":"))),
    ],
)
def test_arguments_that_are_no_object_cannot_spoil_later_requests(raw: str, arguments: str) -> None:
    function = sent(prompt(), reply(call("a", "ls", raw)))[1]["tool_calls"][0]["function"]
    assert function["arguments"] == arguments


@pytest.mark.parametrize(
    ("name", "sent_name"), [("ls", "ls"), ("no such.tool", "no_such_tool"), ("", "unnamed"), ("x" * 99, "x" * 64)]
)
def test_names_that_no_endpoint_accepts_are_made_acceptable(name: str, sent_name: str) -> None:
    assert sent(prompt(), reply(call("a", name)))[1]["tool_calls"][0]["function"]["name"] == sent_name


def test_what_the_provider_asked_for_goes_back_to_the_same_model_only() -> None:
    state = {"reasoningField": "reasoning_content", "callExtras": [None, {"signature": "s"}]}
    message = Message(
        "m",
        "assistant",
        (ReasoningBlock("because"), call("a"), call("b")),
        ModelSource("openai", "test-model", state),
    )
    mapped = sent(prompt(), message)[1]
    assert mapped["reasoning_content"] == "because"
    assert [one.get("extra_content") for one in mapped["tool_calls"]] == [None, {"signature": "s"}]
    other = sent(prompt(), message, model="other")[1]
    assert "reasoning_content" not in other
    assert "extra_content" not in other["tool_calls"][1]


def test_a_replay_state_of_another_shape_is_ignored() -> None:
    source = ModelSource("openai", "test-model", {"reasoningField": "content", "callExtras": "x"})
    mapped = sent(prompt(), Message("m", "assistant", (TextBlock("a"), call("a")), source))[1]
    assert mapped["content"] == "a"


IDS = st.sampled_from(["", "a", "b", "a-2"])
BLOCKS = st.one_of(
    st.builds(TextBlock, st.sampled_from(["", "x"])),
    st.builds(ReasoningBlock, st.just("t")),
    st.builds(ToolCallBlock, IDS, st.sampled_from(["", "f", "f g"]), st.sampled_from(["", "{}", "[", "null"])),
    st.builds(ToolResultBlock, IDS, st.just((TextBlock("r"),)), st.booleans()),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        st.just("m"),
        st.sampled_from(["user", "assistant"]),
        st.lists(BLOCKS, max_size=3).map(tuple),
        st.sampled_from([UserSource(), ToolSource("a"), ModelSource("openai", "test-model")]),
    ),
    max_size=8,
)


@given(MESSAGES, MESSAGES)
def test_any_messages_give_unique_calls_each_followed_at_once_by_its_result(a: list[Message], b: list[Message]) -> None:
    messages = sent(*a, *b)
    ids: list[str] = []
    owed: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == owed.pop(0)
            continue
        assert not owed
        owed = [one["id"] for one in message.get("tool_calls", ())]
        ids += owed
        assert message["content"] or owed
        assert all(isinstance(json.loads(c["function"]["arguments"]), dict) for c in message.get("tool_calls", ()))
    assert not owed
    assert len(set(ids)) == len(ids)
    assert all(ids)
    msgspec.json.encode(messages)


@given(MESSAGES, MESSAGES)
def test_what_was_sent_once_is_sent_the_same_again(earlier: list[Message], later: list[Message]) -> None:
    """Prompt caches hold: a longer conversation begins as the shorter one did, up to the results still owed."""
    head = sent(*earlier, reply(TextBlock("said")))
    assert sent(*earlier, reply(TextBlock("said")), *later)[: len(head)] == head

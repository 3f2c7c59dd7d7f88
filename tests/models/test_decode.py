"""Chat completion chunks become stream chunks, whatever an endpoint makes of the format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.chunks import Chunk, Finish, FinishReason, TextDelta, ToolCallDelta, UsageChunk
from acp_bridge.session.content import ReasoningBlock, TextBlock, ToolCallBlock, Usage
from acp_bridge_plugins.models_openai.decode import ReplyDecoder
from tests.models.asking import assembled, grammar_problems


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **keys: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **keys}).encode()


def text(content: str) -> bytes:
    return event({"content": content})


def tool(index: int | None = None, id: str | None = None, name: str | None = None, **function: Any) -> bytes:
    delta: dict[str, Any] = {"function": {**({} if name is None else {"name": name}), **function}}
    if index is not None:
        delta["index"] = index
    if id is not None:
        delta["id"] = id
    return event({"tool_calls": [delta]})


def decoded(*payloads: bytes) -> tuple[list[Chunk], ReplyDecoder]:
    decoder = ReplyDecoder()
    chunks = [chunk for payload in payloads for chunk in decoder.feed(payload)]
    chunks += decoder.finish()
    if decoder.fault is None:
        assert not list(grammar_problems(chunks))
    return chunks, decoder


def blocks(*payloads: bytes) -> tuple[Any, ...]:
    return assembled(decoded(*payloads, event(finish="stop"))[0]).blocks()


def reason(*payloads: bytes) -> str:
    last = decoded(*payloads)[0][-1]
    assert isinstance(last, Finish)
    return last.reason.kind


def fault(*payloads: bytes) -> str | None:
    found = decoded(*payloads)[1].fault
    return found.kind if found else None


def test_text_is_one_block_and_each_piece_a_chunk() -> None:
    chunks, _ = decoded(event({"role": "assistant", "content": ""}), text("one "), text("two"), event(finish="stop"))
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["one ", "two"]
    assert assembled(chunks).blocks() == (TextBlock("one two"),)
    assert chunks[-1] == Finish(FinishReason("stop"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_in_either_field_and_ends_where_text_begins(field: str) -> None:
    assert blocks(event({field: "think"}), event({field: "ing"}), text("so")) == (
        ReasoningBlock("thinking"),
        TextBlock("so"),
    )


def test_reasoning_in_both_fields_is_shown_once() -> None:
    assert blocks(event({"reasoning": "a", "reasoning_content": "a"}), text("b"))[0] == ReasoningBlock("a")


def test_content_in_parts_is_text() -> None:
    assert blocks(event({"content": [{"type": "text", "text": "a"}, {"type": "x"}, 3]})) == (TextBlock("a"),)


@pytest.mark.parametrize(
    ("payloads", "calls"),
    [
        pytest.param(
            [tool(0, "a", "f", arguments=""), tool(0, arguments='{"x"'), tool(0, arguments=":1}")],
            [("a", "f", '{"x":1}')],
            id="the ordinary way",
        ),
        pytest.param(
            [tool(0, "a", "f", arguments="{"), tool(1, "b", "g", arguments="["), tool(0, arguments="}")],
            [("a", "f", "{}"), ("b", "g", "[")],
            id="calls streamed in turns",
        ),
        pytest.param(
            [tool(None, "a", "f", arguments="{}"), tool(None, "b", "g", arguments="{}")],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="no index",
        ),
        pytest.param(
            [tool(None, "a", "f", arguments="{"), tool(None, "a", arguments="}"), tool(None, None, arguments=" ")],
            [("a", "f", "{} ")],
            id="no index, continued by id and by nothing",
        ),
        pytest.param(
            [tool(0, None, "f", arguments="{}"), tool(1, "", "g", arguments="{}")],
            [("call-1", "f", "{}"), ("call-2", "g", "{}")],
            id="no id",
        ),
        pytest.param(
            [tool(None, None, "f", arguments="{}"), tool(None, None, "f", arguments="{}")],
            [("call-1", "f", "{}"), ("call-2", "f", "{}")],
            id="neither index nor id",
        ),
        pytest.param([tool(0, None, "f"), tool(0, "late", arguments="{}")], [("late", "f", "{}")], id="id comes later"),
        pytest.param(
            [tool(0, "a", "f", arguments="{}"), tool(0, "b", "g", arguments="{}")],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="every index is 0",
        ),
        pytest.param(
            [tool(0, None, "f", arguments="{}"), tool(0, None, "g", arguments="{}")],
            [("call-1", "f", "{}"), ("call-2", "g", "{}")],
            id="every index is 0 and no ids",
        ),
        pytest.param(
            [tool(0, "a", "f", arguments="{}"), tool(1, "a", "f", arguments="{}")],
            [("a", "f", "{}"), ("a", "f", "{}")],
            id="a repeated id stays visible to the loop",
        ),
        pytest.param(
            [tool(None, "a", "f", arguments="{}"), tool(None, "a", "f", arguments="{}")],
            [("a", "f", "{}"), ("a", "f", "{}")],
            id="a repeated id without index",
        ),
        pytest.param(
            [tool(0, "a", "read_", arguments=""), tool(0, "a", "file", arguments="{}")],
            [("a", "read_file", "{}")],
            id="name in pieces",
        ),
        pytest.param(
            [tool(0, "a", "f", arguments="{"), tool(0, "a", "f", arguments="}")],
            [("a", "f", "{}")],
            id="name repeated with each piece",
        ),
        pytest.param([tool(0, "a", "f", arguments=None), tool(0, arguments="{}")], [("a", "f", "{}")], id="null, then"),
        pytest.param([tool(0, "a", "f", arguments=None)], [("a", "f", "null")], id="null is not no arguments"),
        pytest.param([tool(0, "a", "f")], [("a", "f", "")], id="no arguments"),
        pytest.param([tool(0, "a", "f", arguments={"x": [1]})], [("a", "f", '{"x":[1]}')], id="not a string"),
        pytest.param([tool(0, "a", arguments="{}")], [("a", "", "{}")], id="no name"),
        pytest.param([event({"tool_calls": [{"index": 0, "id": "a"}]})], [("a", "", "")], id="no function"),
    ],
)
def test_tool_calls_are_told_apart(payloads: list[bytes], calls: list[tuple[str, str, str]]) -> None:
    assert blocks(*payloads) == tuple(ToolCallBlock(*call) for call in calls)


def test_the_deltas_of_a_call_add_up_to_its_block() -> None:
    chunks, _ = decoded(tool(0, "a", "re", arguments="{"), tool(0, None, "ad", arguments="}"), event(finish="stop"))
    deltas = [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert [(d.id, d.name, d.arguments_delta) for d in deltas] == [("a", "re", "{"), ("a", "read", "}")]


@pytest.mark.parametrize(
    ("payloads", "kind"),
    [
        ([text("a"), event(finish="stop")], "stop"),
        ([tool(0, "a", "f"), event(finish="tool_calls")], "tool-calls"),
        ([tool(0, "a", "f"), event(finish="stop")], "tool-calls"),
        ([text("a"), event(finish="tool_calls")], "stop"),
        ([text("a"), event(finish="length")], "max-tokens"),
        ([event(finish="length")], "max-tokens"),
        ([text("a"), event(finish="content_filter")], "refusal"),
        ([event({"refusal": "I can't"}), event(finish="stop")], "refusal"),
        ([text("a"), event(finish="eos")], "stop"),
        ([text("a"), b"[DONE]"], "stop"),
    ],
)
def test_the_end_of_a_reply_has_a_kind(payloads: list[bytes], kind: str) -> None:
    assert reason(*payloads) == kind


def test_a_refusal_is_read_as_text() -> None:
    assert blocks(event({"refusal": "I can't"})) == (TextBlock("I can't"),)


@pytest.mark.parametrize(
    ("payloads", "kind"),
    [
        ([], "empty"),
        ([b"[DONE]"], "empty"),
        ([event({"role": "assistant", "content": ""}), event(finish="stop"), b"[DONE]"], "empty"),
        ([event({"reasoning": "hm"}), event(finish="stop")], "unanswered"),
        ([text("a")], "cut"),
        ([event({"role": "assistant"})], "cut"),
        ([tool(0, "a", "f", arguments='{"pa')], "cut"),
        ([text("a"), b"{"], "undecodable"),
        ([b"[1]"], "undecodable"),
        ([b'{"choices":[{"delta":{"content":5}}]}'], "undecodable"),
        ([b"[" * 100_000], "undecodable"),
        ([text("a"), json.dumps({"error": {"message": "overloaded"}}).encode()], "reported"),
        ([json.dumps({"object": "error", "message": "no"}).encode()], "reported"),
        ([text("a"), event(finish="error")], "reported"),
        ([text("a"), event(finish="stop", error={"message": "x"})], "reported"),
    ],
)
def test_a_reply_that_cannot_be_used_has_a_fault_and_no_finish(payloads: list[bytes], kind: str) -> None:
    chunks, decoder = decoded(*payloads)
    assert decoder.fault is not None
    assert decoder.fault.kind == kind
    assert not any(isinstance(chunk, Finish) for chunk in chunks)


def test_nothing_is_decoded_after_done_or_a_fault() -> None:
    assert fault(b"{", text("a"), event(finish="stop")) == "undecodable"
    chunks, _ = decoded(text("a"), b"[DONE]", text("b"), b"{")
    assert assembled(chunks).blocks() == (TextBlock("a"),)


def test_half_a_surrogate_pair_or_bad_utf8_costs_a_character_not_the_reply() -> None:
    payload = b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}'
    latin = b'{"choices":[{"delta":{"content":"b\xe9"}}]}'
    assert blocks(payload, latin) == (TextBlock("a?b�"),)


def test_only_the_first_choice_is_read() -> None:
    second = json.dumps({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": None}]}).encode()
    assert blocks(text("yes"), second) == (TextBlock("yes"),)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 30,
                "total_tokens": 130,
                "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens_details": {"reasoning_tokens": 10},
            },
            Usage(40, 20, 60, None, 10),
        ),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(5, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}, Usage(5, 1, 4)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 35,
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(10, 5, None, None, 20),
        ),
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}, Usage(0, None, 9)),
    ],
)
def test_usage_counters_are_disjoint(counts: dict[str, Any], usage: Usage) -> None:
    payload = json.dumps({"choices": [], "usage": counts}).encode()
    chunks, _ = decoded(text("a"), event(finish="stop", usage={"prompt_tokens": 0}), payload, b"[DONE]")
    assert [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)] == [usage]


@pytest.mark.parametrize("counts", ["x", {"prompt_tokens": "many"}, [], 5])
def test_counters_that_make_no_sense_do_not_spoil_the_reply(counts: Any) -> None:
    assert reason(text("a"), event(finish="stop", usage=counts)) == "stop"


def test_what_a_provider_wants_back_with_calls_is_kept() -> None:
    signed = event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}, "extra_content": {"s": "x"}}]})
    chunks, _ = decoded(event({"reasoning_content": "t"}), signed, tool(1, "b", "g"), event(finish="tool_calls"))
    assert chunks[-1] == Finish(
        FinishReason("tool-calls"), {"reasoningField": "reasoning_content", "callExtras": [{"s": "x"}, None]}
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "{}", "f", "stop"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "x", "text"]), inner, max_size=2)
    ),
    max_leaves=4,
)
CALL = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 2),
        "id": st.sampled_from([None, "", "a", "b"]),
        "function": st.none()
        | st.fixed_dictionaries({}, optional={"name": st.sampled_from([None, "", "f", "g"]), "arguments": JSON}),
        "extra_content": JSON,
    },
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": st.none() | st.text(max_size=3) | st.lists(JSON, max_size=2),
        "reasoning": JSON,
        "reasoning_content": JSON,
        "refusal": st.sampled_from([None, "", "no"]),
        "tool_calls": st.none() | st.lists(CALL, max_size=3),
    },
)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {"delta": st.none() | DELTA},
                optional={"finish_reason": st.sampled_from([None, "stop", "length", "tool_calls", "x"])},
            ),
            max_size=2,
        ),
        "usage": JSON,
        "error": st.none() | JSON,
    },
)
PAYLOAD = EVENT.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20) | st.just(b"[DONE]")


@given(st.lists(PAYLOAD, max_size=8))
def test_any_payloads_give_a_valid_reply_or_a_fault_and_never_an_exception(payloads: list[bytes]) -> None:
    chunks, decoder = decoded(*payloads)
    assert (decoder.fault is None) == (bool(chunks) and isinstance(chunks[-1], Finish))
    finishes = Finish(FinishReason("error")) if decoder.fault else None
    assert not list(grammar_problems([*chunks, finishes] if finishes else chunks))
    for chunk in chunks:
        assert not isinstance(chunk, ToolCallDelta) or chunk.id

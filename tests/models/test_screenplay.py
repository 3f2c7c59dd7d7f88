"""Screenplays: the format, and which step answers which request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.chunks import Chunk, Failure, Finish, FinishReason, ToolCallDelta
from acp_bridge.session.content import (
    Message,
    PluginSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    Usage,
    text_message,
)
from acp_bridge_plugins.models_scripted.screenplay import (
    OVER,
    Move,
    Screenplay,
    Step,
    WaitFile,
    WaitMs,
    missing,
    moves,
    parse,
    place_of,
)
from tests.models.asking import assembled, call, grammar_problems, prompt, reply, request_of, result


def play_of(*steps: dict[str, Any]) -> Screenplay:
    return parse(json.dumps({"turns": [{"steps": list(steps)}]}).encode(), is_json=True)


def played(step: dict[str, Any]) -> list[Move]:
    return list(moves(play_of(step).step(1, 1), 1, 1))


def chunks_of(found: Sequence[Move]) -> list[Chunk]:
    chunks = [move for move in found if not isinstance(move, WaitMs | WaitFile)]
    assert not list(grammar_problems(chunks))
    return chunks


def test_toml_and_json_say_the_same() -> None:
    toml = b"""
    [[turns]]
    [[turns.steps]]
    text = ["a", { wait_for_file = "go" }, "b"]
    [[turns.steps.calls]]
    name = "ls"
    arguments = { path = "." }
    """
    same = play_of({"text": ["a", {"wait_for_file": "go"}, "b"], "calls": [{"name": "ls", "arguments": {"path": "."}}]})
    assert parse(toml, is_json=False) == same


@pytest.mark.parametrize(
    ("data", "is_json"),
    [
        (b"turns = [", False),
        (b"\xff", False),
        (b"", False),
        (b"{", True),
        (b"[" * 100_000, True),
        (b'{"turns": 1}', True),
        (b'{"turns": [{"steps": [{"txt": "a"}]}]}', True),
        (b'{"turns": [{"steps": [{"text": 5}]}]}', True),
        (b'{"turns": [{"steps": [{"finish": "done"}]}]}', True),
        (b'{"turns": [{"steps": [{"calls": [{}]}]}]}', True),
    ],
)
def test_a_file_that_is_no_screenplay_is_refused_with_a_reason(data: bytes, is_json: bool) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(data, is_json=is_json)


def test_a_whole_step_is_played_in_order() -> None:
    found = played(
        {
            "reasoning": "hm",
            "text": ["a", "b"],
            "calls": [{"name": "ls"}, {"name": "rm", "raw_arguments": "null", "id": "x"}],
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }
    )
    whole = assembled(chunks_of(found))
    assert whole.blocks() == (
        ReasoningBlock("hm"),
        TextBlock("ab"),
        ToolCallBlock("call_1_1_1", "ls", "{}"),
        ToolCallBlock("x", "rm", "null"),
    )
    assert whole.usage == Usage(3, 2)
    assert found[-1] == Finish(FinishReason("tool-calls"))


def test_a_paced_text_is_cut_into_words_and_a_list_left_as_it_is() -> None:
    words = [move.text for move in played({"text": " one  two\n three", "chunk_ms": 5}) if hasattr(move, "text")]
    assert "".join(words) == " one  two\n three"
    assert len(words) == 4
    found = played({"text": ["one two", "three"], "chunk_ms": 5})
    assert [type(move).__name__ for move in found if not hasattr(move, "block_type")] == [
        "TextDelta",
        "WaitMs",
        "TextDelta",
        "BlockEnd",
        "Finish",
    ]


def test_pauses_stand_where_the_file_has_them() -> None:
    found = played({"wait_for_file": "begin", "text": ["a", {"wait_for_file": "go"}, "b"]})
    assert found[0] == WaitFile("begin")
    names = [type(move).__name__ for move in found]
    assert names == ["WaitFile", "BlockStart", "TextDelta", "WaitFile", "TextDelta", "BlockEnd", "Finish"]


def test_a_failing_step_leaves_its_calls_half_received() -> None:
    failure = {"message": "boom", "code": "RATE_LIMIT", "status": 429, "retry_after_ms": 5}
    chunks = chunks_of(played({"text": "a", "calls": [{"name": "rm"}], "failure": failure}))
    assert chunks[-1] == Finish(FinishReason("error", Failure("boom", "RATE_LIMIT", 429, 5)))
    assert any(isinstance(chunk, ToolCallDelta) for chunk in chunks)
    assert assembled(chunks).blocks() == (TextBlock("a"),)


@pytest.mark.parametrize("kind", ["stop", "max-tokens", "refusal"])
def test_a_step_may_say_how_it_ends(kind: str) -> None:
    assert played({"text": "a", "finish": kind})[-1] == Finish(FinishReason(kind))  # type: ignore[arg-type]  # literals


NOTICE = text_message("n", "a notice", PluginSource("p"))


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([prompt()], (1, 1)),
        ([prompt(), NOTICE], (1, 1)),
        ([prompt(), reply(call("a")), result("a")], (1, 2)),
        ([prompt(), reply(call("a")), result("a"), NOTICE, reply(call("b")), result("b")], (1, 3)),
        ([prompt(), reply(TextBlock("done")), prompt()], (2, 1)),
        ([prompt(), reply(call("a")), result("a", "TOOL_OUTCOME_UNKNOWN"), prompt()], (2, 1)),
        ([prompt(), prompt(), reply(call("a")), result("a")], (2, 2)),
    ],
)
def test_the_step_follows_from_the_request_alone(messages: list[Message], place: tuple[int, int]) -> None:
    assert place_of(request_of(*messages)) == place


@given(st.integers(-1, 9), st.integers(-1, 9))
def test_past_the_end_the_reply_says_so(turn: int, number: int) -> None:
    play = play_of({"text": "a"}, {"text": "b"})
    expected = {(1, 1): "a", (1, 2): "b"}.get((turn, number), OVER)
    assert play.step(turn, number).text == expected


def test_an_expectation_looks_at_everything_the_model_would_see() -> None:
    request = request_of(
        prompt("please"), reply(TextBlock("said"), call("a", "ls", '{"path": "src"}')), result("a", "x.py")
    )
    seen = ("Be brief", "please", "said", "ls", '"src"', "x.py")
    assert missing(Step(expect=seen), request) == []
    assert missing(Step(expect=(*seen, "y.py")), request) == ["y.py"]
    assert missing(Step(expect="nothing"), request) == ["nothing"]

"""A log as lines for a person: one per event, folded chunks, nothing that could repaint a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.chunks import Failure, TextDelta
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
from acp_bridge.session.events import (
    AbortReason,
    AssistantChunk,
    AssistantMessage,
    ErrorInfo,
    Event,
    Header,
    PresetSet,
    TitleSet,
    ToolCallEvent,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from acp_bridge_composition.commands.transcript import WIDTH, transcript

HEADER = Header(1, "session-id", 0, "/project")
USER, MODEL = UserSource(), ModelSource("openai", "m")


def events(*bodies: Any) -> list[Event]:
    return [Event(body.TYPE, seq, 1000 * seq, body) for seq, body in enumerate(bodies)]


def lines(*bodies: Any, columns: int | None = None) -> list[str]:
    """Without the header line."""
    return list(transcript(HEADER, events(*bodies), columns=columns))[1:]


def said(text: str) -> UserMessage:
    return UserMessage("u1", "user", (TextBlock(text),), USER)


def reply(*blocks: Any, interrupted: bool = False) -> AssistantMessage:
    return AssistantMessage(1, 1, Message("a1", "assistant", blocks, MODEL), interrupted=interrupted or None)


def result(text: str, error: ErrorInfo | None = None) -> ToolResult:
    block = ToolResultBlock("c1", (TextBlock(text),), error is not None)
    return ToolResult(1, 1, Message("r1", "user", (block,), ToolSource("c1")), error)


def test_the_first_line_says_which_session_and_each_event_has_one_more() -> None:
    first, *rest = transcript(HEADER, events(TurnStart(1), said("Hello."), TurnEnd(1, TurnEndReason("completed"))))
    assert first.startswith("session session-id  created ")
    assert first.endswith("  in /project")
    assert [line.split()[0] for line in rest] == ["0", "1", "2"]
    assert [line.split()[2] for line in rest] == ["turn/start", "user/message", "turn/end"]
    assert next(transcript(Header(1, "x", 0), [])).endswith("  in -")


SHOWN: dict[str, tuple[Any, str]] = {
    "a prompt": (said("Fix it."), "Fix it."),
    "a reply": (reply(ReasoningBlock("hm"), TextBlock("I will."), ToolCallBlock("c1", "read_file", "{}")),
                "(thought) hm  I will.  → read_file [c1]"),
    "a reply cut short": (reply(TextBlock("I wi"), interrupted=True), "(interrupted) I wi"),
    "a call": (ToolCallEvent(1, 1, "c1", "run_command", '{"command":"ls"}'), 'c1  run_command {"command":"ls"}'),
    "a result": (result("a\nb"), "c1  a\\nb"),
    "an unknown outcome": (result("Nobody knows.", ErrorInfo("E", "TOOL_OUTCOME_UNKNOWN")),
                           "c1  [TOOL_OUTCOME_UNKNOWN] Nobody knows."),
    "an end": (TurnEnd(1, TurnEndReason("completed")), "completed"),
    "a failed end": (TurnEnd(1, TurnEndReason("error", error=Failure("No key.", "X"))), "error No key."),
    "an aborted end": (TurnEnd(1, TurnEndReason("aborted", reason=AbortReason("user"))), "aborted user"),
    "a mode": (PresetSet("ask"), "ask"),
    "a title": (TitleSet("Fix it."), "Fix it."),
    "a turn": (TurnStart(7), "turn 7"),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
def test_an_event_is_described_by_what_matters_in_it(case: str) -> None:
    body, text = SHOWN[case]
    (line,) = lines(body)
    assert line.endswith(f" {text}")


def test_streamed_chunks_are_one_line_with_their_number() -> None:
    chunk = AssistantChunk(1, 1, TextDelta(0, "x"))
    shown = lines(TurnStart(1), chunk, chunk, chunk, reply(TextBlock("xxx")), chunk)
    assert [line.split(maxsplit=2)[2] for line in shown] == [
        "turn/start            turn 1",
        "assistant/chunk       3 streamed pieces",
        "assistant/message     xxx",
        "assistant/chunk       1 streamed pieces",
    ]
    assert [line.split()[0] for line in shown] == ["0", "1", "4", "5"]


@given(st.text(), st.sampled_from([None, 20, 80, 200]))
def test_no_text_of_a_log_can_repaint_the_terminal_or_break_a_line(text: str, columns: int | None) -> None:
    for body in (said(text), result(text), TitleSet(text), reply(TextBlock(text))):
        (line,) = lines(body, columns=columns)
        plain = line
        for colour in ("\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"):
            plain = plain.replace(colour, "")
        assert not [letter for letter in plain if ord(letter) < 32 or letter in "\x7f\u2028\u202e"]
        assert columns is not None or "\x1b" not in line


@pytest.mark.parametrize("columns", [None, 60, 100, 10])
def test_a_long_text_is_cut_to_the_width(columns: int | None) -> None:
    (line,) = lines(said("x" * 1000), columns=columns)
    width = WIDTH if columns is None else max(20, columns - 41)
    assert line.count("x") == width - 1
    assert line.endswith("…")


def test_colours_are_for_terminals_and_tell_good_from_bad() -> None:
    good, bad = lines(result("ok"), result("no", ErrorInfo("E", "X")), columns=100)
    assert "\x1b[32m" in good
    assert "\x1b[31m" in bad
    assert lines(result("ok"))[0].count("\x1b") == 0

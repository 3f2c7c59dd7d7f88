"""Crash repair: what was done, what never started, and what nobody can know (contracts §6, §11.5; design §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_bridge.session.check import check_log
from acp_bridge.session.chunks import Chunk, ReasoningDelta, ToolCallDelta
from acp_bridge.session.content import ReasoningBlock, TextBlock, ToolCallBlock, text_of
from acp_bridge.session.derive import derive_messages
from acp_bridge.session.events import (
    AssistantMessage,
    Event,
    InboxSpliced,
    StepEnd,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    UserMessage,
)
from acp_bridge.session.repair import NOT_STARTED_TEXT, OUTCOME_UNKNOWN_TEXT, closers, unanswered
from tests.session.writing import Writer, call, text

Play = Callable[[Writer], None]


def written(*plays: Play) -> list[Event]:
    writer = Writer()
    for play in plays:
        play(writer)
    return writer.events


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def codes(events: list[Event]) -> dict[str, str]:
    results = [event.data for event in events if isinstance(event.data, ToolResult)]
    return {result.block.tool_call_id: result.error.code for result in results if result.error}


def asked_for(*call_ids: str) -> Play:
    """A turn in which the model has asked for these calls."""

    def play(writer: Writer) -> None:
        writer.prompt("p1")
        writer.chunks("so")
        writer.reply(text("so"), *map(call, call_ids))

    return play


def test_a_log_at_rest_needs_nothing() -> None:
    assert closers([]) == []
    assert closers(written(lambda w: w.whole_turn("p1", [[call("a")], [text("done")]]))) == []


def test_an_open_turn_gets_its_end_and_an_open_step_before_it() -> None:
    events = written(lambda w: w.prompt("p1"))
    assert types(closers(events)) == ["step/end", "turn/end"]
    events = written(lambda w: w.prompt("p1"), Writer.end_step)
    assert types(closers(events)) == ["turn/end"]
    assert closers(events)[0].data == TurnEnd(1, TurnEndReason("interrupted"))


def test_a_call_that_was_asked_for_and_never_recorded_did_not_start() -> None:
    events = written(asked_for("a"))
    result, *rest = closers(events)
    assert codes([result]) == {"a": "TOOL_NOT_STARTED"}
    assert text_of(result.data.block.content) == NOT_STARTED_TEXT
    assert result.source_event_seqs is None
    assert types(rest) == ["step/end", "turn/end"]


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_a_recorded_call_without_a_result_has_an_unknown_outcome(prepared: bool, started: bool) -> None:
    events = written(asked_for("a"), lambda w: w.record(call("a")))
    recorded = events[-1].seq
    writer = Writer()
    asked_for("a")(writer)
    writer.record(call("a"))
    if prepared:
        writer.prepare("a")
    if started:
        writer.started("a")
    result = closers(writer.events)[0]
    assert codes([result]) == {"a": "TOOL_OUTCOME_UNKNOWN"}
    assert text_of(result.data.block.content) == OUTCOME_UNKNOWN_TEXT
    assert result.source_event_seqs == (recorded,)


@pytest.mark.parametrize("answer", [None, "rejected", "cancelled"])
def test_a_call_whose_question_was_not_answered_with_an_allow_did_not_start(answer: str | None) -> None:
    def play(writer: Writer) -> None:
        writer.record(call("a"))
        writer.prepare("a")
        writer.ask("a")
        if answer is not None:
            writer.decide("a", answer)  # type: ignore[arg-type]  # the literals, from the table

    assert codes(closers(written(asked_for("a"), play))) == {"a": "TOOL_NOT_STARTED"}


def test_a_call_that_was_allowed_has_an_unknown_outcome() -> None:
    def play(writer: Writer) -> None:
        writer.record(call("a"))
        writer.ask("a")
        writer.decide("a")

    assert codes(closers(written(asked_for("a"), play))) == {"a": "TOOL_OUTCOME_UNKNOWN"}


def test_several_calls_are_told_apart_in_the_order_of_the_reply() -> None:
    """Field case R1."""
    events = written(asked_for("a", "b", "c"), lambda w: w.run(call("a")), lambda w: w.record(call("b")))
    closing = closers(events)
    assert codes(closing) == {"b": "TOOL_OUTCOME_UNKNOWN", "c": "TOOL_NOT_STARTED"}
    assert types(closing) == ["tool/result", "tool/result", "step/end", "turn/end"]


def test_an_answered_call_is_left_alone() -> None:
    events = written(asked_for("a"), lambda w: w.run(call("a")))
    assert types(closers(events)) == ["step/end", "turn/end"]


def test_calls_of_an_ended_step_and_of_earlier_turns_are_left_alone() -> None:
    events = written(
        lambda w: w.whole_turn("p0", [[call("x")], [text("done")]]),
        lambda w: w.prompt("p1"),
        lambda w: w.reply(call("a")),
        lambda w: w.run(call("a")),
        Writer.end_step,
        Writer.start_step,
    )
    assert types(closers(events)) == ["step/end", "turn/end"]
    assert closers(events)[0].data == StepEnd(2, 2)


def test_a_recorded_call_that_no_reply_asked_for_is_tolerated() -> None:
    events = written(lambda w: w.prompt("p1"), lambda w: w.record(call("stray")))
    assert types(closers(events)) == ["step/end", "turn/end"]


def test_a_reply_that_was_streaming_is_kept_as_interrupted_and_cites_its_chunks() -> None:
    writer = Writer()
    writer.prompt("p1")
    pieces: tuple[str | Chunk, ...] = ("Half a", " sentence", ReasoningDelta(1, "hm"), ToolCallDelta(2, "c", "{", "x"))
    writer.chunks(*pieces)
    first = writer.events[-4].seq
    reply, *rest = closers(writer.events)
    assert isinstance(reply.data, AssistantMessage)
    assert reply.data.interrupted is True
    assert reply.data.message.content == (TextBlock("Half a sentence"), ReasoningBlock("hm"))
    assert reply.data.message.id == "assistant-1-1"
    assert reply.source_event_seqs == ((first, first + 3),)
    assert types(rest) == ["step/end", "turn/end"]


@pytest.mark.parametrize("piece", [" \n", ToolCallDelta(0, "c", "{}", "x")])
def test_of_a_reply_that_had_shown_nothing_nothing_is_kept(piece: str | Chunk) -> None:
    assert types(closers(written(lambda w: w.prompt("p1"), lambda w: w.chunks(piece)))) == ["step/end", "turn/end"]


def test_a_prompt_that_was_claimed_and_not_entered_stays_in_the_conversation() -> None:
    writer = Writer()
    writer.queue("p1")
    writer.start_turn()
    closing = closers(writer.events)
    assert types(closing) == ["user/message", "turn/end"]
    messages = derive_messages([*writer.events, *closing])
    assert [text_of(message.content) for message in messages] == ["prompt p1"]


@pytest.mark.parametrize("open_turn", [True, False], ids=["behind a running turn", "between two turns"])
def test_a_prompt_that_waited_stays_in_the_conversation_and_is_not_run_later(open_turn: bool) -> None:
    writer = Writer()
    writer.prompt("p1")
    writer.queue("p2")
    if not open_turn:
        writer.reply(text("ok"))
        writer.end_step()
        writer.end_turn()
    closing = closers(writer.events)
    assert [event.data.id for event in closing if isinstance(event.data, UserMessage)] == ["p2"]
    splices = [event.data for event in closing if isinstance(event.data, InboxSpliced)]
    assert [(splice.target, splice.removed_count, splice.outcome) for splice in splices] == [
        ("next-turn", 1, "canceled")
    ]


def test_prompts_that_a_cancel_had_discarded_stay_discarded() -> None:
    events = written(lambda w: w.prompt("p1"), lambda w: w.queue("p2"), Writer.discard)
    assert types(closers(events)) == ["step/end", "turn/end"]


def test_the_times_of_closers_are_the_last_real_time() -> None:
    events = written(asked_for("a", "b"))
    assert {event.time for event in closers(events)} == {events[-1].time}


def test_unanswered_calls_can_be_closed_without_closing_the_turn() -> None:
    events = written(asked_for("a", "b", "c"), lambda w: w.run(call("a")), lambda w: w.record(call("b")))
    found = [(body.block.tool_call_id, body.error.code) for body, _ in unanswered(events)]  # type: ignore[attr-defined]  # results
    assert found == [("b", "TOOL_OUTCOME_UNKNOWN"), ("c", "TOOL_NOT_STARTED")]
    assert unanswered(written(lambda w: w.whole_turn("p1", [[call("a")]]))) == []


@st.composite
def whole_logs(draw: st.DrawFn) -> list[Event]:
    """A few turns with everything in them: several calls, questions, refusals, waiting prompts, cut replies."""
    writer = Writer()
    names = iter(f"n{number}" for number in range(1_000))
    for _ in range(draw(st.integers(1, 3))):
        writer.queue(next(names))
        for _ in range(draw(st.integers(0, 2))):
            writer.queue(next(names))
        play_turn(draw, writer, names)
        if draw(st.booleans()):
            writer.discard()
    return writer.events


def play_turn(draw: st.DrawFn, writer: Writer, names: Iterator[str]) -> None:
    prompts = [writer.start_turn()]
    for _ in range(draw(st.integers(1, 3))):
        writer.start_step(*prompts)
        prompts = []
        writer.chunks(*draw(st.lists(st.sampled_from(["a", " ", "b\n"]), max_size=3)))
        if draw(st.booleans()):
            writer.queue(next(names))
        calls = [call(next(names)) for _ in range(draw(st.integers(0, 3)))]
        writer.reply(text("so"), *calls)
        for asked in calls:
            play_call(draw, writer, asked)
        writer.end_step()
    writer.end_turn()


def play_call(draw: st.DrawFn, writer: Writer, asked: ToolCallBlock) -> None:
    writer.record(asked)
    if draw(st.booleans()):
        writer.prepare(asked.id)
        writer.ask(asked.id)
        writer.decide(asked.id, draw(st.sampled_from(["allowed-once", "rejected"])))
    if draw(st.booleans()):
        writer.started(asked.id)
    writer.answer(asked.id)


@given(whole_logs())
@settings(max_examples=40)
def test_a_log_cut_at_any_event_is_made_whole_once_and_always_the_same_way(events: list[Event]) -> None:
    assert check_log(events) == []
    for cut in range(len(events) + 1):
        prefix = events[:cut]
        closing = closers(prefix)
        repaired = [*prefix, *closing]
        assert closers(prefix) == closing
        assert closers(repaired) == []
        assert check_log(repaired) == []
        assert_nothing_is_lost(repaired)


@given(whole_logs(), st.data())
@settings(max_examples=40)
def test_a_repair_that_is_cut_off_itself_is_finished_by_the_next_one(events: list[Event], data: st.DataObject) -> None:
    prefix = events[: data.draw(st.integers(0, len(events)))]
    closing = closers(prefix)
    for cut in range(len(closing)):
        first = [*prefix, *closing[:cut]]
        repaired = [*first, *closers(first)]
        assert closers(repaired) == []
        assert check_log(repaired) == []
        assert_nothing_is_lost(repaired)
        assert types(repaired) == types([*prefix, *closing])


def assert_nothing_is_lost(events: list[Event]) -> None:
    """Every prompt is in the conversation once unless it was discarded; every call has its result there."""
    typed, discarded = [], set()
    queue: list[str] = []
    for event in events:
        if isinstance(event.data, InboxSpliced):
            splice = event.data
            gone = queue[splice.start : splice.start + (splice.removed_count or 0)]
            queue[splice.start : splice.start + len(gone)] = [message.id for message in splice.inserted]
            typed += [message.id for message in splice.inserted]
            discarded |= set(gone) if splice.outcome else set()
    messages = derive_messages(events)
    for message_id in typed:
        count = sum(message.id == message_id for message in messages)
        assert count == 1 or (count == 0 and message_id in discarded)
    calls = [b.id for m in messages for b in m.content if isinstance(b, ToolCallBlock)]
    logged = [e.data.block.tool_call_id for e in events if isinstance(e.data, ToolResult)]
    assert sorted(calls) == sorted(logged)

"""The checker of the structural rules: silent on what the loop writes, one sentence per breach (contracts §1.8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from acp_bridge.session.check import StructureChecker, check_log
from acp_bridge.session.chunks import Failure, TextDelta
from acp_bridge.session.content import UserSource, text_message
from acp_bridge.session.events import (
    AbortReason,
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    Body,
    EndSeed,
    Event,
    InboxSpliced,
    PresetSet,
    RequestContext,
    StepEnd,
    StepStart,
    SurfaceReplace,
    Todo,
    TodoWrite,
    ToolCallEvent,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from acp_bridge.session.log import Sources
from acp_bridge.session.surface import surface
from tests.session.writing import Writer, call, result, text

COMPLETED = TurnEndReason("completed")


def sound() -> Writer:
    """A turn at rest, then one whose model has asked for two calls: the first is recorded, the second is not."""
    writer = Writer()
    writer.whole_turn("p0", [[text("so"), call("old")], [text("done")]])
    writer.prompt("p1")
    writer.chunks("so")
    writer.reply(text("so"), call("a"), call("b"))
    writer.record(call("a"))
    return writer


def problems(writer: Writer, start: int) -> list[str]:
    return [line.split(": ", 1)[1].rstrip(".") for line in check_log(writer.events) if _seq(line) >= start]


def _seq(line: str) -> int:
    return int(line.split(":")[0].removeprefix("Event "))


def test_what_the_loop_writes_is_sound_at_every_point_of_it() -> None:
    writer = sound()
    writer.prepare("a")
    writer.ask("a")
    writer.decide("a")
    writer.started("a")
    writer.add(TodoWrite((Todo("x", "pending"),)))
    writer.answer("a")
    writer.run(call("b"))
    writer.end_step()
    writer.queue("p2")
    writer.end_turn(TurnEndReason("aborted", reason=AbortReason("user")))
    writer.discard()
    for body in (EndSeed(), PresetSet("ask")):
        writer.add(body)
    assert check_log(writer.events) == []
    assert check_log(writer.log.events, gaps=True) == []


def test_the_checker_knows_whether_the_log_is_at_rest() -> None:
    checker, writer = StructureChecker(), Writer()
    assert checker.at_rest
    writer.prompt("p1")
    for event in writer.events:
        checker.observe(event)
    assert not checker.at_rest


def test_a_log_in_memory_has_gaps_and_is_checked_as_such_only_when_said_so() -> None:
    writer = sound()
    assert any("is due" in line for line in check_log(writer.log.events))
    assert check_log(writer.log.events, gaps=True) == []
    backwards = [writer.events[1], writer.events[0]]
    assert any("is due" in line for line in check_log(backwards, gaps=True))


def test_unknown_types_are_unconstrained() -> None:
    assert check_log([Event("later/thing", 0, 5, {"turn": 9}, ignorable=True)]) == []


Breach = Callable[[Writer], object]


def add(*bodies: Body) -> Breach:
    return lambda writer: [writer.add(body) for body in bodies]


def cite(body: Body, *sources: int) -> Breach:
    return lambda writer: writer.add(body, tuple(sources))


def do(*steps: Breach) -> Breach:
    return lambda writer: [step(writer) for step in steps]


def splice(start: int, removed: int | None, *ids: str) -> InboxSpliced:
    return InboxSpliced("next-turn", start, tuple(text_message(i, i, UserSource()) for i in ids), removed)


def user(message_id: str) -> UserMessage:
    return UserMessage(message_id, "user", (text("x"),), UserSource())


at_rest = do(lambda w: w.answer("a"), lambda w: w.run(call("b")), lambda w: w.end_step(), lambda w: w.end_turn())
after_step = do(lambda w: w.answer("a"), lambda w: w.run(call("b")), lambda w: w.end_step())

BREACHES: Sequence[tuple[str, Breach, Breach, list[str]]] = [
    # name, what comes before, the breach, what the checker says of it
    ("turn in turn", do(), add(TurnStart(3)), ["turn 3 starts inside turn 2"]),
    ("turn number", at_rest, add(TurnStart(4)), ["turn 4 follows turn 2"]),
    ("end of no turn", at_rest, add(TurnEnd(2, COMPLETED)), ["turn 2 ends while no turn is open"]),
    ("end of another turn", after_step, add(TurnEnd(1, COMPLETED)), ["turn 1 ends while turn 2 is open"]),
    (
        "turn ends in step",
        do(lambda w: w.answer("a"), lambda w: w.run(call("b"))),
        add(TurnEnd(2, COMPLETED)),
        ["turn 2 ends while step 1 is open"],
    ),
    ("error without one", after_step, add(TurnEnd(2, TurnEndReason("error"))), ["a turn ends error without an error"]),
    (
        "completed with an error",
        after_step,
        add(TurnEnd(2, TurnEndReason("completed", Failure("x", "y")))),
        ["a turn ends completed with an error"],
    ),
    (
        "abort without cause",
        after_step,
        add(TurnEnd(2, TurnEndReason("aborted"))),
        ["a turn ends aborted without a cause"],
    ),
    ("step outside", at_rest, add(StepStart(2, 2)), ["a step of turn 2 starts while no turn is open"]),
    ("step in step", do(), add(StepStart(2, 2)), ["step 2 starts inside step 1"]),
    ("step number", after_step, add(StepStart(2, 3)), ["step 3 follows step 1"]),
    (
        "end of another step",
        do(lambda w: w.answer("a"), lambda w: w.run(call("b"))),
        add(StepEnd(2, 2)),
        ["it belongs to turn 2, step 2, but turn 2 and step 1 are open"],
    ),
    ("unanswered", do(), add(StepEnd(2, 1)), ["the step ends without a result of 'a', 'b'"]),
    (
        "chunk outside",
        after_step,
        add(AssistantChunk(2, 1, TextDelta(0, "x"))),
        ["it belongs to turn 2, step 1, but turn 2 and no step are open"],
    ),
    ("chunk after reply", do(), add(AssistantChunk(2, 1, TextDelta(0, "x"))), ["a chunk after the reply of its step"]),
    (
        "second reply",
        do(),
        lambda w: w.reply(text("again")),
        [
            "a chunk after the reply of its step",
            "a second reply in one step",
            "the message id 'assistant-2-1' was used before",
        ],
    ),
    (
        "reused call id",
        do(after_step, lambda w: w.start_step()),
        lambda w: w.reply(call("old")),
        ["the call id 'old' was used before"],
    ),
    (
        "call in an interrupted reply",
        do(after_step, lambda w: w.start_step()),
        lambda w: w.reply(call("c"), interrupted=True),
        ["an interrupted reply holds the call 'c'"],
    ),
    (
        "call nobody asked for",
        do(),
        add(ToolCallEvent(2, 1, "c", "x", "")),
        ["the reply of this step does not ask for the call 'c'"],
    ),
    ("call twice", do(), lambda w: w.record(call("a")), ["the call 'a' is recorded twice or after its result"]),
    (
        "call after result",
        lambda w: w.answer("a"),
        lambda w: w.record(call("a")),
        ["the call 'a' is recorded twice or after its result"],
    ),
    ("prepared before its call", do(), lambda w: w.prepare("b"), ["'b' is prepared, which is no open call"]),
    (
        "prepared twice",
        lambda w: w.prepare("a"),
        lambda w: w.prepare("a"),
        ["the call 'a' is prepared twice or after it started"],
    ),
    ("started before its call", do(), lambda w: w.started("b"), ["'b' starts, which is no open call"]),
    (
        "started after its result",
        lambda w: w.answer("a"),
        lambda w: w.started("a"),
        ["'a' starts, which is no open call"],
    ),
    ("started twice", lambda w: w.started("a"), lambda w: w.started("a"), ["the call 'a' starts twice"]),
    (
        "started in another step",
        do(),
        add(ToolStarted(2, 2, "a")),
        ["it belongs to turn 2, step 2, but turn 2 and step 1 are open"],
    ),
    ("result before its call", do(), add(result(2, 1, "b")), ["a result of 'b' before its tool/call"]),
    (
        "second result",
        lambda w: w.answer("a"),
        lambda w: w.answer("a"),
        ["the message id 'result-a' was used before", "a second result of 'a'"],
    ),
    ("result of nothing", do(), add(result(2, 1, "c")), ["a result of 'c', which this step does not ask for"]),
    ("result cites nothing", do(), add(result(2, 1, "a")), ["the result of 'a' does not cite its tool/call"]),
    (
        "not started, but it was",
        lambda w: w.started("a"),
        lambda w: w.add(result(2, 1, "a", code="TOOL_NOT_STARTED"), (w.events[-2].seq,)),
        ["the call 'a' is said not to have started, but it had"],
    ),
    ("question outside a turn", at_rest, add(ApprovalAsked("q", "touch")), ["approval/asked outside a turn"]),
    (
        "question twice",
        add(ApprovalAsked("q", "touch")),
        add(ApprovalAsked("q", "touch")),
        ["the question 'q' is asked twice"],
    ),
    ("question about no call", do(), lambda w: w.ask("b"), ["a question about 'b', which is no call that waits"]),
    (
        "question too late",
        lambda w: w.started("a"),
        lambda w: w.ask("a"),
        ["a question about 'a', which is no call that waits"],
    ),
    ("answer to nothing", do(), add(ApprovalDecided("q", "rejected")), ["an answer to 'q', which is no open question"]),
    (
        "undecided question",
        do(lambda w: w.ask("a"), after_step),
        add(TurnEnd(2, COMPLETED)),
        ["turn 2 ends with 1 of its questions undecided"],
    ),
    ("todos outside a turn", at_rest, add(TodoWrite(())), ["todo/write outside a turn"]),
    ("request outside a turn", at_rest, add(RequestContext("p", "m")), ["request/context outside a turn"]),
    ("message twice", do(), add(user("p0")), ["the message id 'p0' was used before"]),
    ("splice beyond the queue", do(), add(splice(0, 1)), ["a splice at 0 of 1 in a queue of 0"]),
    (
        "claim outside a turn",
        do(at_rest, add(splice(0, None, "p2"))),
        add(splice(0, 1)),
        ["messages are claimed outside a turn"],
    ),
    ("waits twice", add(splice(0, None, "p2")), add(splice(1, None, "p2")), ["a message waits twice"]),
    ("sources off the surface", do(), cite(EndSeed(), 0), ["session/end-seed cites sources"]),
    ("sources of the future", do(), cite(user("u"), 0, 99), ["its sources are not unique earlier seqs"]),
    ("sources twice", do(), cite(user("u"), 1, 1), ["its sources are not unique earlier seqs"]),
]


@pytest.mark.parametrize(("before", "breach", "said"), [row[1:] for row in BREACHES], ids=[row[0] for row in BREACHES])
def test_a_breach_is_told_in_words(before: Breach, breach: Breach, said: list[str]) -> None:
    writer = sound()
    before(writer)
    start = len(writer.events)
    assert problems(writer, 0) == []
    breach(writer)
    assert problems(writer, start) == said


def test_not_started_needs_no_record_of_the_call() -> None:
    writer = sound()
    writer.answer("a")
    writer.add(result(2, 1, "b", code="TOOL_NOT_STARTED"))
    assert check_log(writer.events) == []


def test_a_turn_that_a_repair_ended_may_leave_its_question_open() -> None:
    writer = sound()
    writer.ask("a")
    after_step(writer)
    writer.end_turn(TurnEndReason("interrupted"))
    assert check_log(writer.events) == []


def test_a_reply_may_cite_the_chunks_of_its_own_step_only() -> None:
    writer = Writer()
    writer.prompt("p1")
    writer.chunks("lost attempt")
    lost = writer.events[-1].seq
    writer.end_step()
    writer.start_step()
    writer.reply(text("so"))
    last = writer.events.pop()
    cited: Sources = (lost,)
    writer.events.append(msgspec.structs.replace(last, source_event_seqs=cited))
    assert problems(writer, last.seq) == ["the reply cites what is no chunk of its own step"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"seq": 7}, "seq 7 stands where seq 0 is due"),
        ({"type": "turn/end"}, "turn/end holds the data of turn/start"),
        ({"surface_op": "append"}, "surfaceOp is out of place on turn/start"),
    ],
)
def test_an_envelope_that_does_not_fit_its_data_is_told(wrong: dict[str, object], said: str) -> None:
    event = msgspec.structs.replace(Event("turn/start", 0, 5, TurnStart(1)), **wrong)
    assert said in check_log([event])[0]


def test_a_chunk_out_of_its_place_is_not_let_through_for_being_common() -> None:
    writer = Writer()
    writer.prompt("p1")
    writer.chunks("a")
    event = writer.events[-1]
    for wrong in ({"seq": 3}, {"surface_op": "append"}, {"source_event_seqs": (1,)}, {"type": "x"}):
        log = [*writer.events[:-1], msgspec.structs.replace(event, **wrong)]
        assert len(check_log(log)) >= 1


def condensed(replace: SurfaceReplace, sources: Sources) -> list[str]:
    """What is wrong with a message that takes the place of an earlier span, in a log that is sound without it."""
    writer = sound()
    message = text_message("summary", "in short", UserSource())
    body = UserMessage(message.id, message.role, message.content, message.source)
    last = writer.events[-1]
    event = Event(body.TYPE, last.seq + 1, last.time, body, replace, sources)
    return [line.split(": ", 1)[1].rstrip(".") for line in check_log([*writer.events, event])]


def surface_seqs() -> list[int]:
    return [event.seq for event in surface(sound().events)]


def test_a_replacement_shadows_a_span_of_the_surface_and_cites_all_of_it() -> None:
    nodes = surface_seqs()
    whole = SurfaceReplace(nodes[0], nodes[-1])
    assert condensed(whole, tuple(nodes)) == []
    assert condensed(whole, tuple(nodes[1:])) == ["it does not cite all that it replaces"]
    backwards = SurfaceReplace(nodes[-1], nodes[0])
    assert condensed(backwards, tuple(nodes)) == [
        f"it replaces {nodes[-1]} to {nodes[0]}, which is no span of the surface"
    ]


def test_a_result_replaces_exactly_one_result() -> None:
    writer = sound()
    target = next(event for event in writer.events if isinstance(event.data, ToolResult))
    seq, before = writer.events[-1].seq + 1, surface_seqs()[0]
    for start, end, said in (
        (target.seq, target.seq, []),
        (before, target.seq, ["a result replaces something else than one result"]),
        (before, before, ["a result replaces something else than one result"]),
    ):
        sources = tuple(node for node in surface_seqs() if start <= node <= end)
        event = Event(target.type, seq, target.time, target.data, SurfaceReplace(start, end), sources)
        assert [line.split(": ", 1)[1].rstrip(".") for line in check_log([*writer.events, event])] == said

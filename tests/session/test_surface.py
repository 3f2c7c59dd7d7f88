"""What appending and replacing do to what the model sees, and that nobody else is shown less (contracts §1.1)."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.bridge.project import Projection
from acp_bridge.session.content import UserSource, text_message, text_of
from acp_bridge.session.derive import derive_messages
from acp_bridge.session.events import Event, Presentation, SurfaceReplace, UserMessage
from acp_bridge.session.repair import closers
from acp_bridge.session.surface import surface
from tests.session.writing import Writer, call, result, text

spans = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12)


def said(seq: int, replace: SurfaceReplace | None = None) -> Event:
    message = text_message(f"m{seq}", f"m{seq}", UserSource())
    body = UserMessage(message.id, message.role, message.content, message.source)
    return Event(body.TYPE, seq, 0, body, replace or "append")


def seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in surface(events)]


def test_a_replacement_takes_the_place_of_its_span() -> None:
    log = [*map(said, range(5)), said(5, SurfaceReplace(1, 3))]
    assert seqs(log) == [0, 5, 4]
    # Position counts, not the number: 5 stands before 4 now.
    assert seqs([*log, said(6, SurfaceReplace(5, 4))]) == [0, 6]


@given(spans)
def test_nothing_said_is_lost_to_a_span_that_is_not_there(replacements: list[tuple[int, int]]) -> None:
    log = [said(seq) for seq in range(4)]
    for start, end in replacements:
        before = seqs(log)
        log.append(said(len(log), SurfaceReplace(start, end)))
        there = start in before and end in before and before.index(start) <= before.index(end)
        dropped = before[before.index(start) : before.index(end) + 1] if there else []
        assert [seq for seq in before if seq not in dropped] == [seq for seq in seqs(log) if seq != log[-1].seq]
        assert (seqs(log).index(log[-1].seq) == before.index(start)) if there else seqs(log)[-1] == log[-1].seq


def test_the_model_is_told_the_replacement_and_the_editor_still_shows_what_was_said() -> None:
    writer = Writer()
    writer.whole_turn("p0", [[text("first answer"), call("c")], [text("second answer")]])
    shown = shown_by(writer.events)
    nodes = seqs(writer.events)
    writer.events.append(said(writer.events[-1].seq + 1, SurfaceReplace(nodes[0], nodes[-1])))
    assert [text_of(message.content) for message in derive_messages(writer.events)] == [f"m{writer.events[-1].seq}"]
    assert shown_by(writer.events) == shown


def test_a_pruned_result_is_what_the_model_gets_and_answers_no_open_call() -> None:
    writer = Writer()
    writer.prompt("p0")
    writer.reply(text("so"), call("a"), call("b"))
    writer.record(call("a"))
    writer.answer("a")
    target = writer.events[-1]
    pruned = result(1, 1, "a", words="[pruned]")
    writer.events.append(Event(pruned.TYPE, target.seq + 1, 0, pruned, SurfaceReplace(target.seq, target.seq)))
    answers = [message for message in derive_messages(writer.events) if message.source == pruned.message.source]
    assert answers == [pruned.message]
    assert [event.type for event in closers(writer.events)] == ["tool/result", "step/end", "turn/end"]


def shown_by(events: Sequence[Event]) -> list[object]:
    projection = Projection(lambda name, arguments, cwd: Presentation(name, "other"), "/p")
    return [update for event in events for update in projection.replay(event)]

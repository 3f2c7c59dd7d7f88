"""What a load replays equals what was sent live (design §13), for logs as the loop writes them, cut anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.agent.agent import Agent
from acp_bridge.bridge.live import LiveSession
from acp_bridge.bridge.project import Projection
from acp_bridge.session.chunks import (
    Assembly,
    BlockEnd,
    BlockStart,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    interrupted_blocks,
)
from acp_bridge.session.content import ReasoningBlock, TextBlock, ToolCallBlock
from acp_bridge.session.events import Event, Presentation, PresetSet, Todo, TodoWrite, TurnEndReason
from acp_bridge.session.log import SessionLog
from acp_bridge.session.repair import closers
from acp_bridge.session.session import Session
from acp_bridge.wire.acp_types import CurrentModeUpdate, Update, UserMessageChunk
from tests.session.writing import HEADER, Writer
from tests.support.quiet import QUIET

pytestmark = pytest.mark.anyio

# No piece is blank: of an interrupted reply, recovery drops blocks that hold nothing else (contracts §1.6).
PIECES = st.lists(st.text("ab \n", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=3)
BLOCKS = st.lists(st.sampled_from(["text", "reasoning", "call"]), max_size=5).map(
    lambda kinds: [kind for number, kind in enumerate(kinds) if kind == "call" or kinds[number - 1 : number] != [kind]]
)


class Author:
    """Draws a log. Blocks of a reply follow each other, as every adapter yields them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._writer = Writer()
        self._calls = 0

    def turn(self, number: int) -> None:
        writer, draw = self._writer, self._draw
        if draw(st.booleans()):
            writer.add(PresetSet(draw(st.sampled_from(["ask", "read-only"]))))
        writer.prompt(f"p{number}")
        for more in range(draw(st.integers(0, 2)), -1, -1):
            ending = draw(st.sampled_from(["stop", "stop", "error", "cancelled"]))
            self._step(ending)
            writer.end_step()
            if ending != "stop" or not more:
                break
            writer.start_step()
        writer.end_turn(TurnEndReason("completed"))

    def _step(self, ending: str) -> None:
        for index, kind in enumerate(self._draw(BLOCKS)):
            self._block(index, kind, whole=ending == "stop" or self._draw(st.booleans()))
        chunks = [event.data.chunk for event in self._writer.log.open_chunks]
        if ending != "stop":
            kept = interrupted_blocks(chunks)
            if kept:
                self._writer.reply(*kept, interrupted=True)
            return
        assembly = Assembly()
        for chunk in chunks:
            assembly.add(chunk)
        self._writer.reply(*assembly.blocks())
        for block in assembly.blocks():
            if isinstance(block, ToolCallBlock):
                self._call(block)

    def _block(self, index: int, kind: str, *, whole: bool) -> None:
        pieces = self._draw(PIECES)
        if kind == "call":
            self._calls += 1
            id, name = f"c{self._calls}", self._draw(st.sampled_from(["touch", "no_such_tool"]))
            self._writer.chunks(BlockStart(index, "tool-call"))
            self._writer.chunks(*(ToolCallDelta(index, id, piece, name) for piece in pieces))
            ended: Any = ToolCallBlock(id, name, "".join(pieces))
        elif kind == "text":
            self._writer.chunks(BlockStart(index, "text"), *(TextDelta(index, piece) for piece in pieces))
            ended = TextBlock("".join(pieces))
        else:
            self._writer.chunks(BlockStart(index, "reasoning"), *(ReasoningDelta(index, piece) for piece in pieces))
            ended = ReasoningBlock("".join(pieces))
        if whole:
            self._writer.chunks(BlockEnd(index, ended))

    def _call(self, asked: ToolCallBlock) -> None:
        writer, way = self._writer, self._draw(st.sampled_from(["run", "asked", "refused", "plan"]))
        writer.record(asked)
        if way != "refused":
            writer.prepare(asked.id)
        if way == "asked":
            writer.ask(asked.id)
            writer.decide(asked.id)
        if way != "refused":
            writer.started(asked.id)
        if way == "plan":
            writer.add(TodoWrite((Todo(asked.arguments, "in_progress"),)))
        writer.answer(asked.id)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """A whole log: turns, cut after any event and repaired, as after a crash there."""
    author = Author(draw)
    for number in range(draw(st.integers(1, 3))):
        author.turn(number)
    events = author._writer.events
    prefix = events[: draw(st.integers(0, len(events)))]
    return [*prefix, *closers(prefix)]


def present(name: str, arguments: Any, cwd: str) -> Presentation:
    return Presentation(f"{name} {arguments}", "other", ((cwd, 0),), text=str(arguments))


def projection() -> Projection:
    return Projection(present, "/project")


def merged(updates: Iterable[Update]) -> list[Any]:
    """Neighbouring chunks of one message as one. The two things that live and replay may differ in are left out."""
    found: list[Any] = []
    for update in updates:
        if isinstance(update, UserMessageChunk | CurrentModeUpdate):
            continue
        value = msgspec.to_builtins(update)
        last = found[-1] if found else {}
        if "messageId" in value and (value["messageId"], value["sessionUpdate"]) == (
            last.get("messageId"),
            last.get("sessionUpdate"),
        ):
            last["content"]["text"] += value["content"]["text"]
        else:
            found.append(value)
    return found


def live(events: Iterable[Event], view: Projection | None = None) -> list[Update]:
    view = view or projection()
    return [update for event in events for update in view.live(event)]


@given(logs())
def test_a_replay_equals_what_was_sent_live_after_merging_chunks(events: list[Event]) -> None:
    """Every card, diff, status and plan in the same order; a reply from its committed message, not from its chunks."""
    view = projection()
    replayed = [update for event in SessionLog(HEADER, events).events for update in view.replay(event)]
    assert merged(replayed) == merged(live(events))


@given(logs(), st.data())
async def test_a_load_at_any_moment_shows_what_was_and_goes_on_without_a_gap_or_a_repeat(
    events: list[Event], data: st.DataObject
) -> None:
    """The session is live: what was sent before, and what comes after, chunks of an open reply included."""
    moment = data.draw(st.integers(0, len(events)), label="events before the load")
    session = Session(SessionLog(HEADER, events[:moment]), ("/project",), QUIET)
    shown: list[Update] = []
    view = LiveSession(session, cast(Agent, None), projection)
    await view.replay(shown.append, _nobody_waits)
    for event in events[moment:]:
        shown += view.updates(event)
    assert merged(shown) == merged(live(events))


@given(logs())
def test_replays_of_one_log_are_the_same_however_often(events: list[Event]) -> None:
    """Ids and all, as field case R6 wants it."""
    log = SessionLog(HEADER, events)
    once, again = ([u for event in log.events for u in view.replay(event)] for view in (projection(), projection()))
    assert once == again


async def _nobody_waits() -> None:
    """Back-pressure of an editor that reads at once."""

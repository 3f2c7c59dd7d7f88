"""What the log says now: last values and open brackets, folded from events.

Owns: pure folds over committed events. Must not know: who asks. Invariant: the same events give the same answer,
whether they were appended live or read after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from acp_bridge.session.content import Message
from acp_bridge.session.events import (
    Body,
    Event,
    InboxSpliced,
    TurnEnd,
    TurnStart,
)

__all__ = ["inbox_lists", "last_body", "last_turn", "turn_is_open"]

B = TypeVar("B", bound=Body)


def last_body(events: Sequence[Event], body: type[B]) -> B | None:
    for event in reversed(events):
        if isinstance(event.data, body):
            return event.data
    return None


def turn_is_open(events: Sequence[Event]) -> bool:
    """Scan back to the last turn boundary (contracts §7.1)."""
    for event in reversed(events):
        if isinstance(event.data, TurnStart | TurnEnd):
            return isinstance(event.data, TurnStart)
    return False


def last_turn(events: Sequence[Event]) -> int:
    """The number of the last turn that started; 0 before the first."""
    started = last_body(events, TurnStart)
    return started.turn if started else 0


def inbox_lists(events: Iterable[Event]) -> dict[str, list[Message]]:
    """The two queues after every splice (contracts §2.1)."""
    lists: dict[str, list[Message]] = {"next-turn": [], "next-step": []}
    for event in events:
        splice = event.data
        if isinstance(splice, InboxSpliced):
            queue = lists[splice.target]
            queue[splice.start : splice.start + (splice.removed_count or 0)] = splice.inserted
    return lists

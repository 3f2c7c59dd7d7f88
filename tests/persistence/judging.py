"""Every state that a disk may be in after a power loss, collected while a script is played, and judged.

Owns: which states were possible when, and what must be true of each. Must not know: how the storage works inside.
Invariant: a state is judged by the most that anybody had been promised before it; one state counts once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from acp_bridge.errors import SessionNotFound
from acp_bridge.session.check import check_log
from acp_bridge.session.events import Event, ToolCallEvent, ToolResult
from acp_bridge.session.repair import closers
from tests.persistence.scripts import HEADER, Witness, live, repaired
from tests.support.model_disk import Image, ModelDisk

__all__ = ["Lost", "Need", "States", "judge"]


class Lost(AssertionError):
    """A state in which a promise is broken."""


@dataclass(frozen=True)
class Need:
    """What had been promised when the power went after `call`: see `Witness`."""

    call: str
    acked: int
    stored: bool
    ran: frozenset[str]


class States:
    """Watches a disk. `needs` maps every distinct state to the most that was promised before it."""

    def __init__(self, disk: ModelDisk, witness: Witness, *, limit: int, seed: int = 0) -> None:
        self.needs: dict[Image, Need] = {}
        self.moments = 0
        self._disk = disk
        self._witness = witness
        self._limit = limit
        self._dice = random.Random(seed)
        disk.observe = self._observe

    def _observe(self, call: str) -> None:
        self.moments += 1
        witness = self._witness
        need = Need(call, witness.acked, witness.stored, frozenset(witness.ran))
        for image in self._disk.after_power_loss(self._limit, self._dice):
            # Promises only become more, so the latest time is the strictest judge.
            self.needs[image] = need


async def judge(image: Image, need: Need, history: Iterable[Event]) -> list[Event]:
    """The power comes back: list, load, repair, and load again. Returns what was loaded. Raises Lost."""
    history = list(history)
    disk = ModelDisk(image)
    try:
        async with live(disk) as store:
            listed = [snapshot.header.id for snapshot in await store.list()]
            try:
                handle = await store.open(HEADER.id)
            except SessionNotFound:
                _require(not need.stored, "the session is gone", need)
                return []
            _require(listed == [HEADER.id], "the session is not listed", need)
            found = await handle.read()
            _require(found == history[: len(found)], "the log holds something else than was written", need)
            _require(len(found) >= need.acked, f"{len(found)} events of {need.acked} that were flushed", need)
            _judge_recovery(found, closers(found), need)
            whole = await repaired(handle, Witness()) if found else []
        async with live(disk) as store:
            again = await (await store.open(HEADER.id)).read()
            _require(again == whole and not closers(again), "the repaired log is another one the next time", need)
    except Exception as error:
        if isinstance(error, Lost):
            raise
        raise Lost(f"after {need.call}: {error!r}") from error
    _require(check_log(again) == [], "the repaired log breaks a rule", need)
    _require(disk.open_descriptors == [], "descriptors are left open", need)
    return found


def _judge_recovery(found: list[Event], closing: list[Event], need: Need) -> None:
    """By the witness: what ran is never called not started; and what is on record is never called that either."""
    recorded = {event.data.call_id for event in found if isinstance(event.data, ToolCallEvent)}
    answered = {event.data.block.tool_call_id for event in found if isinstance(event.data, ToolResult)}
    for event in closing:
        if isinstance(event.data, ToolResult):
            call_id, error = event.data.block.tool_call_id, event.data.error
            code = error.code if error else None
            expected = "TOOL_OUTCOME_UNKNOWN" if call_id in recorded else "TOOL_NOT_STARTED"
            _require(code == expected, f"call {call_id} is closed as {code}", need)
            _require(code != "TOOL_NOT_STARTED" or call_id not in need.ran, f"call {call_id} did run", need)
            answered.add(call_id)
    _require(need.ran <= answered, "a call that ran is not mentioned", need)


def _require(holds: bool, otherwise: str, need: Need) -> None:
    if not holds:
        raise Lost(f"after {need.call}: {otherwise}")

"""What a session's life asks of its storage, as a list that can be played again on any disk.

Owns: recording such a list from a real agent, and playing it against a store, with a witness of what really happened.
Must not know: what a disk may lose. Invariant: the witness learns of a flush only when it has returned, and of a tool's
effect only when its body runs, so whatever it knows must be found again.
"""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.session.events import Event
from acp_bridge.session.repair import closers
from acp_bridge.session.session import Session
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog
from acp_bridge_plugins.persistence_jsonl.handle import JsonlHandle
from acp_bridge_plugins.persistence_jsonl.store import JsonlStore
from acp_bridge_plugins.persistence_jsonl.threads import Threads
from tests.persistence.helpers import VOCABULARY, HandClock
from tests.support.fakes import FakeTool, ask_for, say
from tests.support.model_disk import Image, ModelDisk
from tests.support.rig import HEADER, Rig, ending, prompt

__all__ = [
    "EMPTY",
    "FLUSH",
    "HEADER",
    "ROOT",
    "WINDOW",
    "Ran",
    "Script",
    "Witness",
    "flush",
    "inline_threads",
    "live",
    "play",
    "recorded",
    "repaired",
]

ROOT = Path("/state/sessions")
EMPTY: Image = ((str(ROOT.parent), None),)
FLUSH = "flush"
WINDOW = "the window ends"


@dataclass(frozen=True)
class Ran:
    call_id: str


Script = list[Event | Ran | str]


@dataclass
class Witness:
    """`acked` of the `admitted` events were flushed, and `stored` says that a flush returned at all; `ran` are the
    calls whose effect is in the world."""

    admitted: list[Event] = field(default_factory=list)
    acked: int = 0
    stored: bool = False
    ran: set[str] = field(default_factory=set)


@pytest.fixture
def inline_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on a disk in memory waits, and a thread for each call would cost more than all else."""

    async def run(self: Threads, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(Threads, "run", run)


def blob(dice: random.Random, size: int) -> str:
    """Text that does not compress well."""
    return base64.b64encode(dice.randbytes(size * 3 // 4)).decode()


class _Scribe:
    name = "scribe"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, script: Script) -> None:
        self._script = script

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        self._script.append(event)

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        self._script.append(FLUSH)


async def recorded(
    *, seed: int, size: int, turns: int = 1, prior: Sequence[Event] = (), window_each: int | None = None
) -> Script:
    """A real agent's turns, each with two tool calls and replies of about `size` characters; with `window_each`, a
    window ends after so many events."""
    dice, script = random.Random(seed), Script()
    tool = FakeTool("touch")
    tool.on_execute = lambda execution: script.append(Ran(execution.call_id))
    replies = []
    first = sum(event.type == "turn/start" for event in prior) + 1
    for turn in range(first, first + turns):
        calls = [(f"c{turn}-{i}", "touch", f'{{"note": "{blob(dice, size)}"}}') for i in range(2)]
        replies += [ask_for(*calls, words=blob(dice, size)), say(*(blob(dice, size // 3) for _ in range(3)))]
    rig = Rig(*replies, tools=[tool], prior=prior, extra=[_Scribe(script)])
    async with rig.live() as agent:
        for turn in range(first, first + turns):
            await ending(agent.prompt(prompt(f"p{turn}")))
    return script if window_each is None else list(_with_windows(script, window_each))


def _with_windows(script: Script, each: int) -> Script:
    found: Script = []
    for number, item in enumerate(script):
        found += [item, WINDOW] if number % each == each - 1 else [item]
    return found


@asynccontextmanager
async def live(disk: ModelDisk, clock: HandClock | None = None) -> AsyncIterator[JsonlStore]:
    """A store on `disk`, as a process has it."""
    notes = Silent()
    async with anyio.create_task_group() as tasks:
        store = JsonlStore(
            Catalog(ROOT, VOCABULARY, notes, disk),
            VOCABULARY,
            tasks=tasks,
            diagnostics=notes,
            handles={},
            clock=(clock or HandClock()).clock,
        )
        try:
            yield store
        finally:
            await store.close()
            tasks.cancel_scope.cancel()


async def play(script: Script, handle: JsonlHandle, witness: Witness, clock: HandClock) -> None:
    """Stops at the first flush that fails. Raises OSError."""
    for item in script:
        if isinstance(item, Event):
            witness.admitted.append(item)
            handle.admit(item)
        elif isinstance(item, Ran):
            witness.ran.add(item.call_id)
        elif item == WINDOW:
            await clock.advance(0.2)
        else:
            await flush(handle, witness)


async def flush(handle: JsonlHandle, witness: Witness) -> None:
    due = len(witness.admitted)
    await handle.flush()
    witness.acked, witness.stored = max(due, witness.acked), True


async def repaired(handle: JsonlHandle, witness: Witness) -> list[Event]:
    """What the agent does with a session that it loads. Returns the whole log."""
    witness.admitted = await handle.read()
    for event in closers(witness.admitted):
        witness.admitted.append(event)
        handle.admit(event)
    await flush(handle, witness)
    return witness.admitted

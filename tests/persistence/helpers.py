"""What the persistence tests share: events, stores, a clock that tests move, and a disk that fails on demand."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.session.chunks import TextDelta
from acp_bridge.session.codec import Vocabulary, encode_header
from acp_bridge.session.events import AssistantChunk, Body, Event, Header, StepStart, TurnEnd, TurnEndReason, TurnStart
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog
from acp_bridge_plugins.persistence_jsonl.frames import frame_encoder
from acp_bridge_plugins.persistence_jsonl.store import JsonlStore
from acp_bridge_plugins.persistence_jsonl.window import Clock

VOCABULARY = Vocabulary()


def header(session_id: str = "s1", cwd: str | None = "/project") -> Header:
    return Header(1, session_id, 1_700_000_000_000, cwd)


def event(seq: int, body: Body) -> Event:
    surface = "append" if type(body).SURFACE else None
    return Event(body.TYPE, seq, 1_700_000_000_000 + seq, body, surface)  # type: ignore[arg-type]  # the literal


def chunk(seq: int, text: str = "hello") -> Event:
    return event(seq, AssistantChunk(1, 1, TextDelta(0, text)))


def chunks(start: int, stop: int) -> list[Event]:
    return [chunk(seq, f"word {seq} ") for seq in range(start, stop)]


def turn(start: int = 0) -> list[Event]:
    """A turn of six events."""
    bodies: list[Body] = [TurnStart(1), StepStart(1, 1)]
    middle = chunks(start + 2, start + 5)
    ending = event(start + 5, TurnEnd(1, TurnEndReason("completed")))
    return [*(event(start + i, body) for i, body in enumerate(bodies)), *middle, ending]


def log_bytes(*batches: list[Event], head: Header | None = None) -> bytes:
    """A file as the plugin writes it: the header's frame, then one frame per batch."""
    encode = frame_encoder()
    frames = [encode(encode_header(head or header()))]
    frames += [encode(b"".join(map(VOCABULARY.encode_event, batch))) for batch in batches]
    return b"".join(frames)


def log_path(root: Path, session_id: str = "s1") -> Path:
    """Of a session in the default project of `header`."""
    return root / "--project--" / session_id / "session.v1.jsonl.zstd"


def stored(root: Path, data: bytes, session_id: str = "s1") -> Path:
    path = log_path(root, session_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class Notes(Silent):
    """Diagnostics that tests can read."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failures: list[BaseException] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def failure(self, what: str, error: BaseException) -> None:
        self.failures.append(error)


class HandClock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.time = 100.0
        self._sleepers: list[tuple[float, anyio.Event]] = []

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self._sleep_until)

    async def advance(self, seconds: float) -> None:
        """Returns when everything that the new time has woken waits again (for a thread, perhaps)."""
        await anyio.wait_all_tasks_blocked()
        self.time = round(self.time + seconds, 6)
        for deadline, awake in self._sleepers:
            if deadline <= self.time + 1e-9:
                awake.set()
        await anyio.wait_all_tasks_blocked()

    async def _sleep_until(self, deadline: float) -> None:
        awake = anyio.Event()
        self._sleepers.append((deadline, awake))
        if deadline <= self.time + 1e-9:
            awake.set()
        await awake.wait()


@asynccontextmanager
async def store_at(
    root: Path, *, clock: Clock | None = None, diagnostics: Silent | None = None, vocabulary: Vocabulary = VOCABULARY
) -> AsyncIterator[JsonlStore]:
    """A store whose background windows never end unless the test brings its own clock."""
    notes = diagnostics or Silent()
    async with anyio.create_task_group() as tasks:
        store = JsonlStore(
            Catalog(root, vocabulary, notes),
            vocabulary,
            tasks=tasks,
            diagnostics=notes,
            handles={},
            editor_name=lambda: "Zed",
            clock=clock or HandClock().clock,
        )
        try:
            yield store
        finally:
            await store.close()
            tasks.cancel_scope.cancel()


@dataclass
class Disk:
    """Fails system calls on session logs: `faults[name]` is a list of what the next calls do, None for nothing."""

    faults: dict[str, list[int | None]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def fail(self, name: str, *errors: int | None) -> None:
        self.faults[name] = list(errors)

    def always(self, name: str, error: int) -> None:
        self.faults[name] = [error] * 1000

    def heal(self) -> None:
        self.faults.clear()

    def hit(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        waiting = self.faults.get(name)
        number = waiting.pop(0) if waiting else None
        if number is not None:
            raise OSError(number, os.strerror(number))


FAILING = ("write", "fsync", "fdatasync", "ftruncate", "link")


def failing_disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Stands before the real calls; those on files that are no session log pass untouched."""
    disk = Disk()

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any) -> Any:
            if is_session_log(target):
                disk.hit(name)
            return real(target, *rest)

        return call

    for name in FAILING:
        monkeypatch.setattr(os, name, wrap(name, getattr(os, name)))
    return disk


def is_session_log(target: Any) -> bool:
    name = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
    return "session.v1" in name

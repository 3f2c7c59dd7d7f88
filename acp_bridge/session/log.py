"""The session log in memory.

Owns: appending (seq, time, one synchronous commit) and what is kept. Must not know: storage, hooks, ACP.
Invariant: `append` never awaits, so a seq is taken and published in one step. Chunk events are kept only while
their reply is open: once the `assistant/message` (or the step's end) commits they are on disk alone, so memory does
not grow with streamed text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from acp_bridge.session.events import AssistantChunk, AssistantMessage, Body, Event, Header, StepEnd

__all__ = ["SessionLog", "now_ms"]

Observer = Callable[[Event], None]
Sources = tuple[int | tuple[int, int], ...]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class SessionLog:
    """`clock` gives epoch milliseconds. `observer` is called after each commit; it must not raise."""

    def __init__(
        self,
        header: Header,
        events: Iterable[Event] = (),
        *,
        observer: Observer = lambda event: None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.header = header
        self._events: list[Event] = []
        self._chunks: list[Event] = []
        self._next_seq = 0
        self._observer = observer
        self._clock = clock
        self._publishing = False
        for event in events:
            self._keep(event)

    @property
    def next_seq(self) -> int:
        return self._next_seq

    @property
    def events(self) -> list[Event]:
        """Committed events in seq order, without the chunks of replies that are complete. Do not change it."""
        return self._events

    @property
    def open_chunks(self) -> list[Event]:
        """Chunk events of the reply being received."""
        return self._chunks

    def append(self, body: Body, *, sources: Sources | None = None) -> Event:
        """Commit one event and tell the observer.

        Raises RuntimeError when called from inside an observer: the order of events would become a matter of luck.
        """
        if self._publishing:
            raise RuntimeError("an observer of the session log tried to append to it")
        surface = "append" if type(body).SURFACE else None
        event = Event(body.TYPE, self._next_seq, self._clock(), body, surface, sources)  # type: ignore[arg-type]  # surface is the literal
        self._keep(event)
        self._publishing = True
        try:
            self._observer(event)
        finally:
            self._publishing = False
        return event

    def chunk_sources(self) -> Sources:
        """The chunk events of the open reply as runs."""
        return runs(event.seq for event in self._chunks)

    def _keep(self, event: Event) -> None:
        self._next_seq = event.seq + 1
        if type(event.data) is AssistantChunk:
            self._chunks.append(event)
            return
        if isinstance(event.data, AssistantMessage | StepEnd):
            self._chunks = []
        self._events.append(event)


def runs(seqs: Iterable[int]) -> Sources:
    """Ascending seqs with each run of three or more as `(start, end)` (contracts §5.5)."""
    found: list[list[int]] = []
    for seq in seqs:
        if found and seq == found[-1][1] + 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    out: list[int | tuple[int, int]] = []
    for start, end in found:
        out.extend([(start, end)] if end - start >= 2 else range(start, end + 1))
    return tuple(out)

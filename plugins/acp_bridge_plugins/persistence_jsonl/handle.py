"""A write handle with write-behind (contracts §5.1, §5.3).

Owns: events between "committed in memory" and "durable on disk", in order; when they are written, and what callers
of flush, append and close are told. Must not know: frames, files, names. Invariant: one mutation at a time; a batch
whose write failed stays in front of everything later; after a failure nothing is retried until somebody asks.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import NoReturn

import anyio

from acp_bridge.errors import SessionClosed
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.session.codec import MalformedRecord, Vocabulary
from acp_bridge.session.events import Event, Header
from acp_bridge_plugins.persistence_jsonl.session_file import SessionFile
from acp_bridge_plugins.persistence_jsonl.threads import Threads
from acp_bridge_plugins.persistence_jsonl.window import Clock, Window

__all__ = ["MOST_UNSAVED", "JsonlHandle"]

# Bytes of encoded events. 8 MiB is minutes of the fastest model stream and far below what an editor notices.
MOST_UNSAVED = 8 * 1024 * 1024


class JsonlHandle:
    """A `WriteHandle`; the seam says what its methods promise.

    `run` must be running for background writes. `loaded` is what the file held when it was opened.
    """

    def __init__(
        self,
        file: SessionFile,
        loaded: list[Event],
        *,
        vocabulary: Vocabulary,
        threads: Threads,
        diagnostics: Diagnostics,
        clock: Clock,
        on_closed: Callable[[], None],
    ) -> None:
        self._file = file
        self._loaded: list[Event] | None = loaded
        self._next_seq = len(loaded)
        self._vocabulary = vocabulary
        self._threads = threads
        self._diagnostics = diagnostics
        self._on_closed = on_closed
        self._pending: list[bytes] = []
        self._unsaved = 0
        self._failing = False
        self._refusal: OSError | None = None
        self._chain = anyio.Lock(fast_acquire=True)
        self._flight: _Flight | None = None
        self._window = Window(clock, self._write_behind)
        self._timer = anyio.CancelScope()
        self._closing: anyio.Event | None = None
        self._released = False

    @property
    def header(self) -> Header:
        return self._file.header

    @property
    def published(self) -> bool:
        return self._file.published

    async def run(self) -> None:
        """The background task of the handle, until it is closed."""
        with self._timer:
            await self._window.run()

    def admit(self, event: Event) -> None:
        """Take a live event. Encoded at once: a copy that nobody can change, and its exact size.

        Raises OSError for one that can never be stored, and then takes no more; every flush raises it, too.
        """
        if self._refusal is not None:
            self._ignore_late_event()
            return
        if event.seq != self._next_seq:
            self._refuse(errno.EINVAL, f"event {event.seq} came where event {self._next_seq} is due")
        try:
            line = self._vocabulary.encode_event(event)
        except MalformedRecord as error:
            self._refuse(errno.EILSEQ, str(error))
        self._next_seq += 1
        self._pending.append(line)
        self._unsaved += len(line)
        if not self._window.is_open and not self._failing:
            self._window.open()

    async def relieve(self) -> None:
        """Wait while too much is unsaved. Raises like `flush`: a full disk must not become a full memory."""
        if self._unsaved > MOST_UNSAVED:
            await self.flush()

    async def read(self) -> list[Event]:
        self._require_open()
        async with self._chain:
            stored, self._loaded = self._loaded, None
            if stored is None:
                stored = await self._threads.run(self._file.read_back)
            return stored + [self._vocabulary.decode_event(line) for line in self._pending]

    async def append(self, events: Sequence[Event]) -> None:
        self._require_open()
        if not events:
            return
        with anyio.CancelScope(shield=True):
            async with self._chain:
                await self._drain()
                await self._append(events)

    async def flush(self) -> None:
        self._require_open()
        flight = self._flight
        if flight is not None:
            await flight.landed.wait()
            if flight.failure is not None:
                raise flight.failure
            return
        flight = self._flight = _Flight()
        try:
            with anyio.CancelScope(shield=True):
                async with self._chain:
                    await self._drain(settle=True)
        except Exception as error:
            flight.failure = error
            raise
        finally:
            self._flight = None
            flight.landed.set()

    async def close(self) -> None:
        if self._closing is not None:
            await self._closing.wait()
            return
        self._closing = anyio.Event()
        failures: list[Exception] = []
        with anyio.CancelScope(shield=True):
            async with self._chain:
                for step in (self._drain, self._release):
                    try:
                        await step()
                    except Exception as error:
                        failures.append(error)
        self._closing.set()
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("closing a session failed", failures)

    async def _release(self) -> None:
        # No await between the last look at the queue and this: an event that came later would be lost unseen.
        self._released = True
        self._refusal = self._refusal or OSError(errno.EBADF, "the session is closed")
        self._timer.cancel()
        try:
            await self._threads.run(self._file.close)
        finally:
            self._on_closed()

    async def _drain(self, *, settle: bool = False) -> None:
        """Write until nothing is left; `settle` also pays what an empty or a torn file owes."""
        while self._pending or (settle and not self._file.settled):
            await self._write_pending()
        if self._refusal is not None:
            raise self._refusal

    async def _write_pending(self) -> None:
        self._window.close()
        lines, self._pending, size = self._pending, [], self._unsaved
        try:
            await self._store(lines)
        except BaseException:
            self._pending = lines + self._pending
            raise
        self._unsaved -= size

    async def _append(self, events: Sequence[Event]) -> None:
        for due, event in enumerate(events, self._next_seq):
            if event.seq != due:
                raise ValueError(f"event {event.seq} cannot be appended where event {due} is due")
        lines = [self._vocabulary.encode_event(event) for event in events]
        self._next_seq += len(lines)
        try:
            await self._store(lines)
        except BaseException:
            if not self._pending:
                self._next_seq -= len(lines)
            else:
                # Live events came meanwhile and follow this batch, so it must stay in front of them.
                self._pending = lines + self._pending
                self._unsaved += sum(map(len, lines))
            raise

    async def _store(self, lines: list[bytes]) -> None:
        self._loaded = None
        try:
            await self._threads.run(self._file.store, lines)
        except ExceptionGroup as group:
            self._stop_trying()
            first = group.exceptions[0]
            raise OSError(first.errno if isinstance(first, OSError) else errno.EIO, group.message) from group
        except BaseException:
            self._stop_trying()
            raise
        self._failing = False
        if self._pending and not self._window.is_open:
            self._window.open()

    def _stop_trying(self) -> None:
        self._failing = True
        self._window.close()

    async def _write_behind(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self._chain:
                if not self._pending:
                    return
                try:
                    # One batch only: what comes meanwhile has a window of its own.
                    await self._write_pending()
                except Exception as error:
                    what = f"saving session {self.header.id} in the background failed; the next flush tries again"
                    self._diagnostics.failure(what, error)

    def _refuse(self, number: int, reason: str) -> NoReturn:
        self._refusal = OSError(number, reason)
        raise self._refusal

    def _ignore_late_event(self) -> None:
        # What stopped it was raised once already; only an event after the close is news.
        if self._released:
            raise SessionClosed(self.header.id)

    def _require_open(self) -> None:
        if self._closing is not None:
            raise SessionClosed(self.header.id)


class _Flight:
    """A flush under way, for those who ask for the same."""

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.failure: Exception | None = None

"""Loads and closes of one session, one after the other in the order in which they were read.

Owns: who is next, and waiting for those before. Must not know: what a load or a close does.
Invariant: a place is taken without awaiting, so that whatever the editor sent after a load, even in the same write,
finds it under way; a place that is given up (a cancelled request) lets nobody pass those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import anyio

__all__ = ["Changes", "Place"]


class Changes:
    def __init__(self) -> None:
        self._last: dict[str, Place] = {}

    def under_way(self, session_id: str) -> bool:
        return session_id in self._last

    async def settled(self, session_id: str) -> None:
        """Wait until everything that was under way when this was called is over."""
        last = self._last.get(session_id)
        if last is not None:
            await last.over()

    def place(self, session_id: str) -> Place:
        """The next place. Whoever takes it must enter and leave it; nothing after it happens before that."""
        place = self._last[session_id] = Place(self._last.get(session_id), lambda: self._tidy(session_id))
        return place

    def _tidy(self, session_id: str) -> None:
        last = self._last.get(session_id)
        if last is not None and last.is_over:
            del self._last[session_id]


class Place:
    """Entered, it waits for those before; left, it lets the next one in."""

    def __init__(self, before: Place | None, left: Callable[[], None]) -> None:
        self._before = before
        self._left = left
        self._done = anyio.Event()

    @property
    def is_over(self) -> bool:
        return self._done.is_set() and (self._before is None or self._before.is_over)

    async def over(self) -> None:
        """Wait for this one and for those before it."""
        await self._wait_for_others()
        await self._done.wait()

    async def __aenter__(self) -> None:
        try:
            await self._wait_for_others()
        except BaseException:
            self._end()
            raise

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._end()

    async def _wait_for_others(self) -> None:
        if self._before is not None:
            await self._before.over()
            self._before = None

    def _end(self) -> None:
        self._done.set()
        self._left()

"""A re-armable event for tasks of one loop. Owns nothing but the waiting.

Invariant: `wait` returns at the next `wake` after it was called, so callers loop: `while not ready: await wait()`.
"""

from __future__ import annotations

import anyio

__all__ = ["Wakeup"]


class Wakeup:
    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def wake(self) -> None:
        """Costs an attribute test when nobody waits."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()

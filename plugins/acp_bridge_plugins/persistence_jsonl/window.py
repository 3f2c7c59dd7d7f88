"""The write-behind window: one fixed delay from the first event, never pushed back (contracts §5.3).

Owns: when a background write is due. Must not know: what is written. Invariant: `opened` to expiry takes exactly
the window, whatever happens in between, unless it is closed first; an expiry that takes longer than the next
window is followed by the next at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct

__all__ = ["SECONDS", "Clock", "Window"]

SECONDS = 0.2  # contracts §5.3: fixed, not a setting


class Clock(Struct, frozen=True):
    """Monotonic seconds, and a way to wait for them."""

    now: Callable[[], float] = anyio.current_time
    sleep_until: Callable[[float], Awaitable[None]] = anyio.sleep_until


class Window:
    def __init__(self, clock: Clock, expired: Callable[[], Awaitable[None]]) -> None:
        self.is_open = False
        self._clock = clock
        self._expired = expired
        self._opened = anyio.Event()
        self._deadline = 0.0

    def open(self) -> None:
        """Must not be open. Costs a clock reading, so not for every event."""
        self.is_open = True
        self._deadline = self._clock.now() + SECONDS
        self._opened.set()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._opened = anyio.Event()

    async def run(self) -> None:
        """Until cancelled. `expired` must not raise."""
        while True:
            await self._opened.wait()
            deadline = self._deadline
            await self._clock.sleep_until(deadline)
            # Closed meanwhile, and perhaps opened again with a later deadline.
            if self.is_open and self._deadline == deadline:
                self.close()
                await self._expired()

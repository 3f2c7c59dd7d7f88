"""The one way from the event loop to blocking file work.

Owns: the bound on threads. Must not know: what runs in them. Invariant: work that has begun is always awaited to its
end, so that a cancelled caller never leaves half an append behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

__all__ = ["Threads"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Sessions write independently; more threads than this would only queue at the disk.
MOST = 4


class Threads:
    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(MOST)

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        return await anyio.to_thread.run_sync(function, *args, limiter=self._limiter)

"""Standard output and standard error, written in order and without stopping the agent.

Owns: what is not written yet. Must not know: what it means.
Invariant: a slow reader delays nothing but the output; a reader that is gone is told once, and what was for it is
dropped; a signal is heard while a write waits.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable

import anyio

__all__ = ["STDERR", "STDOUT", "Output"]

STDOUT, STDERR = 1, 2

# Bytes that a pipe takes at once when it says that it is writable (PIPE_BUF of Linux).
PIECE = 4096


class Output:
    """Made inside the event loop; `on_gone` is called when nobody reads stdout any more."""

    def __init__(self, on_gone: Callable[[], None]) -> None:
        self._on_gone = on_gone
        self._queue: deque[tuple[int, bytes]] = deque()
        self._wake = anyio.Event()
        self._empty = anyio.Event()
        self._empty.set()
        self._gone: set[int] = set()

    def write(self, fd: int, text: str) -> None:
        if text:
            self.write_bytes(fd, text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, fd: int, data: bytes) -> None:
        self._queue.append((fd, data))
        if self._empty.is_set():
            self._empty = anyio.Event()
        self._wake.set()

    async def drained(self) -> None:
        """Wait until everything so far is written, or has nobody to read it."""
        await self._empty.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._queue:
                await self._write(*self._queue.popleft())
            self._empty.set()

    async def _write(self, fd: int, data: bytes) -> None:
        left = memoryview(data)
        waits = _can_wait(fd)
        while left and fd not in self._gone:
            if waits:
                await anyio.wait_writable(fd)
            try:
                left = left[os.write(fd, left[:PIECE]) :]
            except BlockingIOError:
                continue
            except OSError:
                self._lose(fd)

    def _lose(self, fd: int) -> None:
        self._gone.add(fd)
        if fd == STDOUT:
            self._on_gone()


def _can_wait(fd: int) -> bool:
    """Files and /dev/null take everything at once, and epoll refuses them."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)

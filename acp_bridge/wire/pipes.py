"""Reading and writing of one descriptor each, without blocking the loop. Owns: waiting, partial writes, hang-ups.

Must not know: frames. Invariants: bytes leave in order and all of them unless the reader is gone; a gone reader is
a state (`broken`), never an exception. To be called from the loop's own thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import anyio
import anyio.lowlevel

from acp_bridge.wire.wakeup import Wakeup

__all__ = ["PipeReader", "PipeWriter"]

_SMALL_READ = 64 * 1024  # a full pipe on Linux
_LARGE_READ = 1024 * 1024


class PipeReader:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = _SMALL_READ
        self._pollable = True
        self._hung_up = False
        self._waiting: anyio.CancelScope | None = None

    async def read(self) -> bytes:
        """The next bytes; empty at the end of the stream, after an error of the descriptor and after `hang_up`."""
        while await self._readable():
            try:
                data = os.read(self._fd, self._size)
            except BlockingIOError:
                continue
            except OSError:
                break
            self._size = min(2 * self._size, _LARGE_READ) if len(data) == self._size else _SMALL_READ
            return data
        return b""

    def hang_up(self) -> None:
        self._hung_up = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _readable(self) -> bool:
        """False once hung up."""
        if self._hung_up:
            return False
        if self._pollable:
            await self._poll()
        else:
            await anyio.lowlevel.checkpoint()
        return not self._hung_up

    async def _poll(self) -> None:
        with anyio.CancelScope() as self._waiting:
            try:
                await anyio.wait_readable(self._fd)
            except OSError:
                # epoll refuses regular files and /dev/null with EPERM, but they never block; for the rest, such as
                # EBADF, os.read tells.
                self._pollable = False
            finally:
                self._waiting = None


class PipeWriter:
    """One task (`run`) writes; everything appended in one turn of the loop goes out in one write."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._buffer = bytearray()
        self._filled = Wakeup()
        self._progress = Wakeup()
        self._relaxed = False
        self.broken = False

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def append(self, frame: bytes) -> None:
        if not self.broken:
            self._buffer += frame
            self._filled.wake()

    async def drain(self, limit: int) -> None:
        while len(self._buffer) > limit and not self._relaxed:
            await self._progress.wait()

    async def flush(self) -> None:
        while self._buffer:
            await self._progress.wait()

    def relax(self) -> None:
        self._relaxed = True
        self._progress.wake()

    def abandon(self) -> None:
        """Nothing more will be written; nobody waits for it any longer."""
        self.broken = True
        self._buffer.clear()
        self._progress.wake()

    async def run(self) -> None:
        """Write for ever; return when the reader is gone."""
        try:
            while True:
                await self._write_buffer()
                await self._filled.wait()
        except OSError:
            # Mostly EPIPE, ECONNRESET or EBADF; whatever it is, this descriptor takes no more frames.
            self.abandon()
            self._on_broken()

    async def _write_buffer(self) -> None:
        while self._buffer:
            try:
                written = os.write(self._fd, self._buffer)
            except BlockingIOError:
                await anyio.wait_writable(self._fd)
                continue
            del self._buffer[:written]
            self._progress.wake()

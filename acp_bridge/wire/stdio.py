"""Standard input and output as the connection to the editor. The only module that touches fd 0 and fd 1.

`claim_stdio` runs before heavy imports, so this module imports the standard library only; the rest of the wire is
imported when the transport is made. Invariant: after the claim nothing but a StdioTransport can reach the wire:
prints, tracebacks and children write to stderr and read /dev/null (field cases P2, P3).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from acp_bridge.errors import ConnectionClosed

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.abc import TaskGroup

    from acp_bridge.wire.jsonrpc import Line

__all__ = ["FLUSH_SECONDS", "StdioFds", "StdioTransport", "claim_stdio"]

FLUSH_SECONDS = 1.0
"""How long the exit waits for a reader that does not read: acpx allows about 1 s between EOF and SIGTERM."""


_claimed = False


class StdioFds(NamedTuple):
    """Private descriptors of the wire, above 2 and closed on exec."""

    reader: int
    writer: int


def claim_stdio() -> StdioFds:
    """Take the wire away from fd 0 and fd 1, which then mean /dev/null and stderr. Once per process.

    A descriptor that was closed at start counts as /dev/null, which reads as an immediate end of stream.

    Raises:
        RuntimeError: claimed before; a second owner would write its frames to stderr.
    """
    global _claimed
    if _claimed:
        raise RuntimeError("standard input and output were already claimed")
    _claimed = True
    for fd in (0, 1, 2):
        _ensure_open(fd)
    fds = StdioFds(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return fds


def _ensure_open(fd: int) -> None:
    try:
        os.fstat(fd)
    except OSError:
        # The lowest free number is `fd`, because all below it are open.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


class StdioTransport:
    """The Transport over two descriptors, which stay the caller's to close. Enter it once, inside the loop.

    Lines longer than `cap` bytes (default `jsonrpc.LINE_CAP`, 64 MiB) are refused one by one. A vanished reader
    (EPIPE while streaming, stdin still open) ends the stream for `receive` and makes `send` a no-op: field case L1.
    """

    def __init__(self, fds: StdioFds, cap: int | None = None) -> None:
        from acp_bridge.wire.jsonrpc import LINE_CAP, Framer
        from acp_bridge.wire.pipes import PipeReader, PipeWriter
        from acp_bridge.wire.transport import HIGH_WATER

        self._high_water = HIGH_WATER
        self._fds = fds
        self._framer = Framer(LINE_CAP if cap is None else cap)
        self._reader = PipeReader(fds.reader)
        self._writer = PipeWriter(fds.writer, on_broken=self._reader.hang_up)
        self._tasks: TaskGroup | None = None
        self._ended = False
        self._closed = False

    @property
    def buffered(self) -> int:
        return self._writer.buffered

    async def receive(self) -> list[Line]:
        while not self._ended:
            data = await self._reader.read()
            if not data:
                self._ended = True
                return self._framer.finish()
            if lines := self._framer.feed(data):
                return lines
        return []

    def send(self, frame: bytes) -> None:
        if self._closed:
            raise ConnectionClosed
        self._writer.append(frame)

    async def drain(self, limit: int | None = None) -> None:
        await self._writer.drain(self._high_water if limit is None else limit)

    async def flush(self) -> None:
        await self._writer.flush()

    def relax(self) -> None:
        self._writer.relax()

    async def __aenter__(self) -> Self:
        import anyio

        for fd in self._fds:
            os.set_blocking(fd, False)
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._writer.run)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        import anyio

        try:
            with anyio.move_on_after(FLUSH_SECONDS, shield=True):
                await self.flush()
        finally:
            self._closed = self._ended = True
            self._writer.abandon()
            await self._stop_writer()

    async def _stop_writer(self) -> None:
        try:
            if self._tasks is not None:
                self._tasks.cancel_scope.cancel()
                # Without the body's exception, which would come back wrapped in a group.
                await self._tasks.__aexit__(None, None, None)
        finally:
            # The flag belongs to the open file, which a terminal shares with the shell and with stderr.
            for fd in self._fds:
                with suppress(OSError):
                    os.set_blocking(fd, True)

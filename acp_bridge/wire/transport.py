"""What a dispatcher needs from a connection, and a pair of connected ends in memory.

Owns: the Transport contract and its back-pressure mark. Must not know: JSON-RPC, descriptors.
Invariant: frames arrive in the order of `send`; `receive` reports the end of the stream when the other side is gone.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from acp_bridge.errors import ConnectionClosed
from acp_bridge.wire.jsonrpc import LINE_CAP, Framer, Line
from acp_bridge.wire.wakeup import Wakeup

__all__ = ["HIGH_WATER", "MemoryTransport", "Transport", "memory_transports"]

HIGH_WATER = 1024 * 1024
"""Bytes that may wait for a slow reader before its producers are held up: far above a full pipe (64 KiB), far below
what an editor's memory would notice."""


class Transport(Protocol):
    async def receive(self) -> list[Line]:
        """The lines of the next read, at least one; an empty list means the end of the stream, for good."""
        ...

    def send(self, frame: bytes) -> None:
        """Append one line to the outgoing buffer. Dropped silently when the peer is gone: `receive` reports that,
        and an exception here would surface in whatever happened to be streaming.

        Raises:
            ConnectionClosed: this side was closed.
        """
        ...

    async def drain(self, limit: int = HIGH_WATER) -> None:
        """Back-pressure: wait while more than `limit` bytes are buffered; otherwise return without a checkpoint."""
        ...

    def relax(self) -> None:
        """End the back-pressure: from now on, and for those who wait now, `drain` returns. For teardown, which must
        not wait for an editor that stopped reading."""
        ...

    async def flush(self) -> None:
        """Wait until everything sent so far is out of this process, or cannot be any more."""
        ...


class MemoryTransport:
    """One end of a pair. A frame is out of it when sent; `drain` waits for the other end to read."""

    def __init__(self, cap: int) -> None:
        self._framer = Framer(cap)
        self._inbox = bytearray()
        self._changed = Wakeup()
        self._closed = False
        self._relaxed = False
        self._peer = self

    @property
    def buffered(self) -> int:
        return len(self._peer._inbox)

    async def receive(self) -> list[Line]:
        while not self._closed:
            if self._inbox:
                data = bytes(self._inbox)
                self._inbox.clear()
                self._peer._changed.wake()
                if lines := self._framer.feed(data):
                    return lines
            elif self._peer._closed:
                return self._framer.finish()
            else:
                await self._changed.wait()
        return []

    def send(self, frame: bytes) -> None:
        if self._closed:
            raise ConnectionClosed
        if not self._peer._closed:
            self._peer._inbox += frame
            self._peer._changed.wake()

    async def drain(self, limit: int = HIGH_WATER) -> None:
        while len(self._peer._inbox) > limit and not (self._relaxed or self._closed or self._peer._closed):
            await self._changed.wait()

    def relax(self) -> None:
        self._relaxed = True
        self._changed.wake()

    async def flush(self) -> None:
        return

    def close(self) -> None:
        self._closed = True
        self._inbox.clear()
        self._changed.wake()
        self._peer._changed.wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()


def memory_transports(cap: int = LINE_CAP) -> tuple[MemoryTransport, MemoryTransport]:
    """Two connected ends; what one sends the other receives."""
    left, right = MemoryTransport(cap), MemoryTransport(cap)
    left._peer, right._peer = right, left
    return left, right

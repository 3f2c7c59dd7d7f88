"""A dispatcher under test and the peer that drives it, over both transports."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from acp_bridge.wire.dispatcher import Dispatcher, NotificationHandler, RequestHandler
from acp_bridge.wire.stdio import StdioFds, StdioTransport
from acp_bridge.wire.transport import Transport, memory_transports


class Peer:
    """The other end. Speaks bytes, so that it can misbehave."""

    def __init__(self, transport: Transport, close: Callable[[], None]) -> None:
        self.transport = transport
        self.close = close
        self._frames: list[dict[str, Any]] = []

    def write(self, *frames: dict[str, Any] | bytes) -> None:
        """All of them in one write."""
        lines = (frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n" for frame in frames)
        self.transport.send(b"".join(lines))

    def call(self, id_: object, method: str, **params: object) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}

    async def next(self) -> dict[str, Any]:
        while not self._frames:
            lines = await self.transport.receive()
            assert lines, "the connection ended"
            self._frames += [json.loads(line) for line in lines if isinstance(line, bytes)]
        return self._frames.pop(0)

    async def silent(self) -> bool:
        """True when every frame was taken: a request that is answered at once comes back as the next frame."""
        self.write({"jsonrpc": "2.0", "id": "probe", "method": "no/such/method"})
        return bool((await self.next())["id"] == "probe")


Connection = tuple[Dispatcher, Peer, Transport]
Connect = Callable[..., AbstractAsyncContextManager[Connection]]
Ends = Callable[[], AbstractAsyncContextManager[tuple[Transport, Peer]]]


class Pipes:
    """Two pipes. `ours` is the agent's side, `theirs` the editor's."""

    def __init__(self) -> None:
        their_reader, our_writer = os.pipe()
        our_reader, their_writer = os.pipe()
        self.ours = StdioFds(our_reader, our_writer)
        self.theirs = StdioFds(their_reader, their_writer)

    def close(self, *fds: int) -> None:
        for fd in fds or (*self.ours, *self.theirs):
            with suppress(OSError):
                os.close(fd)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    both = Pipes()
    yield both
    both.close()


@pytest.fixture(params=["memory", "pipes"])
def ends(request: pytest.FixtureRequest, pipes: Pipes) -> Ends:
    @asynccontextmanager
    async def connected() -> AsyncIterator[tuple[Transport, Peer]]:
        if request.param == "memory":
            ours, theirs = memory_transports()
            async with theirs, ours:
                yield ours, Peer(theirs, theirs.close)
        else:
            async with StdioTransport(pipes.theirs) as far, StdioTransport(pipes.ours) as near:
                yield near, Peer(far, lambda: pipes.close(pipes.theirs.writer))

    return connected


@pytest.fixture
def connect(ends: Ends) -> Connect:
    @asynccontextmanager
    async def connected(
        requests: Mapping[str, RequestHandler] | None = None,
        notifications: Mapping[str, NotificationHandler] | None = None,
        **options: Any,
    ) -> AsyncIterator[Connection]:
        with anyio.fail_after(5):
            async with ends() as (transport, peer):
                dispatcher = Dispatcher(transport, requests or {}, notifications or {}, **options)
                async with dispatcher, anyio.create_task_group() as tasks:
                    tasks.start_soon(dispatcher.run)
                    yield dispatcher, peer, transport
                    dispatcher.stop()

    return connected

"""The demo's editor: drives a real agent process over real stdio, as an editor would.

Owns: the process, the connection, what the agent asks for. Must not know: the story that is told.
Invariant: everything shown came over the wire; the process is ended by its own id and always reaped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from msgspec import Raw

from acp_bridge.wire.dispatcher import Dispatcher, RequestContext
from acp_bridge.wire.stdio import StdioFds, StdioTransport

__all__ = ["DemoEditor", "started_agent"]

# Seconds. Far above what a local scripted run takes; a hang must end the demo with a message.
ANSWER_SECONDS = 60.0

OnUpdate = Callable[[dict[str, Any]], None]
OnPermission = Callable[[dict[str, Any]], Awaitable[str]]


class DemoEditor:
    """`on_permission` answers with an option id."""

    def __init__(self, process: subprocess.Popen[bytes], on_update: OnUpdate, on_permission: OnPermission) -> None:
        self.process = process
        self._on_update = on_update
        self._on_permission = on_permission
        self._dispatcher: Dispatcher | None = None

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        if self._dispatcher is None:
            raise RuntimeError("the demo's editor is not connected")
        result = await self._dispatcher.request(method, params, timeout=ANSWER_SECONDS)
        answer: dict[str, Any] = json.loads(bytes(result))
        return answer

    def kill(self) -> None:
        """kill -9, by its id."""
        self.process.kill()
        self.process.wait()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[DemoEditor]:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the agent was started without pipes")
        fds = StdioFds(self.process.stdout.fileno(), self.process.stdin.fileno())
        async with StdioTransport(fds) as transport:
            requests = {"session/request_permission": self._permission}
            dispatcher = Dispatcher(transport, requests, {"session/update": self._update})
            async with dispatcher, anyio.create_task_group() as tasks:
                self._dispatcher = dispatcher
                tasks.start_soon(dispatcher.run)
                yield self
                dispatcher.stop()

    def _update(self, params: Raw) -> None:
        self._on_update(json.loads(bytes(params))["update"])

    async def _permission(self, context: RequestContext, params: Raw) -> object:
        option = await self._on_permission(json.loads(bytes(params)))
        return {"outcome": {"outcome": "selected", "optionId": option}}


@asynccontextmanager
async def started_agent(
    environ: dict[str, str], cwd: str, on_update: OnUpdate, on_permission: OnPermission
) -> AsyncIterator[DemoEditor]:
    """One agent process; closing its stdin ends it, as an editor that quits does."""
    argv = [sys.executable, "-I", "-m", "acp_bridge_composition"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, cwd=cwd)  # noqa: ASYNC220  # a fork and an exec, done before anything runs
    try:
        async with DemoEditor(process, on_update, on_permission).connected() as editor:
            yield editor
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

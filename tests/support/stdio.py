"""An agent process on three pipes, every line on them recorded with the time it crossed.

Owns the process and its descriptors. Knows lines, not the protocol. Raw pipes instead of a library's streams: tests
close one end alone, stop reading, or write half a line.
Invariant: a client line is recorded before its last byte is written, an agent line when its newline was read.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process

from tests.support.frames import Frame

__all__ = ["AgentProcess", "LineSplitter"]

READ_SIZE = 1 << 16


class LineSplitter:
    """Bytes in, whole lines out, without their newline; a line may arrive in any number of pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    @property
    def rest(self) -> bytes:
        """What has come since the last newline."""
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        first, *others = data.split(b"\n")
        self._pieces.append(first)
        lines = []
        for piece in others:
            lines.append(b"".join(self._pieces))
            self._pieces = [piece]
        return lines


class AgentProcess:
    """Made by `open`. `changed` is called after each recorded frame and at each end of a stream."""

    def __init__(self, process: Process, stdin: int, stdout: int, stderr: int, changed: Callable[[], None]) -> None:
        self.process = process
        self.frames: list[Frame] = []
        self.stderr = b""
        self.signals: list[int] = []
        """What was sent with `send_signal`."""
        self.stdout_ended = anyio.Event()
        self._reading = anyio.Event()
        self._reading.set()
        self._fds = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        self._changed = changed
        self._sending = anyio.Lock()
        self._client, self._agent = LineSplitter(), LineSplitter()
        self._frames_in, self.agent_frames = anyio.create_memory_object_stream[Frame](math.inf)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, changed: Callable[[], None]
    ) -> AsyncIterator[AgentProcess]:
        """Start `argv` with exactly `env`; on leaving, its whole process group is killed and the pipes are closed."""
        pipes = [os.pipe(), os.pipe(), os.pipe()]
        (stdin, our_in), (our_out, stdout), (our_err, stderr) = pipes
        try:
            process = await anyio.open_process(
                argv, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, start_new_session=True
            )
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        for fd in (our_in, our_out, our_err):
            os.set_blocking(fd, False)
        agent = cls(process, our_in, our_out, our_err, changed)
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(agent._pump_stdout)
            pumps.start_soon(agent._pump_stderr)
            try:
                yield agent
            finally:
                with anyio.CancelScope(shield=True):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
                pumps.cancel_scope.cancel()
                agent._close_all()

    @property
    def torn(self) -> bytes:
        """Agent bytes after the last newline."""
        return self._agent.rest

    async def write(self, data: bytes) -> None:
        """Write bytes as they are. Raises BrokenPipeError when nobody reads any more, OSError when stdin is closed."""
        async with self._sending:
            for line in self._client.feed(data):
                self._record(Frame("client", time.monotonic(), line))
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._fds["stdin"], view) :]
                except BlockingIOError:
                    await self._wait_writable()

    async def _wait_writable(self) -> None:
        try:
            await anyio.wait_writable(self._fds["stdin"])
        except anyio.ClosedResourceError as error:
            raise BrokenPipeError("stdin was closed while a line was being written") from error

    def close(self, name: str) -> None:
        """Close our end of `stdin`, `stdout` or `stderr`; a second time does nothing."""
        if (fd := self._fds[name]) >= 0:
            self._fds[name] = -1
            anyio.notify_closing(fd)
            os.close(fd)

    def pause_reading(self) -> None:
        """Leave stdout alone, so that the pipe fills up."""
        self._reading = anyio.Event()

    def resume_reading(self) -> None:
        """Read stdout again."""
        self._reading.set()

    def send_signal(self, number: int) -> None:
        """A signal for the process alone, not for what it started."""
        self.signals.append(number)
        self.process.send_signal(signal.Signals(number))

    async def wait_exit(self, timeout: float) -> int:
        """The exit status; negative is a signal. Raises TimeoutError."""
        with anyio.fail_after(timeout):
            return await self.process.wait()

    def _record(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._changed()

    async def _pump_stdout(self) -> None:
        with self._frames_in:
            async for data in self._read("stdout"):
                for line in self._agent.feed(data):
                    self._record(Frame("agent", time.monotonic(), line))
                    self._frames_in.send_nowait(self.frames[-1])
        self.stdout_ended.set()
        self._changed()

    async def _pump_stderr(self) -> None:
        async for data in self._read("stderr"):
            self.stderr += data
        self._changed()

    async def _read(self, name: str) -> AsyncIterator[bytes]:
        while True:
            if name == "stdout":
                await self._reading.wait()
            try:
                data = os.read(self._fds[name], READ_SIZE)
            except BlockingIOError:
                with contextlib.suppress(anyio.ClosedResourceError):
                    await anyio.wait_readable(self._fds[name])
                continue
            except OSError:
                return  # closed by the test
            if not data:
                return
            yield data

    def _close_all(self) -> None:
        for name in self._fds:
            self.close(name)
        self.agent_frames.close()

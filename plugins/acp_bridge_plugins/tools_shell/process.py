"""Runs one child process and everything below it: start, pump, stop, reap (field cases P3, T1, T3, L1 to L3).

Owns: descriptors, signals and deadlines. Must not know: the tool, sandboxes, what the output means.
Invariant: when `run` returns, raises or is cancelled, the tree has been killed and the child reaped; that is shielded
and bounded. A process is signalled only while its pid is its own: the child until it is reaped, which nobody else
does, those below it right after a look at /proc. The child never holds a descriptor of the agent but its own pipes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from acp_bridge.session.signal import Signal
from acp_bridge_plugins.tools_shell.output import Keeper
from acp_bridge_plugins.tools_shell.supervisor import descendants

if TYPE_CHECKING:
    from subprocess import Popen

__all__ = ["Finished", "Graces", "Launch", "run"]

# One read takes what a full pipe holds: Linux lets anybody have 1 MiB (fs.pipe-max-size).
_BLOCK = 1 << 20
# A stream longer than this is read in blocks with pauses, at most 50 MB/s: `yes` then costs 5 % of a core, and the
# child waits in its write, which is all that back-pressure is.
_FLOOD = 16 << 20
_PAUSE_SECONDS = 0.02
# How long the pipes may stay open after the child has ended. Whatever holds them then is beyond reach.
_DRAIN_SECONDS = 0.3
_KILLED_SECONDS = 0.5


class Launch(Struct, frozen=True):
    """`stdin` is a pipe either way, never the agent's: for `reports` the child can write a byte into it to say that it
    runs; for `lifeline` the child reads it and ends with everything it started when it closes."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    stdin: Literal["reports", "lifeline"]


class Graces(Struct, frozen=True):
    """Seconds between SIGTERM and SIGKILL. On teardown everything has two seconds (design §15)."""

    timeout: float = 3.0
    abort: float = 1.0
    teardown: float = 0.5


class Finished(Struct, frozen=True):
    """`code` as the child said it. `signal` is the one that ended it, where that is known. `reported`: whether the
    child wrote into a `reports` pipe."""

    code: int
    signal: str | None
    ended_by: Literal["itself", "timeout", "abort"]
    seconds: float
    reported: bool
    stdout: Keeper
    stderr: Keeper


async def run(launch: Launch, stop: Signal, timeout_seconds: float, graces: Graces | None = None) -> Finished:
    """Raises OSError when the child cannot be started."""
    graces = graces or Graces()
    started = anyio.current_time()
    child = _Child(launch)
    grace = graces.teardown
    try:
        async with anyio.create_task_group() as pumps:
            drained = [_pumping(pumps, child, name) for name in ("stdout", "stderr")]
            try:
                ended_by = await _ended(child, stop, timeout_seconds)
                grace = _grace(ended_by, stop, graces)
            finally:
                await child.end(grace)
            with anyio.move_on_after(_DRAIN_SECONDS):
                for event in drained:
                    await event.wait()
            pumps.cancel_scope.cancel()
        seconds = anyio.current_time() - started
        return child.finished(ended_by, seconds)
    finally:
        child.close()


def _pumping(pumps: TaskGroup, child: _Child, name: str) -> anyio.Event:
    done = anyio.Event()

    async def task() -> None:
        await child.pump(name)
        done.set()

    pumps.start_soon(task)
    return done


async def _ended(child: _Child, stop: Signal, timeout_seconds: float) -> Literal["itself", "timeout", "abort"]:
    with anyio.move_on_after(timeout_seconds), stop.cancels():
        await child.wait()
        return "itself"
    return "abort" if stop.aborted else "timeout"


def _grace(ended_by: str, stop: Signal, graces: Graces) -> float:
    if ended_by == "timeout":
        return graces.timeout
    return graces.teardown if stop.cause is not None and stop.cause.kind == "disposed" else graces.abort


class _Child:
    def __init__(self, launch: Launch) -> None:
        from subprocess import PIPE, Popen

        self._sent: signal.Signals | None = None
        self.kept = {"stdout": Keeper(), "stderr": Keeper()}
        reading, writing = os.pipe()
        theirs, self._ours = (writing, reading) if launch.stdin == "reports" else (reading, writing)
        self._lifeline = launch.stdin == "lifeline"
        try:
            self._process: Popen[bytes] = Popen(
                launch.argv,
                stdin=theirs,
                stdout=PIPE,
                stderr=PIPE,
                cwd=launch.cwd,
                env=launch.environment,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            self._cut()
            raise
        finally:
            os.close(theirs)
        os.set_blocking(self._ours, False)
        self._pidfd = self._watching()

    def _watching(self) -> int:
        try:
            return os.pidfd_open(self._process.pid)
        except OSError:
            # Out of descriptors: what cannot be watched must not run.
            self._kill_group()
            self._process.communicate()
            self._cut()
            raise

    async def wait(self) -> None:
        while self._process.poll() is None:
            await anyio.wait_readable(self._pidfd)

    async def pump(self, name: str) -> None:
        """Read one stream to its end."""
        stream = self._process.stdout if name == "stdout" else self._process.stderr
        if stream is None:
            return
        descriptor, kept = stream.fileno(), self.kept[name]
        _enlarge(descriptor)
        os.set_blocking(descriptor, False)
        buffer = bytearray(_BLOCK)
        while True:
            await anyio.wait_readable(descriptor)
            with suppress(BlockingIOError):
                size = os.readv(descriptor, [buffer])
                if not size:
                    return
                kept.add(memoryview(buffer)[:size])
                if kept.total > _FLOOD:
                    await anyio.sleep(_PAUSE_SECONDS)

    async def end(self, grace: float) -> None:
        """SIGTERM, `grace` seconds, SIGKILL. Nothing happens when the child has ended."""
        with anyio.CancelScope(shield=True):
            if await self._gone_within(0):
                return
            self._terminate()
            if await self._gone_within(grace):
                return
            self._kill()
            if not await self._gone_within(_KILLED_SECONDS):
                self._kill_each()
                await self._gone_within(_KILLED_SECONDS)

    async def _gone_within(self, seconds: float) -> bool:
        if self._process.poll() is None and seconds:
            with anyio.move_on_after(seconds):
                await self.wait()
        return self._process.returncode is not None

    def _terminate(self) -> None:
        # Not the child itself: it is the runner, and without it the rest could not be asked to end, only killed.
        self._sent = signal.SIGTERM
        for pid in descendants(self._process.pid):
            _send(pid, signal.SIGTERM)

    def _kill(self) -> None:
        self._sent = signal.SIGKILL
        if self._lifeline:
            self._cut()
        else:
            self._kill_group()

    def _kill_each(self) -> None:
        for pid in descendants(self._process.pid):
            _send(pid, signal.SIGKILL)
        self._kill_group()

    def _kill_group(self) -> None:
        # Safe from reuse: the child is ours to reap and has not been.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _cut(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def finished(self, ended_by: Literal["itself", "timeout", "abort"], seconds: float) -> Finished:
        code = self._process.poll()
        reported = False
        if not self._lifeline:
            with suppress(BlockingIOError):
                reported = bool(os.read(self._ours, 1))
        return Finished(
            128 - code if code is not None and code < 0 else code if code is not None else 128 + signal.SIGKILL,
            self._signal(code),
            ended_by,
            seconds,
            reported,
            self.kept["stdout"],
            self.kept["stderr"],
        )

    def _signal(self, code: int | None) -> str | None:
        """Runners say 128 + N for a command that signal N ended; so do programs that choose such a number."""
        if code is None or code < 0:
            return signal.Signals(-code if code else signal.SIGKILL).name
        return self._sent.name if self._sent is not None and code == 128 + self._sent else None

    def close(self) -> None:
        self._cut()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        os.close(self._pidfd)


def _enlarge(descriptor: int) -> None:
    import fcntl

    # Refused when the user's pipes are near their limit together: then it is a small pipe, and slower.
    with suppress(OSError, AttributeError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _BLOCK)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)

"""A command on a real pseudo-terminal, driven as a person would: read what is shown, type an answer.

Owns the terminal and the process. Knows no command. What was typed is part of what is shown, unless the command
turned the echo off, as terminals have it.
Invariant: leaving the block kills what is left and closes the terminal; every wait is bounded.
"""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process

__all__ = ["Terminal"]

WAIT_S = 10.0
END_OF_INPUT, INTERRUPT = "\x04", "\x03"

# Makes the terminal the controlling one, without which there is no /dev/tty to ask for a password on.
# A test run in the background of a shell has SIGINT ignored, and children would inherit that.
_TAKE = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """Made by `open`. `shown` is everything that was on the screen so far."""

    def __init__(self, process: Process, fd: int) -> None:
        self._process = process
        self._fd = fd
        self._seen = 0
        self.shown = ""

    @classmethod
    @asynccontextmanager
    async def open(cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> AsyncIterator[Terminal]:
        """Start `argv` with exactly `env`; all three standard streams are the terminal."""
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        try:
            command = [sys.executable, "-c", _TAKE, *argv]
            process = await anyio.open_process(
                command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True
            )
        finally:
            os.close(theirs)
        try:
            yield cls(process, ours)
        finally:
            with anyio.CancelScope(shield=True):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
                await process.aclose()
            anyio.notify_closing(ours)
            os.close(ours)

    async def expect(self, text: str) -> None:
        """Wait until `text` is shown, after what was expected before. AssertionError when it is not."""
        with anyio.move_on_after(WAIT_S):
            while (at := self.shown.find(text, self._seen)) < 0 and await self._read():
                pass
            if at >= 0:
                self._seen = at + len(text)
                return
        raise AssertionError(f"{text!r} was not shown, but: {self.shown[self._seen :]!r}")

    def type(self, text: str) -> None:
        """Press keys; a newline is the return key, END_OF_INPUT and INTERRUPT are control-D and control-C."""
        os.write(self._fd, text.encode())

    async def status(self) -> int:
        """Read to the end and return the exit status. AssertionError when there is no end."""
        with anyio.move_on_after(WAIT_S):
            while await self._read():
                pass
            return await self._process.wait()
        raise AssertionError(f"it did not end; shown: {self.shown!r}")

    async def _read(self) -> bool:
        """False at the end, which a pseudo-terminal tells as EIO."""
        await anyio.wait_readable(self._fd)
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

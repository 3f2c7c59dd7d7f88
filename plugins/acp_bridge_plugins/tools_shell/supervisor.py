"""Runs one command outside every sandbox so that nothing it starts outlives the agent (design §12, field case T3).

A program of its own: `python -I -S supervisor.py shell -c command`. It imports the standard library only, because the
environment it runs in belongs to the user's project. Its standard input is a lifeline, a pipe whose other end the
agent holds: when that closes, by intent or because the agent was killed, the whole tree is killed.
Invariant: as a subreaper it inherits whatever the command leaves behind, in whatever session or process group, and
it ends only after all of that has ended. Without /proc (not Linux) it reaches the command's process group only.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

__all__ = ["descendants", "main"]

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_NOT_FOUND = 127  # what shells answer for a command that cannot be run
# A tree that forks faster than it can be killed would hold the agent's teardown up for ever.
_KILLING_SECONDS = 2.0


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, from one look at /proc; empty where there is none."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    pending = [pid]
    while pending:
        below = children.pop(pending.pop(), [])
        found += below
        pending += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    try:
        entries = os.listdir("/proc")  # noqa: PTH208  # pathlib would double the start-up time
    except OSError:
        return
    for entry in filter(str.isdigit, entries):
        with suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:
            # The name in brackets may hold spaces and brackets itself.
            yield int(entry), int(file.read().rpartition(b")")[2].split()[1])


def main(argv: list[str]) -> int:
    """Exit status of the command, 128 + N after signal N."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    _become_subreaper()
    command = _started(argv)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    status = _watched(command, woken)
    _kill_all(command, woken)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _become_subreaper() -> None:
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _started(argv: list[str]) -> int:
    command = os.fork()
    if command:
        return command
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Python ignores these two, and what is ignored stays so in every program that is started.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)  # noqa: S606  # the shell tool's command, approved as it stands
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_FOUND)


def _watched(command: int, woken: int) -> int:
    """Reap until the command has ended or the lifeline is cut. Answers a wait status."""
    while True:
        for pid, status in _reaped():
            if pid == command:
                return status
        # The lifeline carries no bytes: readable means that its other end is gone.
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready:
            return signal.SIGKILL
        _emptied(woken)


def _emptied(woken: int) -> None:
    with suppress(BlockingIOError):
        os.read(woken, 4096)


def _reaped() -> Iterator[tuple[int, int]]:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _kill_all(command: int, woken: int) -> None:
    deadline = time.monotonic() + _KILLING_SECONDS
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command, signal.SIGKILL)
    while below := descendants(os.getpid()):
        # Stopped first: a tree that is still forking could outrun one round of kills.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        if not list(_reaped()):
            select.select([woken], [], [], 0.01)
            _emptied(woken)
        if time.monotonic() > deadline:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

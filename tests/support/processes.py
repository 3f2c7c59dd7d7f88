"""Process trees as /proc shows them: who is below whom, who is still alive, which descriptors they hold.

Linux only. Owns no process: it looks at those that others started, and waits for their end without polling.
Invariant: a process is known by pid and start time, so a reused pid is never taken for the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

__all__ = ["ProcessRef", "alive", "descendants", "fds", "find", "rss_bytes", "wait_for_descendant", "wait_gone"]

POLL_S = 0.01  # nothing tells that a grandchild appeared, so that one wait looks again


@dataclass(frozen=True)
class ProcessRef:
    """A process as it was when looked at; `started` is in clock ticks since boot."""

    pid: int
    parent: int
    started: int
    argv: tuple[str, ...]


def find(pid: int) -> ProcessRef | None:
    """The live process with this pid; None if there is none or only its zombie is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command name may hold spaces and brackets
    if fields[0] in "ZX":
        return None
    return ProcessRef(pid, int(fields[1]), int(fields[19]), tuple(os.fsdecode(word) for word in argv))


def descendants(pid: int) -> list[ProcessRef]:
    """Every live process below `pid`, children before grandchildren. Those that were reparented are not found."""
    everyone = [process for entry in os.listdir("/proc") if entry.isdigit() and (process := find(int(entry)))]
    found: list[ProcessRef] = []
    parents = {pid}
    while below := [process for process in everyone if process.parent in parents]:
        found += below
        parents = {process.pid for process in below}
    return found


def alive(process: ProcessRef) -> bool:
    """Whether exactly this process still runs."""
    now = find(process.pid)
    return now is not None and now.started == process.started


async def wait_gone(processes: Iterable[ProcessRef], *, timeout: float = 5.0) -> None:
    """Wait until all have ended; zombies have. AssertionError naming those that still run after `timeout` s."""
    waiting = list(processes)
    with anyio.move_on_after(timeout):
        for process in waiting:
            await _wait_ended(process)
    left = [process for process in waiting if alive(process)]
    assert not left, f"still alive after {timeout:g} s: {left}"


async def _wait_ended(process: ProcessRef) -> None:
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if alive(process):
            await anyio.wait_readable(fd)
    finally:
        anyio.notify_closing(fd)
        os.close(fd)


async def wait_for_descendant(
    pid: int, predicate: Callable[[ProcessRef], object], *, timeout: float = 5.0
) -> ProcessRef:
    """The first descendant of `pid` for which `predicate` holds. AssertionError after `timeout` s."""
    with anyio.move_on_after(timeout):
        while True:
            for process in descendants(pid):
                if predicate(process):
                    return process
            await anyio.sleep(POLL_S)
    raise AssertionError(f"no such process below {pid} within {timeout:g} s: {descendants(pid)}")


def fds(pid: int) -> dict[int, str]:
    """What each open descriptor of a process points to, as the kernel names it (`pipe:[1234]`, `/dev/null`, a path)."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed while we looked
            found[int(entry.name)] = os.readlink(entry)
    return found


def rss_bytes(pid: int) -> int:
    """Resident memory of one process, in bytes."""
    resident = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE")

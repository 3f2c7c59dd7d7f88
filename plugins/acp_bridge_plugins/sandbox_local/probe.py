"""Whether bubblewrap works here: found out by running it, never by its presence alone (contracts §8.2, field case S1).

Owns: the probe and its cached verdict. Must not know: policies, commands. Invariant: a verdict says "works" only after
`true` ran to its end under the read-only profile; a "works" is kept until a run shows otherwise, a "does not" for
half a minute, so that installing bubblewrap needs no restart and a hanging one does not slow every command down.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from msgspec import Struct

from acp_bridge_plugins.sandbox_local.profiles import beneath

__all__ = ["Prober", "Verdict", "find_runner", "probe"]

INSTALL = "Install bubblewrap (the package `bubblewrap`, which has the command `bwrap`)"
ALLOW = (
    "bubblewrap is installed but cannot make its namespaces; allow unprivileged user namespaces for it "
    "(on Ubuntu an AppArmor profile, in a container its security options)"
)
# Seconds for which a machine without a working sandbox is not asked again.
_REFUSAL_SECONDS = 30.0
_STDERR_LIMIT = 2000


class Verdict(Struct, frozen=True):
    """`reason` is None when the sandbox works."""

    reason: str | None
    at: float


class Prober:
    """Concurrent callers share one probe. `clock` answers seconds."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or anyio.current_time
        self._lock = anyio.Lock()
        self._verdict: Verdict | None = None

    async def reason(self, argv: Sequence[str], timeout_seconds: float) -> str | None:
        async with self._lock:
            if self._verdict is None or self._stale(self._verdict):
                self._verdict = Verdict(await probe(argv, timeout_seconds), self._clock())
            return self._verdict.reason

    def forget(self) -> None:
        self._verdict = None

    def _stale(self, verdict: Verdict) -> bool:
        return verdict.reason is not None and self._clock() - verdict.at > _REFUSAL_SECONDS


def find_runner(roots: Sequence[str], search: str | None = None) -> str | None:
    """The absolute path of `bwrap` on PATH (or `search`). Places that a confined command may write do not count."""
    for directory in (search or os.environ.get("PATH") or os.defpath).split(os.pathsep):
        found = shutil.which("bwrap", path=directory) if os.path.isabs(directory) else None  # noqa: PTH117
        if found and not beneath(os.path.realpath(found), roots):
            return found
    return None


async def probe(argv: Sequence[str], timeout_seconds: float) -> str | None:
    """Run `argv`, which must end with status 0 in time. Answers what is wrong and what to do, or None."""
    from subprocess import DEVNULL, PIPE

    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        process = await anyio.open_process(
            list(argv), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True, env=environment
        )
    except OSError as error:
        return f"{argv[0]} cannot be started ({error.strerror}). {INSTALL}."
    complaint = b""
    with anyio.move_on_after(timeout_seconds) as deadline:
        try:
            complaint = await _first_bytes(process)
            await process.wait()
        finally:
            await _killed(process)
    if deadline.cancelled_caught:
        return f"a test run of bubblewrap did not end within {timeout_seconds:g} s."
    if process.returncode == 0:
        return None
    line = complaint.decode(errors="replace").strip().partition("\n")[0] or f"exit status {process.returncode}"
    return f"{ALLOW}: {line}"


async def _first_bytes(process: anyio.abc.Process) -> bytes:
    kept = b""
    if process.stderr is not None:
        async for block in process.stderr:
            kept = (kept + block)[:_STDERR_LIMIT]
    return kept


async def _killed(process: anyio.abc.Process) -> None:
    # The group as well: a wrapper script named bwrap may have left its child behind.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True), anyio.move_on_after(1):
        await process.aclose()

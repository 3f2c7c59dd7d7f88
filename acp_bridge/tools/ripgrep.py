"""Running ripgrep over one directory (design §7).

Owns: finding the binary, its environment, streaming its records up to a cap, ending it. Must not know: any tool,
what the records mean. Invariant: argv only, never a shell; no configuration of the user or of the repository is
read; links are not followed; the process group is gone when `ripgrep` returns, raises or is cancelled.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from msgspec import Struct

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.beneath import directory
from acp_bridge.sandbox.paths import Place, inside
from acp_bridge.session.signal import Signal
from acp_bridge.tools.visible import visible_line

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, Process

__all__ = ["Found", "Query", "Target", "argument", "binary", "ripgrep", "target"]

# No HOME: the user's git configuration must not decide what is ignored. RIPGREP_CONFIG_PATH is not passed on either.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
_ALWAYS = ("--no-config", "--no-follow", "--no-messages", "--color=never", "--hidden", "--no-require-git", "--null")
_COMPLAINT_BYTES = 4096


class Target(Struct, frozen=True):
    """Where ripgrep is started, and on what. `shown` is `directory` as the session spells it.

    `private` directories are canonical and never looked into. No `rg` beneath `roots` is run: the model writes there.
    """

    directory: str
    operand: str
    shown: str
    private: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()

    def shown_path(self, name: bytes) -> str | None:
        """The absolute path of a name that ripgrep wrote, for people and the model; None when it is private."""
        relative = os.fsdecode(name.removeprefix(b"./"))
        full = f"{self.directory.rstrip('/')}/{relative}"
        if any(inside(full, private) for private in self.private):
            return None
        return f"{self.shown.rstrip('/')}/{name.removeprefix(b'./').decode('utf-8', 'backslashreplace')}"


class Query(Struct, frozen=True):
    """`separator` ends a record of the output."""

    target: Target
    arguments: tuple[str, ...]
    separator: bytes
    max_records: int
    max_bytes: int
    glob: str | None = None


class Found(Struct, frozen=True):
    """`records` without their separators. `cut`: there was more than the caps allow. `complaint`: its stderr."""

    records: tuple[bytes, ...]
    cut: bool
    code: int
    complaint: str


def argument(value: str, name: str) -> str:
    """`value` if it can stand in an argv. Raises ToolFailed (INVALID_ARGS) otherwise."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ToolFailed(f"{name} holds a character that cannot be searched for", "INVALID_ARGS")
    return value


def target(place: Place, private: Sequence[str], roots: Sequence[str]) -> Target:
    """Look at `place`. Raises ToolFailed when it is neither a directory nor a file. Blocks."""
    hidden, canonical = tuple(map(os.path.realpath, private)), tuple(map(os.path.realpath, roots))
    try:
        kind = os.lstat(place.path).st_mode
    except OSError as error:
        raise ToolFailed(f"{visible_line(place.shown)} cannot be searched: {error.strerror}") from error
    if stat.S_ISDIR(kind):
        return Target(place.path, "./", place.shown, hidden, canonical)
    if not stat.S_ISREG(kind):
        raise ToolFailed(f"{visible_line(place.shown)} is neither a file nor a directory")
    (above, name), shown = os.path.split(place.path), os.path.dirname(place.shown)  # noqa: PTH120
    return Target(above, f"./{name}", shown, hidden, canonical)


async def ripgrep(query: Query, signal: Signal) -> Found:
    """Raises ToolFailed when ripgrep is missing, the directory has become a link, or the signal aborts."""
    where = query.target
    argv = [binary(where.roots), *_ALWAYS, *query.arguments, *_globs(query), "--", where.operand]
    found: Found | None = None
    with signal.cancels():
        await anyio.lowlevel.checkpoint()
        try:
            # Shielded: a cancellation in the middle of a start would leave a killed child that nobody waits for.
            with directory(where.directory) as fd, anyio.CancelScope(shield=True):
                process = await _started(argv, _entry(where.directory, fd))
        except OSError as error:
            raise ToolFailed(f"{visible_line(where.shown)} cannot be searched: {error.strerror}") from error
        found = await _followed(process, query)
    if found is None:
        raise ToolFailed("tool call aborted", "ABORTED")
    return found


def _globs(query: Query) -> list[str]:
    """Later globs win, and the case-insensitive ones come last of all: a wish cannot bring back what is hidden."""
    wish = [f"--glob={query.glob}"] if query.glob else []
    base = query.target.directory
    beneath = [path[len(base.rstrip("/")) + 1 :] for path in query.target.private if inside(path, base)]
    hidden = [f"--glob=!/{_escaped(path)}" for path in beneath if path]
    return [*wish, *hidden, "--iglob=!.git"]


def _escaped(path: str) -> str:
    return re.sub(r"([*?\[\]{}\\!])", r"\\\1", path)


def binary(roots: Sequence[str]) -> str:
    import shutil

    bundled = os.path.join(os.path.dirname(sys.executable), "rg")  # noqa: PTH118, PTH120  # links stay unresolved
    if os.access(bundled, os.X_OK):
        return bundled
    safe = [
        entry
        for entry in os.environ.get("PATH", "").split(os.pathsep)
        if entry.startswith("/") and not any(inside(os.path.realpath(entry), root) for root in roots)
    ]
    found = shutil.which("rg", path=os.pathsep.join(safe)) if safe else None
    if found is None:
        raise ToolFailed("ripgrep (rg) is not installed: `pip install ripgrep`, or the system's own package")
    return found


def _entry(path: str, fd: int) -> str:
    """A name for the directory behind `fd`, valid in the child until exec: a swapped path cannot lead it astray."""
    return f"/proc/self/fd/{fd}" if sys.platform == "linux" else path


async def _started(argv: list[str], cwd: str) -> Process:
    from subprocess import DEVNULL, PIPE

    return await anyio.open_process(
        argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=cwd, env=_ENVIRONMENT, start_new_session=True
    )


async def _followed(process: Process, query: Query) -> Found:
    complaint = bytearray()
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("ripgrep was started without pipes")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_complaints, process.stderr, complaint)
            records, cut = await _records(process.stdout, query)
            if cut:
                _kill(process)
        code = await process.wait()
    finally:
        _kill(process)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    return Found(tuple(records), cut, code, complaint.decode("utf-8", "backslashreplace").strip())


async def _records(stdout: ByteReceiveStream, query: Query) -> tuple[list[bytes], bool]:
    records: list[bytes] = []
    taken, rest = 0, b""
    async for chunk in stdout:
        *whole, rest = (rest + chunk).split(query.separator)
        for record in whole:
            taken += len(record)
            if len(records) == query.max_records or taken > query.max_bytes:
                return records, True
            records.append(record)
        if len(rest) > query.max_bytes:
            return records, True
    return records + [rest] * bool(rest), False


async def _complaints(stderr: ByteReceiveStream, into: bytearray) -> None:
    async for chunk in stderr:
        into += chunk[: _COMPLAINT_BYTES - len(into)]


def _kill(process: Process) -> None:
    if process.returncode is None:
        import signal

        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

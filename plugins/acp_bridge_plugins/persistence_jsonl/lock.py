"""One writer per session across processes: `flock` on `session.lock` (contracts §5.9).

Owns: taking and releasing the lock, and telling a loser who holds it. Must not know: logs, handles.
Invariant: the kernel's lock is the only truth; what the file says is for people and may be stale. The file is never
unlinked (its inode must stay the same for everybody) and its descriptor is never inherited by children.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from acp_bridge.errors import SessionAlreadyOwned
from acp_bridge_plugins.persistence_jsonl.disk import Disk

__all__ = ["Holder", "SessionLock", "this_process"]

# Somebody may remove the file between our open and our flock; three rounds of that are no accident (contracts §5.9).
ATTEMPTS = 3
HOLDER_BYTES = 4096


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """`since` is ISO 8601 in UTC, `editor` the name the client gave itself."""

    pid: int
    since: str
    editor: str | None = None

    def owns(self, session_id: str) -> SessionAlreadyOwned:
        return SessionAlreadyOwned(session_id, pid=self.pid, since=self.since, editor=self.editor)


def this_process(editor: str | None) -> Holder:
    return Holder(os.getpid(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), editor)


class SessionLock:
    """Held from `acquire` until `release`, or until this process is gone, however it goes."""

    def __init__(self, disk: Disk, path: Path, descriptor: int) -> None:
        self._disk = disk
        self._path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, disk: Disk, path: Path, session_id: str, holder: Holder) -> SessionLock:
        """The directory must exist. Raises SessionAlreadyOwned, OSError."""
        for _ in range(ATTEMPTS):
            lock = cls(disk, path, disk.open(path, "lock"))
            try:
                lock._take(session_id)
                if lock.is_current():
                    lock._announce(holder)
                    return lock
            except BaseException:
                lock._close()
                raise
            lock._close()
        raise SessionAlreadyOwned(session_id)

    def is_current(self) -> bool:
        """Whether the path still names the file that is locked; a lock on a removed file excludes nobody."""
        if self._descriptor is None:
            return False
        held = self._disk.fstat(self._descriptor)
        try:
            named = self._disk.stat(self._path)
        except FileNotFoundError:
            return False
        return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)

    def release(self) -> None:
        """Safe to call twice."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._disk.truncate(self._descriptor, 0)
        self._close()

    def _take(self, session_id: str) -> None:
        assert self._descriptor is not None
        try:
            self._disk.lock(self._descriptor)
        except BlockingIOError:
            raise self._loser_is_told(session_id) from None

    def _loser_is_told(self, session_id: str) -> SessionAlreadyOwned:
        assert self._descriptor is not None
        try:
            holder = msgspec.json.decode(self._disk.pread(self._descriptor, HOLDER_BYTES, 0), type=Holder)
        except (msgspec.DecodeError, UnicodeDecodeError, OSError):
            return SessionAlreadyOwned(session_id)
        # What a killed holder left is still there while its successor has the lock but has not written its own name.
        return holder.owns(session_id) if _exists(holder.pid) else SessionAlreadyOwned(session_id)

    def _announce(self, holder: Holder) -> None:
        assert self._descriptor is not None
        # A full disk must not keep anybody from opening a session.
        with suppress(OSError):
            self._disk.truncate(self._descriptor, 0)
            self._disk.write(self._descriptor, msgspec.json.encode(holder))

    def _close(self) -> None:
        if self._descriptor is not None:
            self._disk.close(self._descriptor)
            self._descriptor = None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

"""The rim that touches the disk: publishing, appending, reading (contracts §5.7, §5.8).

Owns: what is synced when, and what is undone after a failure. Must not know: events, locks, the event loop.
Invariant: when a call returns, its bytes are durable; when it raises, none of them count. A failed sync is never
repeated on the same descriptor (the kernel reports lost pages once): the file is reopened, its tail is read back
from the disk, and the bytes are written anew.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from acp_bridge_plugins.persistence_jsonl.disk import Disk
from acp_bridge_plugins.persistence_jsonl.frames import intact
from acp_bridge_plugins.persistence_jsonl.layout import temporary_name

__all__ = ["AppendFile", "file_revision", "make_directory", "publish", "read_committed", "read_start"]

NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def file_revision(found: os.stat_result) -> str:
    """Opaque; equal means unchanged (contracts §5.1)."""
    return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def make_directory(disk: Disk, directory: Path) -> list[Path]:
    """Create what is missing of a path. Returns what was created, deepest first."""
    missing = []
    while not disk.is_directory(directory):
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        with suppress(FileExistsError):
            disk.make_directory(path)
    return missing


def publish(disk: Disk, final: Path, content: bytes, directories: Iterable[Path]) -> os.stat_result:
    """Make a new file appear whole or not at all, never over another one, with the entries of `directories` durable.

    Raises FileExistsError, OSError; the target then does not exist because of us. ExceptionGroup when even taking it
    back failed.
    """
    temporary = final.with_name(temporary_name(final.name, os.urandom(8).hex()))
    try:
        _write_new(disk, temporary, content)
        _link(disk, temporary, final)
    finally:
        with suppress(OSError):
            disk.unlink(temporary)
    try:
        for directory in directories:
            _sync_directory(disk, directory)
    except OSError as error:
        _undo(error, lambda: disk.unlink(final))
        raise
    return disk.stat(final)


def read_committed(disk: Disk, path: Path) -> tuple[bytes, os.stat_result]:
    """The whole file as of one moment, also while somebody appends to it.

    Read again once when it changed meanwhile; then what was there before the read counts, so that a busy writer
    cannot starve a reader. Raises OSError.
    """
    data, before, after = _read(disk, path)
    if file_revision(before) != file_revision(after):
        data, before, _ = _read(disk, path)
    return data, before


def read_start(disk: Disk, path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """At most `limit` bytes. Raises OSError."""
    descriptor = disk.open(path, "read")
    try:
        found = disk.fstat(descriptor)
        return _read_exactly(disk, descriptor, 0, min(limit, found.st_size)), found
    finally:
        disk.close(descriptor)


class AppendFile:
    """A published file that grows by whole frames; `committed` bytes of it are durable and ours to keep.

    `excess` says that bytes may follow them: a torn tail found when it was opened, or what a failed rollback left.
    """

    def __init__(
        self,
        disk: Disk,
        path: Path,
        found: os.stat_result,
        committed: int,
        last_frame: int,
        *,
        excess: bool = False,
    ) -> None:
        self.committed = committed
        self.excess = excess
        self._disk = disk
        self._path = path
        self._identity = (found.st_dev, found.st_ino)
        self._last_frame = last_frame
        self._descriptor: int | None = None
        self._suspect = False

    def append(self, frame: bytes) -> None:
        """Durable on return. Raises OSError, or an ExceptionGroup of two when the rollback failed as well."""
        self.cut_excess()
        descriptor = self._open()
        try:
            _write_all(self._disk, descriptor, frame)
            self._disk.sync_data(descriptor)
        except OSError as error:
            self._roll_back(error)
            raise
        self._last_frame, self.committed = self.committed, self.committed + len(frame)

    def cut_excess(self) -> None:
        """Durably drop what follows the committed bytes. Raises OSError."""
        if self.excess:
            descriptor = self._open()
            try:
                self._truncate(descriptor)
            except OSError:
                self._suspect = True
                self.close()
                raise

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._disk.close(descriptor)

    def _open(self) -> int:
        self._check_in_place()
        if self._descriptor is None:
            self._descriptor = self._disk.open(self._path, "append")
            if self._suspect:
                self._verify_tail(self._descriptor)
        return self._descriptor

    def _check_in_place(self) -> None:
        """A descriptor writes happily into a file that nobody can find any more, or that somebody else has changed."""
        try:
            found = self._disk.stat(self._path)
        except FileNotFoundError:
            gone = "the session file was deleted or moved; nothing more can be saved to it"
            raise FileNotFoundError(errno.ENOENT, gone, str(self._path)) from None
        size_fits = found.st_size >= self.committed if self.excess else found.st_size == self.committed
        if (found.st_dev, found.st_ino) != self._identity or not size_fits:
            raise OSError(errno.ESTALE, "somebody else changed the session file", str(self._path))

    def _verify_tail(self, descriptor: int) -> None:
        self._disk.drop_cache(descriptor)
        tail = _read_exactly(self._disk, descriptor, self._last_frame, self.committed - self._last_frame)
        if not intact(tail):
            self.close()
            raise OSError(errno.EIO, "the last saved record does not read back", str(self._path))
        self._suspect = False

    def _roll_back(self, error: OSError) -> None:
        descriptor = self._descriptor
        assert descriptor is not None
        self.excess = self._suspect = True
        try:
            _undo(error, lambda: self._truncate(descriptor))
        finally:
            self.close()

    def _truncate(self, descriptor: int) -> None:
        self._disk.truncate(descriptor, self.committed)
        self._disk.sync(descriptor)
        self.excess = False


def _undo(error: OSError, undo: Callable[[], None]) -> None:
    try:
        undo()
    except OSError as second:
        raise ExceptionGroup(f"{error.strerror}; taking it back failed too", [error, second]) from None


def _write_new(disk: Disk, path: Path, content: bytes) -> None:
    descriptor = disk.open(path, "new")
    try:
        _write_all(disk, descriptor, content)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)


def _link(disk: Disk, temporary: Path, final: Path) -> None:
    try:
        disk.link(temporary, final)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS or _exists(disk, final):
            raise
        # No hard links here (FAT, some network mounts). The session lock keeps others out between look and rename.
        disk.rename(temporary, final)


def _exists(disk: Disk, path: Path) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True


def _write_all(disk: Disk, descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]


def _sync_directory(disk: Disk, directory: Path) -> None:
    descriptor = disk.open(directory, "directory")
    try:
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)


def _read(disk: Disk, path: Path) -> tuple[bytes, os.stat_result, os.stat_result]:
    descriptor = disk.open(path, "read")
    try:
        before = disk.fstat(descriptor)
        data = _read_exactly(disk, descriptor, 0, before.st_size)
        return data, before, disk.fstat(descriptor)
    finally:
        disk.close(descriptor)


def _read_exactly(disk: Disk, descriptor: int, offset: int, size: int) -> bytes:
    """Fewer bytes only where the file ends before."""
    data = disk.pread(descriptor, size, offset)
    while 0 < len(data) < size:
        more = disk.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data

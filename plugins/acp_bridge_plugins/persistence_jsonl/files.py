"""The rim that touches the disk: publishing, appending, reading (contracts §5.7, §5.8).

Owns: what is synced when, and what is undone after a failure. Must not know: events, locks, the event loop.
Invariant: when a call returns, its bytes are durable; when it raises, none of them count. A failed sync is never
repeated on the same descriptor (the kernel reports lost pages once): the file is reopened, its tail is read back
from the disk, and the bytes are written anew.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from acp_bridge_plugins.persistence_jsonl.frames import intact
from acp_bridge_plugins.persistence_jsonl.layout import temporary_name

__all__ = ["AppendFile", "file_revision", "make_directory", "publish", "read_committed", "read_start"]

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def file_revision(found: os.stat_result) -> str:
    """Opaque; equal means unchanged (contracts §5.1)."""
    return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def make_directory(directory: Path) -> list[Path]:
    """Create what is missing of a path, private whatever the umask. Returns what was created, deepest first."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(PRIVATE_DIRECTORY)
            path.chmod(PRIVATE_DIRECTORY)
    return missing


def publish(final: Path, content: bytes, directories: Iterable[Path]) -> os.stat_result:
    """Make a new file appear whole or not at all, never over another one, with the entries of `directories` durable.

    Raises FileExistsError, OSError; the target then does not exist because of us. ExceptionGroup when even taking it
    back failed.
    """
    temporary = final.with_name(temporary_name(final.name, os.urandom(8).hex()))
    try:
        _write_new(temporary, content)
        _link(temporary, final)
    finally:
        with suppress(OSError):
            temporary.unlink()
    try:
        for directory in directories:
            _sync_directory(directory)
    except OSError as error:
        _undo(error, final.unlink)
        raise
    return final.stat()


def read_committed(path: Path) -> tuple[bytes, os.stat_result]:
    """The whole file as of one moment, also while somebody appends to it.

    Read again once when it changed meanwhile; then what was there before the read counts, so that a busy writer
    cannot starve a reader. Raises OSError.
    """
    data, before, after = _read(path)
    if file_revision(before) != file_revision(after):
        data, before, _ = _read(path)
    return data, before


def read_start(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """At most `limit` bytes. Raises OSError."""
    descriptor = os.open(path, READ_FLAGS)
    try:
        found = os.fstat(descriptor)
        return _read_exactly(descriptor, 0, min(limit, found.st_size)), found
    finally:
        os.close(descriptor)


class AppendFile:
    """A published file that grows by whole frames; `committed` bytes of it are durable and ours to keep.

    `excess` says that bytes may follow them: a torn tail found when it was opened, or what a failed rollback left.
    """

    def __init__(
        self, path: Path, found: os.stat_result, committed: int, last_frame: int, *, excess: bool = False
    ) -> None:
        self.committed = committed
        self.excess = excess
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
            _write_all(descriptor, frame)
            _sync_data(descriptor)
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
            os.close(descriptor)

    def _open(self) -> int:
        self._check_in_place()
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags)
            if self._suspect:
                self._verify_tail(self._descriptor)
        return self._descriptor

    def _check_in_place(self) -> None:
        """A descriptor writes happily into a file that nobody can find any more, or that somebody else has changed."""
        try:
            found = self._path.stat(follow_symlinks=False)
        except FileNotFoundError:
            gone = "the session file was deleted or moved; nothing more can be saved to it"
            raise FileNotFoundError(errno.ENOENT, gone, str(self._path)) from None
        size_fits = found.st_size >= self.committed if self.excess else found.st_size == self.committed
        if (found.st_dev, found.st_ino) != self._identity or not size_fits:
            raise OSError(errno.ESTALE, "somebody else changed the session file", str(self._path))

    def _verify_tail(self, descriptor: int) -> None:
        if sys.platform == "linux":
            # Read what the disk has, not what the cache still believes.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        tail = _read_exactly(descriptor, self._last_frame, self.committed - self._last_frame)
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
        os.ftruncate(descriptor, self.committed)
        _sync(descriptor)
        self.excess = False


def _undo(error: OSError, undo: Callable[[], None]) -> None:
    try:
        undo()
    except OSError as second:
        raise ExceptionGroup(f"{error.strerror}; taking it back failed too", [error, second]) from None


def _write_new(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
        _write_all(descriptor, content)
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: Path, final: Path) -> None:
    try:
        os.link(temporary, final)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS or final.exists():
            raise
        # No hard links here (FAT, some network mounts). The session lock keeps others out between look and rename.
        temporary.rename(final)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        # There, fsync leaves the bytes in the drive's own cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _sync_data(descriptor: int) -> None:
    """The bytes and the size; fdatasync covers both and spares the timestamps."""
    if sys.platform == "darwin":
        _sync(descriptor)
    else:
        os.fdatasync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[bytes, os.stat_result, os.stat_result]:
    descriptor = os.open(path, READ_FLAGS)
    try:
        before = os.fstat(descriptor)
        data = _read_exactly(descriptor, 0, before.st_size)
        return data, before, os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _read_exactly(descriptor: int, offset: int, size: int) -> bytes:
    """Fewer bytes only where the file ends before."""
    data = os.pread(descriptor, size, offset)
    while 0 < len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data

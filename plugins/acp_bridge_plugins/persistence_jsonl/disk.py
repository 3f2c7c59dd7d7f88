"""The port to the disk: every operation of the store that a disk can refuse, lose or reorder.

Owns: the handful of calls and how this system makes each durable. Must not know: what is in the files, when a sync
is due, what a failure means. Invariant: nothing else in this plugin touches a file, so whoever stands in for `Disk`
sees, fails and replays all of it. Errors are those of the system: OSError, as subclassed by its number.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

__all__ = ["LOCAL_DISK", "Disk", "How"]

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600

How = Literal["read", "append", "new", "lock", "directory"]

COMMON = os.O_CLOEXEC | os.O_NOFOLLOW
FLAGS: dict[How, int] = {
    "read": os.O_RDONLY | COMMON,
    "append": os.O_RDWR | os.O_APPEND | COMMON,
    "new": os.O_WRONLY | os.O_CREAT | os.O_EXCL | COMMON,
    "lock": os.O_RDWR | os.O_CREAT | COMMON,
    # The root may be reached over a symbolic link that its user made.
    "directory": os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC,
}


class Disk(Protocol):
    """Descriptors are opaque numbers. What is created is for this user alone, whatever the umask."""

    def open(self, path: str | Path, how: How) -> int:
        """`new` fails on anything that exists, `lock` creates what is missing; only directories follow links."""

    def close(self, descriptor: int) -> None: ...

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """At the end of an `append` file. Returns how much was taken, which may be less."""

    def pread(self, descriptor: int, size: int, offset: int) -> bytes: ...

    def truncate(self, descriptor: int, size: int) -> None: ...

    def sync(self, descriptor: int) -> None:
        """Everything of a file, or the entries of a directory. After a failure nothing is known about either."""

    def sync_data(self, descriptor: int) -> None:
        """The bytes of a file and its size, without its times."""

    def drop_cache(self, descriptor: int) -> None:
        """So that the next read tells what the disk has. As far as the system takes the advice."""

    def lock(self, descriptor: int) -> None:
        """Exclusive until the descriptor is closed, or its process gone. Raises BlockingIOError when it is taken."""

    def fstat(self, descriptor: int) -> os.stat_result: ...

    def stat(self, path: str | Path) -> os.stat_result:
        """Of a link, the link itself."""

    def is_directory(self, path: str | Path) -> bool: ...

    def names(self, directory: str | Path) -> list[str]: ...

    def make_directory(self, path: str | Path) -> None: ...

    def link(self, existing: str | Path, new: str | Path) -> None:
        """Raises FileExistsError rather than replace anything."""

    def rename(self, old: str | Path, new: str | Path) -> None:
        """Replaces what has the new name."""

    def unlink(self, path: str | Path) -> None: ...


class _LocalDisk:
    def open(self, path: str | Path, how: How) -> int:
        descriptor = os.open(path, FLAGS[how], PRIVATE_FILE)
        if how == "new" or how == "lock":
            # The umask may have taken the owner's own bits. A lock file of somebody else keeps its mode.
            with suppress(OSError):
                os.fchmod(descriptor, PRIVATE_FILE)
        return descriptor

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return os.write(descriptor, data)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        return os.pread(descriptor, size, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        if sys.platform == "darwin":
            # There, fsync leaves the bytes in the drive's own cache.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        if sys.platform == "darwin":
            self.sync(descriptor)
        else:
            os.fdatasync(descriptor)

    def drop_cache(self, descriptor: int) -> None:
        if sys.platform == "linux":
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def lock(self, descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def fstat(self, descriptor: int) -> os.stat_result:
        return os.fstat(descriptor)

    # From here on without pathlib: a Path costs as much as the system call, and a listing makes thousands.
    def stat(self, path: str | Path) -> os.stat_result:
        return os.lstat(path)

    def is_directory(self, path: str | Path) -> bool:
        return os.path.isdir(path)  # noqa: PTH112  # see above

    def names(self, directory: str | Path) -> list[str]:
        return os.listdir(directory)  # noqa: PTH208  # see above

    def make_directory(self, path: str | Path) -> None:
        os.mkdir(path, PRIVATE_DIRECTORY)  # noqa: PTH102  # see above
        os.chmod(path, PRIVATE_DIRECTORY)  # noqa: PTH101  # see above

    def link(self, existing: str | Path, new: str | Path) -> None:
        os.link(existing, new)

    def rename(self, old: str | Path, new: str | Path) -> None:
        os.rename(old, new)  # noqa: PTH104  # see above

    def unlink(self, path: str | Path) -> None:
        os.unlink(path)  # noqa: PTH108  # see above


LOCAL_DISK: Disk = _LocalDisk()

"""Opening, reading and replacing files without following a link (design §12; field cases S3, E5).

Owns: the only file access of in-process tools. Must not know: tools, modes, what is allowed.
Invariant: every component of a canonical path is opened from `/` with O_NOFOLLOW, so a directory swapped for a link
after the check is an error, never an escape; a file is replaced whole or not at all, and only while it still holds
the bytes that were shown. All functions block.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from acp_bridge.errors import ToolFailed

__all__ = ["MAX_BYTES", "FileChanged", "directory", "make_directory", "read_file", "replace_file"]

# A text file beyond this is data: it is held about nine times over (measured) while it is decoded and compared.
MAX_BYTES = 8 * 1024 * 1024

# O_PATH needs only search permission, like any path lookup; where it is missing, reading each directory must do.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO put where the file was must not hang the agent.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileChanged(ToolFailed):
    def __init__(self, shown: str) -> None:
        super().__init__(f"{shown} changed since it was shown; read it again. Nothing was written.")


class _NotRegular(ToolFailed):
    pass


@contextmanager
def directory(path: str, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the canonical directory `path`, good as `dir_fd`. `create` makes missing parts (0755).

    Raises OSError; ENOTDIR or ELOOP where a component is, or has become, a link.
    """
    current = os.open("/", _STEP)
    try:
        for part in path.strip("/").split("/") if path != "/" else ():
            above, current = current, _step(current, part, create)
            os.close(above)
        yield current
    finally:
        os.close(current)


def make_directory(path: str, shown: str) -> None:
    """Make the canonical directory `path` and what is missing above it. Raises ToolFailed, naming `shown`."""
    try:
        with directory(path, create=True):
            pass
    except OSError as error:
        raise _unreadable(error, shown) from error


def read_file(path: str, shown: str) -> bytes | None:
    """The bytes of the canonical `path`, or None when there is no file.

    Raises ToolFailed, naming `shown`, for anything but a regular file of at most MAX_BYTES that can be read.
    """
    try:
        with directory(os.path.dirname(path)) as fd:  # noqa: PTH120  # strings, as everywhere below the resolver
            found = _read_at(fd, os.path.basename(path), shown)  # noqa: PTH119
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(error, shown) from error
    return None if found is None else found[0]


def replace_file(path: str, seen: bytes | None, new: bytes, shown: str) -> None:
    """Put `new` at the canonical `path` if it still holds `seen` (None: if there is still no file).

    Missing parent directories are made for a new file. Mode and owner are kept; a hard link to the old file keeps
    the old bytes. Raises FileChanged with nothing written, or ToolFailed when the file system refuses.
    """
    parent, name = os.path.split(path)
    try:
        with directory(parent, create=seen is None) as fd:
            before = _read_at(fd, name, shown)
            if (None if before is None else before[0]) != seen:
                raise FileChanged(shown)
            temporary = _written(fd, new, before and before[1])
            try:
                _publish(fd, parent, temporary, name, before and before[1], shown)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=fd)
            _sync(fd)
    except _NotRegular as error:
        raise FileChanged(shown) from error
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP, errno.ENOENT}:
            raise FileChanged(shown) from error
        raise ToolFailed(f"{shown} cannot be written: {error.strerror}. It is as it was.") from error


def _step(above: int, part: str, create: bool) -> int:
    try:
        return os.open(part, _STEP, dir_fd=above)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=above)
    return os.open(part, _STEP, dir_fd=above)


def _read_at(fd: int, name: str, shown: str) -> tuple[bytes, os.stat_result] | None:
    try:
        # Looked at before it is opened: opening alone can disturb a FIFO or a device.
        _regular(os.stat(name, dir_fd=fd, follow_symlinks=False), shown)
        handle = os.open(name, _READ, dir_fd=fd)
    except FileNotFoundError:
        return None
    with open(handle, "rb") as file:
        facts = _regular(os.fstat(handle), shown)
        # Files of /proc can answer "try again", which reads as None.
        data = file.read(MAX_BYTES + 1) or b""
    if len(data) > MAX_BYTES:
        too_large = f"{shown} is larger than {MAX_BYTES >> 20} MiB"
        raise ToolFailed(f"{too_large}; use search, or a command like sed -n, to look into it")
    return data, facts


def _regular(facts: os.stat_result, shown: str) -> os.stat_result:
    if not stat.S_ISREG(facts.st_mode):
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a link by now"}
        raise _NotRegular(f"{shown} is {kinds.get(stat.S_IFMT(facts.st_mode), 'a device, pipe or socket')}, not a file")
    return facts


def _written(fd: int, data: bytes, like: os.stat_result | None) -> str:
    name = f".acp-{os.urandom(6).hex()}.tmp"
    handle = os.open(name, _CREATE, 0o600 if like else 0o644, dir_fd=fd)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if like:
                _dress(handle, like)
            os.fsync(handle)
    except BaseException:
        os.unlink(name, dir_fd=fd)
        raise
    return name


def _dress(handle: int, like: os.stat_result) -> None:
    """Owner and mode of the old file, as far as this process may; setuid and setgid go, as on any write."""
    own = os.fstat(handle)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, like.st_uid, like.st_gid)
    os.fchmod(handle, stat.S_IMODE(like.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))


def _publish(fd: int, parent: str, temporary: str, name: str, before: os.stat_result | None, shown: str) -> None:
    with directory(parent) as again:
        if not os.path.samestat(os.fstat(fd), os.fstat(again)):
            raise FileChanged(shown)
    if before is None:
        _publish_new(fd, temporary, name, shown)
        return
    # A rename replaces a read-only file without a word; the mode says that somebody wants it kept.
    if not os.access(name, os.W_OK, dir_fd=fd):
        raise ToolFailed(f"{shown} is write-protected. Nothing was written.")
    if _identity(os.stat(name, dir_fd=fd, follow_symlinks=False)) != _identity(before):
        raise FileChanged(shown)
    os.replace(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)


def _publish_new(fd: int, temporary: str, name: str, shown: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    except FileExistsError as error:
        raise FileChanged(shown) from error
    except OSError as error:
        # File systems without hard links (FAT, some FUSE): look, then rename.
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        if os.access(name, os.F_OK, dir_fd=fd, follow_symlinks=False):
            raise FileChanged(shown) from error
        os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _sync(fd: int) -> None:
    # The file is in place already: a directory that cannot be opened for reading only delays its durability.
    with suppress(OSError):
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unreadable(error: OSError, shown: str) -> ToolFailed:
    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
        return ToolFailed(f"{shown} cannot be opened: a part of the path is a file, or has become a link")
    return ToolFailed(f"{shown} cannot be opened: {error.strerror}")

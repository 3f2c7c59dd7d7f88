"""The twin of the storage's port to the disk: a file system in memory that fails on demand and can lose power.

Owns: paths, descriptors and locks over the rules of `pages`; the calls made so far; which of them fails and how; every
state that a power loss now could leave. Must not know: what is in the files. Invariant: whoever uses only the port
cannot tell it from a disk; two disks that were used alike give the same states in the same order.
"""

from __future__ import annotations

import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from acp_bridge_plugins.persistence_jsonl.disk import How
from tests.support.pages import Directory, File

__all__ = ["Fault", "Image", "ModelDisk"]

ROOT = 1
# A path and what is there: the bytes of a file, None for a directory.
Entry = tuple[str, bytes | None]
Image = tuple[Entry, ...]  # sorted, so that equal means the same disk
CHANGING = {
    "new",
    "lock",
    "write",
    "write_at",
    "truncate",
    "sync",
    "sync_data",
    "make_directory",
    "link",
    "rename",
    "unlink",
}
NOISE = "session.lock"


@dataclass
class Fault:
    """Call number `at` fails with `error`, and so does every later call that changes something, until it heals, if it
    `lasts`. Without an `error` a write takes half of what it is given."""

    at: int
    error: int | None
    lasts: bool = False


@dataclass
class _Descriptor:
    inode: int
    how: How


class ModelDisk:
    """`observe` is called after every call that changed something or tried to, with its name."""

    def __init__(self, image: Image = ()) -> None:
        self._inodes: dict[int, File | Directory] = {ROOT: Directory()}
        self._numbers = count(ROOT + 1)
        self._descriptors: dict[int, _Descriptor] = {}
        self._locks: dict[int, int] = {}
        self._time = 0
        self.calls: list[str] = []
        self.fault: Fault | None = None
        self.observe: Callable[[str], None] = lambda call: None
        for path, content in image:
            directory, name = self._parent(path)
            directory.live[name] = directory.durable[name] = self._new(
                Directory() if content is None else File(content)
            )

    @property
    def open_descriptors(self) -> list[str]:
        """What a leak would show: how each was opened."""
        return [found.how for found in self._descriptors.values()]

    def opened_as(self, descriptor: int) -> How:
        return self._found(descriptor).how

    def heal(self) -> None:
        self.fault = None

    def image(self) -> Image:
        """As a reader sees it now."""
        return tuple(sorted(self._tree("", ROOT, lambda found: found.live)))

    def after_power_loss(self, limit: int, dice: random.Random) -> Iterator[Image]:
        """Each legal state; of one file at most about `limit`, and one of the lock's, which nobody trusts."""
        for entries in self._trees("", ROOT, limit, dice):
            yield tuple(sorted(entries))

    # The port.

    def open(self, path: str | Path, how: How) -> int:
        self._call("open" if how not in CHANGING else how, path)
        inode = self._opened(path, how)
        if isinstance(self._inodes[inode], Directory) is not (how == "directory"):
            raise _error(errno.ENOTDIR if how == "directory" else errno.EISDIR, path)
        descriptor = min(set(range(3, len(self._descriptors) + 4)) - set(self._descriptors))
        self._descriptors[descriptor] = _Descriptor(inode, how)
        return descriptor

    def close(self, descriptor: int) -> None:
        found = self._found(descriptor)
        del self._descriptors[descriptor]
        if self._locks.get(found.inode) == descriptor:
            del self._locks[found.inode]

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        taken = self._taken("write", descriptor, data)
        file = self._file(descriptor)
        file.write(taken)
        self._touch(file)
        self.observe("write")
        return len(taken)

    def write_at(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        taken = self._taken("write_at", descriptor, data)
        file = self._file(descriptor)
        file.put(offset, taken)
        self._touch(file)
        self.observe("write_at")
        return len(taken)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        self._call("pread", descriptor)
        return self._file(descriptor).live[offset : offset + size]

    def truncate(self, descriptor: int, size: int) -> None:
        self._call("truncate", descriptor)
        file = self._file(descriptor)
        file.cut(size)
        self._touch(file)
        self.observe("truncate")

    def sync(self, descriptor: int) -> None:
        self._sync("sync", descriptor)

    def sync_data(self, descriptor: int) -> None:
        self._sync("sync_data", descriptor)

    def drop_cache(self, descriptor: int) -> None:
        self._file(descriptor).forget_cache()

    def lock(self, descriptor: int) -> None:
        self._call("flock", descriptor)
        inode = self._found(descriptor).inode
        if self._locks.setdefault(inode, descriptor) != descriptor:
            raise _error(errno.EAGAIN, "lock")

    def fstat(self, descriptor: int) -> os.stat_result:
        self._call("fstat", descriptor)
        return self._stat(self._found(descriptor).inode)

    def stat(self, path: str | Path) -> os.stat_result:
        self._call("stat", path)
        return self._stat(self._at(path))

    def is_directory(self, path: str | Path) -> bool:
        with suppress(OSError):
            return isinstance(self._inodes[self._at(path)], Directory)
        return False

    def names(self, directory: str | Path) -> list[str]:
        self._call("names", directory)
        found = self._inodes[self._at(directory)]
        if not isinstance(found, Directory):
            raise _error(errno.ENOTDIR, directory)
        return sorted(found.live)

    def make_directory(self, path: str | Path) -> None:
        self._call("make_directory", path)
        directory, name = self._parent(path)
        if name in directory.live:
            raise _error(errno.EEXIST, path)
        self._change(directory, {name: self._new(Directory())}, f"make directory {name}")

    def link(self, existing: str | Path, new: str | Path) -> None:
        self._call("link", new)
        inode = self._at(existing)
        directory, name = self._parent(new)
        if name in directory.live:
            raise _error(errno.EEXIST, new)
        self._change(directory, {name: inode}, f"link {name}")

    def rename(self, old: str | Path, new: str | Path) -> None:
        self._call("rename", new)
        inode = self._at(old)
        (directory, name), (target, new_name) = self._parent(old), self._parent(new)
        if directory is not target:
            raise NotImplementedError("no part of the storage moves anything between directories")
        self._change(directory, {name: None, new_name: inode}, f"rename {new_name}")

    def unlink(self, path: str | Path) -> None:
        self._call("unlink", path)
        self._at(path)
        directory, name = self._parent(path)
        self._change(directory, {name: None}, f"unlink {name}")

    # What stands behind it.

    def _call(self, name: str, what: object) -> None:
        self.calls.append(name)
        error = self._failure(name)
        if error is not None:
            self.observe(f"{name} failed")
            raise _error(error, what)

    def _opened(self, path: str | Path, how: How) -> int:
        if how not in ("new", "lock"):
            return self._at(path)
        directory, name = self._parent(path)
        inode = directory.live.get(name)
        if inode is None:
            inode = self._new(File())
            self._change(directory, {name: inode}, f"create {name}")
        elif how == "new":
            raise _error(errno.EEXIST, path)
        return inode

    def _failure(self, name: str) -> int | None:
        fault, number = self.fault, len(self.calls) - 1
        if fault is None or fault.error is None:
            return None
        hit = number == fault.at or (fault.lasts and number > fault.at and name in CHANGING)
        return fault.error if hit else None

    def _taken(self, name: str, descriptor: int, data: bytes | memoryview) -> bytes:
        self._call(name, descriptor)
        short = self.fault is not None and self.fault.error is None and self.fault.at == len(self.calls) - 1
        return bytes(data[: (len(data) + 1) // 2] if short else data)

    def _sync(self, name: str, descriptor: int) -> None:
        inode = self._inodes[self._found(descriptor).inode]
        self.calls.append(name)
        error = self._failure(name)
        if error is not None:
            inode.fail_sync()
            self.observe(f"{name} failed")
            raise _error(error, "sync")
        inode.sync()
        self.observe(name)

    def _change(self, directory: Directory, names: dict[str, int | None], call: str) -> None:
        directory.change(names)
        self._touch(directory)
        self.observe(call)

    def _touch(self, inode: File | Directory) -> None:
        self._time += 1
        inode.time = self._time

    def _new(self, inode: File | Directory) -> int:
        number = next(self._numbers)
        self._inodes[number] = inode
        return number

    def _found(self, descriptor: int) -> _Descriptor:
        if descriptor not in self._descriptors:
            raise _error(errno.EBADF, "descriptor")
        return self._descriptors[descriptor]

    def _file(self, descriptor: int) -> File:
        file = self._inodes[self._found(descriptor).inode]
        assert isinstance(file, File)
        return file

    def _at(self, path: str | Path) -> int:
        inode = ROOT
        for name in Path(path).parts[1:]:
            directory = self._inodes[inode]
            if not isinstance(directory, Directory):
                raise _error(errno.ENOTDIR, path)
            if name not in directory.live:
                raise _error(errno.ENOENT, path)
            inode = directory.live[name]
        return inode

    def _parent(self, path: str | Path) -> tuple[Directory, str]:
        directory = self._inodes[self._at(Path(path).parent)]
        if not isinstance(directory, Directory):
            raise _error(errno.ENOTDIR, path)
        return directory, Path(path).name

    def _stat(self, inode: int) -> os.stat_result:
        found = self._inodes[inode]
        kind = stat.S_IFDIR | 0o700 if isinstance(found, Directory) else stat.S_IFREG | 0o600
        times = {"st_mtime_ns": found.time, "st_ctime_ns": found.time}
        return os.stat_result((kind, inode, 1, 1, 0, 0, len(found.live), 0, 0, 0), times)

    def _tree(
        self, path: str, inode: int, view: Callable[[File | Directory], bytes | dict[str, int]]
    ) -> Iterator[tuple[str, bytes | None]]:
        found = view(self._inodes[inode])
        if path:
            yield path, found if isinstance(found, bytes) else None
        if isinstance(found, dict):
            for name, child in found.items():
                yield from self._tree(f"{path}/{name}", child, view)

    def _trees(self, path: str, inode: int, limit: int, dice: random.Random) -> Iterator[list[Entry]]:
        found = self._inodes[inode]
        if isinstance(found, File):
            for content in self._contents(path, found, limit, dice):
                yield [(path, content)]
            return
        here: list[Entry] = [(path, None)] if path else []
        for entries in found.states(limit, dice):
            yield from _all_of(here, [self._subtrees(path, *entry, limit, dice) for entry in entries.items()])

    def _subtrees(
        self, path: str, name: str, inode: int, limit: int, dice: random.Random
    ) -> Callable[[], Iterator[list[Entry]]]:
        return lambda: self._trees(f"{path}/{name}", inode, limit, dice)

    def _contents(self, path: str, file: File, limit: int, dice: random.Random) -> Iterator[bytes]:
        if not path.endswith(NOISE):
            yield from file.states(limit, dice)
        else:
            yield dice.choice(list(file.states(16, dice)))


def _all_of(here: list[Entry], children: list[Callable[[], Iterator[list[Entry]]]]) -> Iterator[list[Entry]]:
    """Each state of each child with each of the others."""
    if not children:
        yield here
        return
    first, *others = children
    for state in first():
        yield from _all_of(here + state, others)


def _error(number: int, what: object) -> OSError:
    return OSError(number, os.strerror(number), str(what))

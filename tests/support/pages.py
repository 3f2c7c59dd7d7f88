"""What of a file or a directory survives when the power goes: the rules of a disk, as values.

Owns: changes since the last sync, and every state that a disk may legally show afterwards. Must not know: paths,
descriptors, who writes. The rules: a sector of 512 bytes is written whole or not at all, in any order; the size grows
with any of them or none; what was not written reads as zeros; an entry of a directory comes and goes by itself, a
rename at once. After a failed sync any of it may be on disk or not, for ever: a later one says nothing about it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, product

__all__ = ["SECTOR", "Directory", "Entries", "File", "subsets"]

SECTOR = 512


@dataclass(frozen=True)
class Change:
    """`fixed`: on disk for certain. `doubtful`: a sync of it failed, so no later one can make it certain."""

    fixed: bool = field(default=False, kw_only=True)
    doubtful: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Put(Change):
    """Bytes within one sector."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Grow(Change):
    size: int


@dataclass(frozen=True)
class Cut(Change):
    size: int


@dataclass(frozen=True)
class Entries(Change):
    """Names that lead to other inodes from now on, or to none; all of them or not at all."""

    names: Mapping[str, int | None]


def synced(changes: Iterable[Change]) -> list[Change]:
    return [change if change.doubtful else replace(change, fixed=True) for change in changes]


def in_doubt(changes: Iterable[Change]) -> list[Change]:
    return [change if change.fixed else replace(change, doubtful=True) for change in changes]


def subsets(count: int, limit: int, dice: random.Random) -> Iterator[tuple[bool, ...]]:
    """All ways to take some of `count` things, or `limit` of them: mostly plain ones, the others by chance."""
    if 2**count <= limit:
        yield from product((False, True), repeat=count)
        return
    yield from ((True,) * count, (False,) * count)
    plain = [(at, kind) for at in range(count) for kind in ("only", "but", "until")]
    for number, kind in plain if len(plain) <= limit else dice.sample(plain, limit):
        yield tuple({"only": at == number, "but": at != number, "until": at < number}[kind] for at in range(count))
    for _ in range(limit - len(plain)):
        yield tuple(bool(dice.getrandbits(1)) for _ in range(count))


class File:
    """`live` is what a reader sees while the power is on."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = content
        self.live = content
        self.changes: list[Change] = []
        self.time = 0

    def write(self, data: bytes) -> None:
        """At the end."""
        self.put(len(self.live), data)

    def put(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        for start in range(offset - offset % SECTOR, end, SECTOR):
            first, last = max(start, offset), min(start + SECTOR, end)
            self.changes.append(Put(first, data[first - offset : last - offset]))
            if last > len(self.live):
                self.changes.append(Grow(last))
        self.live = self.live[:offset] + data + self.live[end:]

    def cut(self, size: int) -> None:
        self.changes.append(Cut(size))
        self.live = self.live[:size].ljust(size, b"\0")

    def sync(self) -> None:
        self.changes = synced(self.changes)
        states = set(self.states(64, random.Random(0)))
        if len(states) == 1:
            (self.durable,), self.changes = states, []

    def fail_sync(self) -> None:
        self.changes = in_doubt(self.changes)

    def forget_cache(self) -> None:
        """A reader sees the disk again. It has no byte of what is in doubt: the worst case, and the usual one."""
        self.changes = [change for change in self.changes if not (change.doubtful and isinstance(change, Put))]
        self.live = _applied(self.durable, self.changes)

    def states(self, limit: int, dice: random.Random) -> Iterator[bytes]:
        """Each once, at most about `limit` for one size, and of very many sizes a few."""
        seen = set()
        for changes in self._with_some_cuts(max(limit, 40), dice):
            for kept in self._with_some_puts(changes, limit, dice):
                content = _applied(self.durable, kept)
                if content not in seen:
                    seen.add(content)
                    yield content

    def _with_some_cuts(self, limit: int, dice: random.Random) -> Iterator[list[Change]]:
        """Each choice of cuts with each size (of more than `limit`, three) that may come after them; all bytes are
        still in it."""
        cuts = [isinstance(change, Cut) and not change.fixed for change in self.changes]
        for chosen in product((False, True), repeat=sum(cuts)):
            choices = iter(chosen)
            changes = [change for change, cut in zip(self.changes, cuts, strict=True) if not cut or next(choices)]
            last = max((i for i, change in enumerate(changes) if isinstance(change, Cut)), default=-1)
            grows = [
                i for i, change in enumerate(changes) if i > last and isinstance(change, Grow) and not change.fixed
            ]
            for most in range(len(grows) + 1) if len(grows) < limit else (0, dice.randrange(len(grows)), len(grows)):
                dropped = set(grows[most:])
                yield [change for i, change in enumerate(changes) if i not in dropped]

    def _with_some_puts(self, changes: list[Change], limit: int, dice: random.Random) -> Iterator[list[Change]]:
        size = len(_applied(self.durable, changes))
        certain = [not isinstance(change, Put) or change.fixed for change in changes]
        visible = [c or (isinstance(x, Put) and x.offset < size) for c, x in zip(certain, changes, strict=True)]
        changes, certain = list(compress(changes, visible)), list(compress(certain, visible))
        for chosen in subsets(len(certain) - sum(certain), limit, dice):
            choices = iter(chosen)
            yield [change for change, kept in zip(changes, certain, strict=True) if kept or next(choices)]


class Directory:
    """`live` leads from names to inodes."""

    def __init__(self, entries: Mapping[str, int] | None = None) -> None:
        self.durable = dict(entries or {})
        self.live = dict(entries or {})
        self.changes: list[Change] = []
        self.time = 0

    def change(self, names: Mapping[str, int | None]) -> None:
        self.changes.append(Entries(names))
        self.live = _entered(self.live, [self.changes[-1]])

    def sync(self) -> None:
        self.changes = synced(self.changes)
        states = [state for state, _ in zip(self.states(64, random.Random(0)), range(2), strict=False)]
        if len(states) == 1:
            (self.durable,), self.changes = states, []

    def fail_sync(self) -> None:
        self.changes = in_doubt(self.changes)

    def states(self, limit: int, dice: random.Random) -> Iterator[dict[str, int]]:
        """Each once."""
        seen = set()
        free = sum(not change.fixed for change in self.changes)
        for chosen in subsets(free, limit, dice):
            choices = iter(chosen)
            state = _entered(self.durable, [change for change in self.changes if change.fixed or next(choices)])
            key = frozenset(state.items())
            if key not in seen:
                seen.add(key)
                yield state


def _applied(content: bytes, changes: Sequence[Change]) -> bytes:
    """What is on disk when exactly these changes are. Bytes beyond the size wait for it to grow over them."""
    disk, size = bytearray(content), len(content)
    for change in changes:
        match change:
            case Put(offset=offset, data=data):
                disk.extend(bytes(max(0, offset + len(data) - len(disk))))
                disk[offset : offset + len(data)] = data
            case Grow(size=grown):
                size = max(size, grown)
            case Cut(size=cut):
                del disk[cut:]
                size = cut
    return bytes(disk[:size]).ljust(size, b"\0")


def _entered(entries: Mapping[str, int], changes: Iterable[Change]) -> dict[str, int]:
    found = dict(entries)
    for change in changes:
        assert isinstance(change, Entries)
        for name, inode in change.names.items():
            if inode is None:
                found.pop(name, None)
            else:
                found[name] = inode
    return found

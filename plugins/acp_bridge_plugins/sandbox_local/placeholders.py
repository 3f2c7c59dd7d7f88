"""Paths that exist only while a command runs, to be mounted over (field case S4).

Owns: making them, and taking them away again when nobody needs them. Must not know: git, bubblewrap.
Invariant: nothing of the user's is ever removed: a directory goes only while empty, a file only while it holds what
was put there. Runs in other processes share the same paths, so each holds a shared lock on the directory above;
removing under a running command would take its mount away.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from acp_bridge_plugins.sandbox_local.git import Placeholder

__all__ = ["Held", "hold"]


class Held:
    """`paths` exist until `release`, which never raises and may be called twice."""

    def __init__(self) -> None:
        self.paths: tuple[str, ...] = ()
        self._items: list[Placeholder] = []
        self._locks: dict[str, int] = {}

    def add(self, item: Placeholder) -> None:
        """Raises OSError when it cannot be made."""
        self._lock(_above(item))
        _create(item)
        self._items.append(item)
        self.paths += (item.path,)

    def release(self) -> None:
        for directory, lock in self._locks.items():
            if _alone(lock):
                for item in self._items:
                    # Refused: the user has put something there, so it stays.
                    with suppress(OSError):
                        if _above(item) == directory:
                            _remove(item)
            os.close(lock)
        self._locks.clear()

    def _lock(self, directory: str) -> None:
        import fcntl

        # One lock for a directory, because a second one of our own would count as another run's.
        if directory in self._locks:
            return
        lock = self._locks[directory] = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Never a blocking lock: a command of another session may hold an exclusive one for as long as it likes.
        # Without ours the placeholder is made all the same, at worst one is left behind.
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)


def hold(placeholders: Sequence[Placeholder]) -> Held:
    """Make what can be made. What cannot (a directory we may not write) a confined command cannot make either."""
    held = Held()
    for item in placeholders:
        with suppress(OSError):
            held.add(item)
    return held


def _above(item: Placeholder) -> str:
    return os.path.dirname(item.path)  # noqa: PTH120  # strings throughout: these are mount points


def _alone(lock: int) -> bool:
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _create(item: Placeholder) -> None:
    try:
        if item.content is None:
            os.mkdir(item.path, 0o755)  # noqa: PTH102
            return
        file = os.open(item.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        # Another run, or a crash, left it: the mount over it is what matters.
        return
    with os.fdopen(file, "wb") as stream:
        stream.write(item.content)


def _remove(item: Placeholder) -> None:
    if item.content is None:
        os.rmdir(item.path)  # noqa: PTH106
        return
    with open(item.path, "rb") as stream:
        untouched = stream.read(len(item.content) + 1) == item.content
    if untouched:
        os.unlink(item.path)  # noqa: PTH108

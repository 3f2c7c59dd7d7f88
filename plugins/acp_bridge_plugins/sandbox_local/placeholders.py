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
        self._locked: list[tuple[Placeholder, int]] = []

    def add(self, item: Placeholder, lock: int) -> None:
        self.paths += (item.path,)
        self._locked.append((item, lock))

    def release(self) -> None:
        import fcntl

        while self._locked:
            item, lock = self._locked.pop()
            # Refused means that another run needs it, or that the user has put something there: it stays.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(item)
            os.close(lock)


def hold(placeholders: Sequence[Placeholder]) -> Held:
    """Make what can be made. What cannot (a directory we may not write) a confined command cannot make either."""
    held = Held()
    for item in placeholders:
        with suppress(OSError):
            _hold(item, held)
    return held


def _hold(item: Placeholder, held: Held) -> None:
    import fcntl

    lock = os.open(os.path.dirname(item.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    try:
        # Never a blocking lock: a command of another session may hold an exclusive one for as long as it likes.
        # Without ours the placeholder is made all the same, at worst one is left behind.
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _create(item)
    except OSError:
        os.close(lock)
        raise
    held.add(item, lock)


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

"""Disks that run full when a test says so, under the state directory of an agent.

Owns: a small tmpfs (where mounting is allowed), and a limit on the size of the agent's files that needs no rights.
Invariant: whatever is full can be freed while the agent runs, and nothing stays mounted.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.editor import Editor

__all__ = ["Disk", "disk_below"]


class Disk(Protocol):
    """`reason` is what the operating system says when nothing more can be written."""

    reason: str

    def fill(self, editor: Editor) -> None: ...
    def free(self, editor: Editor) -> None: ...


class _Tmpfs:
    """Takes no byte more once filled. Pages are 4 KiB, so what fits into a half full one must not matter to a test."""

    reason = os.strerror(errno.ENOSPC)

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self, editor: Editor) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self, editor: Editor) -> None:
        self._ballast.unlink()


class _ReadOnly:
    """Refused by the kernel while a file on it is open for writing: for sessions that are not stored yet."""

    reason = os.strerror(errno.EROFS)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fill(self, editor: Editor) -> None:
        _mount("-o", "remount,ro", str(self._folder))

    def free(self, editor: Editor) -> None:
        _mount("-o", "remount,rw", str(self._folder))


class _Limit:
    """Lets a few bytes more into the largest file and cuts the write there, as disks do."""

    reason = os.strerror(errno.EFBIG)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = (0, 0)

    def fill(self, editor: Editor) -> None:
        largest = max((path.stat().st_size for path in self._folder.rglob("*") if path.is_file()), default=0)
        self._before = resource.prlimit(editor.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(editor.pid, resource.RLIMIT_FSIZE, (largest + 10, self._before[1]))

    def free(self, editor: Editor) -> None:
        resource.prlimit(editor.pid, resource.RLIMIT_FSIZE, self._before)


@contextmanager
def disk_below(folder: Path, kind: str) -> Iterator[Disk]:
    """A disk at `folder`, one of `tmpfs`, `read-only` and `limit`; the first two skip the test without the right."""
    folder.mkdir(0o700)
    if kind == "limit":
        yield _Limit(folder)
        return
    try:
        _mount("-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not allowed here; the kind `limit` covers the agent's side of it")
    try:
        yield _Tmpfs(folder) if kind == "tmpfs" else _ReadOnly(folder)
    finally:
        # What was written is looked at once more when the test is over.
        shutil.copytree(folder, folder.with_name(f"{folder.name}-unmounted"), dirs_exist_ok=True)
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)

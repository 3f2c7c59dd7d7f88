"""Which parts of a checkout's git directory run code on the host later, and how they are kept shut (field case S4).

Owns: reading the layout of a clone, a linked worktree or a submodule. Must not know: bubblewrap.
Invariant: a git directory outside the root is opened only when it points back at the root; `hooks`, `config`,
`commondir` and pointer files are read-only, missing ones as well, while `git add`, `commit` and `branch` work.
What remains: repositories nested in subfolders or laid out bare in a folder that has none, and folders around a
submodule that are renamed away. Mounts cannot cover names that do not exist yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

__all__ = ["EMPTY_DIRECTORY", "Guard", "Placeholder", "guard", "joined"]

EMPTY_DIRECTORY = None
# git follows a `commondir` file in any git directory to its config and hooks. One that says "here" changes nothing.
_HERE = b".\n"
_READ_LIMIT = 256 * 1024
# Bounds the walk in a hostile tree; a superproject with more submodules than this is rare.
_MODULES = 64
_WORKTREE = re.compile(rb"(?im)^\s*worktree\s*=\s*\"?(.+?)\"?\s*$")
_POINTER = re.compile(rb"gitdir: (.+?)\s*\Z", re.DOTALL)


class Placeholder(Struct, frozen=True):
    """A missing path that must exist while a command runs, so that something can be mounted over it."""

    path: str
    content: bytes | None = EMPTY_DIRECTORY


class Guard(Struct, frozen=True):
    """`complete` is False when a symbolic link stands where a mount would have to be."""

    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    complete: bool = True


def joined(guards: list[Guard]) -> Guard:
    return Guard(
        tuple(path for one in guards for path in one.writable),
        tuple(path for one in guards for path in one.protected),
        tuple(item for one in guards for item in one.placeholders),
        all(one.complete for one in guards),
    )


def guard(root: str) -> Guard:
    """Read the git layout of `root`, a canonical directory. Changes nothing."""
    dot_git = Path(root, ".git")
    if dot_git.is_symlink():
        return Guard(complete=False)
    if dot_git.is_file():
        return _linked(dot_git)
    if dot_git.is_dir() and (dot_git / "HEAD").exists():
        return _git_directory(dot_git, dot_git)
    # No repository, or an empty placeholder that a killed agent left behind. git skips such a directory.
    if dot_git.is_dir() and any(dot_git.iterdir()):
        return Guard(protected=(str(dot_git),))
    return Guard(placeholders=(Placeholder(str(dot_git)),))


def _linked(pointer: Path) -> Guard:
    """A worktree or a submodule: `.git` is a file that names the git directory."""
    found = _POINTER.match(_read(pointer))
    own = Guard(protected=(str(pointer),))
    if found is None:
        return own
    git_dir = Path(os.path.realpath(pointer.parent / os.fsdecode(found.group(1))))
    common = _common(git_dir)
    if common is None or not _belongs(git_dir, pointer):
        return own
    return joined([own, _git_directory(git_dir, common)])


def _belongs(git_dir: Path, pointer: Path) -> bool:
    """Whether `git_dir` names the checkout of `pointer` as its own. A pointer alone could name any directory."""
    back = _read(git_dir / "gitdir").strip()
    if back:
        return os.path.realpath(git_dir / os.fsdecode(back)) == str(pointer)
    worktree = _WORKTREE.search(_read(git_dir / "config"))
    return worktree is not None and os.path.realpath(git_dir / os.fsdecode(worktree.group(1))) == str(pointer.parent)


def _common(git_dir: Path) -> Path | None:
    """The directory that holds config, hooks and objects; None when this is no layout that git makes."""
    said = _read(git_dir / "commondir").strip()
    common = git_dir
    if said and said != _HERE.strip():
        common = Path(os.path.realpath(git_dir / os.fsdecode(said)))
        if git_dir.parent != common / "worktrees":
            return None
    real = (common / "HEAD").is_file() and (common / "objects").is_dir() and (common / "refs").is_dir()
    return common if real else None


def _git_directory(git_dir: Path, common: Path) -> Guard:
    if any((common / name).is_symlink() for name in ("hooks", "config", "commondir")):
        return Guard(protected=(str(common),))
    wanted: list[tuple[Path, bytes | None]] = [
        (common / "hooks", EMPTY_DIRECTORY),
        (common / "config", b""),
        (common / "commondir", _HERE),
    ]
    per_worktree = [directory / "config.worktree" for directory in {git_dir, common}]
    if b"worktreeconfig" in _read(common / "config").lower():
        wanted += [(path, b"") for path in per_worktree]
    present = [path for path, content in wanted if path.exists() and not _left_behind(path, content)]
    present += [path for path in per_worktree if path.exists() and path not in present]
    present += [*_worktree_links(common), *_submodule_files(common)]
    pins = {parent for path in present for parent in _between(common, path)}
    return Guard(
        (str(common), *sorted(map(str, pins))),
        tuple(map(str, present)),
        tuple(Placeholder(str(path), content) for path, content in wanted if path not in present),
    )


def _left_behind(path: Path, content: bytes | None) -> bool:
    return content == _HERE and _read(path) == _HERE


def _worktree_links(common: Path) -> Iterator[Path]:
    for directory in _directories(common / "worktrees"):
        yield from (path for name in ("commondir", "gitdir") if _plain(path := directory / name))


def _submodule_files(common: Path) -> Iterator[Path]:
    for module in _modules(common):
        yield from (path for name in ("hooks", "config") if _plain(path := module / name))
        worktree = _WORKTREE.search(_read(module / "config"))
        pointer = Path(os.path.realpath(module / os.fsdecode(worktree.group(1))), ".git") if worktree else None
        if pointer is not None and pointer.is_relative_to(common.parent) and _plain(pointer):
            yield pointer


def _modules(common: Path) -> list[Path]:
    """Git directories of submodules, nested ones and names with slashes included."""
    found: list[Path] = []
    pending = list(_directories(common / "modules"))
    while pending and len(found) < _MODULES:
        directory = pending.pop()
        if (directory / "HEAD").is_file():
            found.append(directory)
            pending.extend(_directories(directory / "modules"))
        else:
            pending.extend(_directories(directory))
    return found


def _directories(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _plain(path: Path) -> bool:
    return path.exists() and not path.is_symlink()


def _between(top: Path, path: Path) -> list[Path]:
    """Directories below `top` on the way to `path`: renaming one would carry the protected file away."""
    return [parent for parent in path.parents if parent != top and parent.is_relative_to(top)]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_READ_LIMIT)
    except OSError:
        return b""

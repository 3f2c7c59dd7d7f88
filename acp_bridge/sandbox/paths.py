"""Where a path really leads, and what an in-process tool may do there (design §12; field cases S2, S3, S4).

Owns: canonical paths and the rules for reading and writing them. Must not know: tools, how files are opened.
Invariant: rules look at canonical paths only, and every refusal names the path and the rule. A rule holds for the
path as it was resolved: `beneath` makes sure that what is opened later is still that place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct

from acp_bridge.errors import ToolFailed
from acp_bridge.lifecycle.kernel import ServiceKey
from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.tools.visible import visible_line

__all__ = ["PRIVATE_DIRS", "Place", "git_guarded", "holder", "inside", "locate", "refuse_read", "refuse_write"]

# The agent's own directories (state, configuration), for tools that are made by nobody who could tell them.
PRIVATE_DIRS = ServiceKey[tuple[str, ...]]("private_dirs")

_DENIED = "FS_SANDBOX_DENIED"
_SURROGATE = re.compile("[\ud800-\udfff]")
_PROCESS_SECRETS = re.compile(r"/proc/\d+/(task/\d+/)?(environ|mem)")


class Place(Struct, frozen=True):
    """One canonical location. `root` is the canonical session root that holds it, None outside of all roots.

    `shown` is the same place spelled with the root as the session spells it, which is how the editor knows the file.
    """

    path: str
    root: str | None
    shown: str


def locate(asked: str, roots: Sequence[str]) -> Place:
    """Resolve `asked`, absolute or relative to `roots[0]`. Looks at the disk; the place need not exist.

    Raises ToolFailed (INVALID_ARGS) for a path that cannot name a file.
    """
    _plain(asked)
    # realpath first, so that `link/..` means what the kernel would make of it, not what it looks like.
    path = os.path.realpath(os.path.join(roots[0], asked))  # noqa: PTH118  # pathlib would drop `..` and `//`
    if _SURROGATE.search(path):
        raise ToolFailed(
            f"{visible_line(asked)} leads to {visible_line(path)}, a name that is not UTF-8", "INVALID_ARGS"
        )
    for root in roots:
        canonical = os.path.realpath(root)
        if inside(path, canonical):
            return Place(path, canonical, _respelled(path, canonical, root))
    return Place(path, None, path)


def inside(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies beneath it. Both are canonical."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def holder(path: str, directories: Sequence[str]) -> str | None:
    """The first of `directories` (resolved here) that holds the canonical `path`."""
    return next((found for found in map(os.path.realpath, directories) if inside(path, found)), None)


def refuse_read(place: Place, private: Sequence[str]) -> None:
    """Raises ToolFailed when no mode lets a tool read the place. Reading outside the roots is approval's question."""
    _refuse_private(place, private)


def refuse_write(place: Place, mode: SandboxMode, private: Sequence[str]) -> None:
    """Raises ToolFailed when `mode` does not let an in-process tool write the place."""
    _refuse_private(place, private)
    if mode == "danger-full-access":
        return
    if mode == "read-only":
        raise _denied(place, "the sandbox is read-only, so files cannot be changed")
    if place.root is None:
        raise _denied(place, "it is outside the session's directories, and workspace-write permits no writing there")
    if git_guarded(place.path) or _plants_repository(place.path) or _guarded_elsewhere(place.path, place.root):
        raise _denied(place, "git runs what its hooks, config and pointer files say, so they are read-only")


def git_guarded(path: str) -> bool:
    """Whether git would execute or follow what is written at the canonical `path` (field case S4)."""
    parts = path.casefold().split("/")
    if ".git" not in parts:
        return False
    rest = parts[parts.index(".git") + 1 :]
    # An empty rest is the directory itself, or the pointer file of a worktree or submodule.
    return not rest or "hooks" in rest or rest[-1] in {".git", "config", "config.worktree", "commondir", "gitdir"}


def _guarded_elsewhere(path: str, root: str) -> bool:
    """The same, for a git directory that `root/.git` links to."""
    git = os.path.realpath(f"{root}/.git")
    return inside(path, git) and git_guarded(f"/.git{path[len(git) :]}")


def _plants_repository(path: str) -> bool:
    head, found, _ = path.partition("/.git/")
    return bool(found) and not os.path.isdir(f"{head}/.git")  # noqa: PTH112  # strings throughout this module


def _refuse_private(place: Place, private: Sequence[str]) -> None:
    # /proc/self resolves to this process, whose environment and memory hold the user's keys.
    own = f"/proc/{os.getpid()}"
    if holder(place.path, private) or inside(place.path, own) or _PROCESS_SECRETS.fullmatch(place.path):
        raise _denied(place, "it belongs to the agent itself (state, credentials, process memory)")


def _denied(place: Place, rule: str) -> ToolFailed:
    return ToolFailed(f"{visible_line(place.shown)}: access denied: {rule}.", _DENIED)


def _plain(asked: str) -> None:
    if not asked.strip():
        raise ToolFailed("the path is empty", "INVALID_ARGS")
    if "\0" in asked or _SURROGATE.search(asked):
        raise ToolFailed(f"{visible_line(asked)} is not a path: it holds a character no file name has", "INVALID_ARGS")
    if asked == "~" or asked.startswith("~/"):
        raise ToolFailed(f"{visible_line(asked)}: ~ is not expanded; give an absolute path", "INVALID_ARGS")


def _respelled(path: str, canonical: str, root: str) -> str:
    if path == canonical:
        return root
    return f"{root.rstrip('/')}/{path[len(canonical.rstrip('/')) + 1 :]}"

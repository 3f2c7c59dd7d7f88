"""The three layouts of a git checkout, made by git itself (field case S4)."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["LAYOUTS", "clone", "git", "submodule", "worktree"]


def git(*words: str, at: Path) -> str:
    done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def clone(at: Path) -> Path:
    """Answers the checkout."""
    at.mkdir(parents=True)
    git("init", "-q", at=at)
    _identify(at)
    (at / "first").write_text("1")
    git("add", "first", at=at)
    git("commit", "-qm", "first", at=at)
    return at


def worktree(at: Path) -> Path:
    main = clone(at / "main")
    git("worktree", "add", "-q", "../linked", at=main)
    return at / "linked"


def submodule(at: Path) -> Path:
    origin = clone(at / "origin")
    outer = clone(at / "outer")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "inner", at=outer)
    git("commit", "-qm", "submodule", at=outer)
    _identify(outer / "inner")
    return outer / "inner"


def _identify(at: Path) -> None:
    """In the repository, because commands see no HOME that lies below /tmp."""
    git("config", "user.name", "A", at=at)
    git("config", "user.email", "a@b", at=at)


LAYOUTS = [clone, worktree, submodule]

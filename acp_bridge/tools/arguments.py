"""Looking at arguments that may be anything, and naming paths in titles (field case P13).

Owns: total accessors for `Tool.present`, and how a path is written in one line. Must not know any tool.
Invariant: nothing here raises or looks at the disk; what comes back can be logged and drawn.
"""

from __future__ import annotations

import os
from typing import Any

from acp_bridge.tools.visible import visible_line

__all__ = ["absolute", "clipped", "flag", "integer", "quoted", "spelled", "text"]

# Longer than any path that a kernel takes (PATH_MAX), so a real path is never cut.
_LONGEST_PATH = 4096
# A line number beyond this is no line number; msgspec cannot log integers over 64 bits.
_HIGHEST = 2**31


def text(arguments: Any, name: str) -> str | None:
    """The string argument, or None."""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else None


def integer(arguments: Any, name: str) -> int | None:
    """The argument when it is a plausible 1-based number, or None."""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= _HIGHEST else None


def flag(arguments: Any, name: str) -> bool:
    return isinstance(arguments, dict) and arguments.get(name) is True


def absolute(path: str, cwd: str) -> str | None:
    """`path` made absolute by its letters alone, or None when no editor could open it."""
    if not path or len(path) > _LONGEST_PATH or visible_line(path) != path:
        return None
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118  # pathlib keeps `..`


def spelled(path: str, cwd: str) -> str:
    """`path` for a title: relative when it lies beneath `cwd`, with nothing hidden in it."""
    full = os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118
    base = os.path.normpath(cwd)
    if full == base:
        return "."
    beneath = full.removeprefix(base.rstrip("/") + "/")
    return clipped(visible_line(beneath), _LONGEST_PATH)


def quoted(pattern: str) -> str:
    """`pattern` between quotes, cut to what fits a title."""
    return f"'{clipped(visible_line(pattern), 200)}'"


def clipped(line: str, length: int) -> str:
    return line if len(line) <= length else line[: length - 1] + "…"

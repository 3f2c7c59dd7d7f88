"""How file tools appear in the editor (design §7; editors, rules 15 and 21).

Owns: titles, locations and diffs of calls on one file. Must not know: how files are read or written.
Invariant: pure and total for any arguments; a prepared call shows the place that will really be touched.
"""

from __future__ import annotations

from typing import Any, Literal

from acp_bridge.sandbox.paths import Place
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import absolute, spelled, text
from acp_bridge_plugins.tools_files.diff import Change

__all__ = ["announced", "shown"]

Kind = Literal["read", "edit", "search"]


def announced(
    verb: str, kind: Kind, arguments: Any, cwd: str, *, fallback: str, suffix: str = "", line: int = 0
) -> Presentation:
    """From arguments alone. `fallback` is the title when they name no path."""
    path = text(arguments, "path")
    if not path:
        return Presentation(fallback, kind)
    where = absolute(path, cwd)
    return Presentation(f"{verb} {spelled(path, cwd)}{suffix}", kind, ((where, line),) if where else ())


def shown(
    verb: str, kind: Kind, place: Place, cwd: str, *, suffix: str = "", line: int = 0, change: Change | None = None
) -> Presentation:
    """The true place and, for an edit, the true change."""
    title = f"{verb} {spelled(place.shown, cwd)}{suffix}"
    if change is None:
        return Presentation(title, kind, ((place.shown, line),))
    return Presentation(title, kind, ((place.shown, change.line),), (change.diff,), change.note)

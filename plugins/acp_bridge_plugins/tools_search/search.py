"""The tool `search`: ripgrep over the project (design §7).

Owns: the question in ripgrep's arguments and its matches as text. Must not know: how ripgrep is run.
Invariant: what is private or git's own is never shown, whatever glob is asked for; output is bounded and says so
when it is cut.
"""

from __future__ import annotations

from typing import Any

import anyio
from msgspec import Struct

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.paths import Place, locate, refuse_read
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import absolute, clipped, quoted, spelled, text
from acp_bridge.tools.ripgrep import Found, Query, Target, argument, ripgrep, target
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge.tools.visible import visible, visible_line

__all__ = ["Search"]

MAX_MATCHES = 500
MAX_BYTES = 64 * 1024
# Columns. A minified file must not spend the whole budget on one match.
MAX_COLUMNS = 500

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "A regular expression in ripgrep's syntax."},
        "path": {"type": "string", "description": "File or directory to search; the project when left out."},
        "glob": {"type": "string", "description": "Only files whose path matches, such as *.py or src/**/*.ts."},
    },
    "required": ["pattern"],
}


class _Plan(Struct, frozen=True):
    place: Place
    pattern: str
    glob: str | None


class Search:
    name = "search"
    description = (
        "Search file contents with a regular expression. Answers with `path:line:text`, one match a line. Files that "
        "git ignores are left out, and so are binary files. Lines longer than 500 characters are cut."
    )
    parameters = _PARAMETERS

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private = private_dirs

    def present(self, arguments: Any, cwd: str) -> Presentation:
        pattern, path, glob = (text(arguments, name) for name in ("pattern", "path", "glob"))
        if pattern is None:
            return Presentation("Search", "search")
        where = absolute(path, cwd) if path else None
        title = f"Search {quoted(pattern)} in {spelled(path or '.', cwd)}{_only(glob)}"
        return Presentation(title, "search", ((where, 0),) if where else ())

    def concurrency_safe(self, arguments: Any) -> bool:
        return True

    async def prepare(self, execution: Execution) -> Prepared:
        pattern, path, glob = (text(execution.arguments, name) for name in ("pattern", "path", "glob"))
        session = execution.session
        place = await anyio.to_thread.run_sync(locate, path or ".", session.roots)
        refuse_read(place, self._private)
        plan = _Plan(place, argument(pattern or "", "pattern"), argument(glob, "glob") if glob else None)
        title = f"Search {quoted(plan.pattern)} in {spelled(place.shown, session.cwd)}{_only(glob)}"
        shown = Presentation(title, "search", ((place.shown, 0),))
        return Prepared(shown, Access("read", (place.path,)), plan)

    async def execute(self, execution: Execution) -> ToolOutcome:
        plan: _Plan = execution.prepared.plan  # type: ignore[union-attr]  # the pipeline always prepares first
        session = execution.session
        where = await anyio.to_thread.run_sync(target, plan.place, self._private, session.roots)
        found = await ripgrep(_query(plan, where), execution.signal)
        if found.code == 2 and found.complaint:
            raise ToolFailed(visible(found.complaint), "INVALID_ARGS")
        matches = _matches(found, where, session.cwd)
        return ToolOutcome(_report(matches, found), meta={"matches": len(matches), "cut": found.cut})


def _query(plan: _Plan, where: Target) -> Query:
    arguments = (
        "--line-number",
        "--no-heading",
        "--with-filename",
        f"--max-columns={MAX_COLUMNS}",
        "--max-columns-preview",
        f"--regexp={plan.pattern}",
    )
    return Query(where, arguments, b"\n", MAX_MATCHES, MAX_BYTES, plan.glob)


def _matches(found: Found, where: Target, cwd: str) -> list[str]:
    """Sorted by path: ripgrep searches files side by side and answers in the order in which they finish."""
    matches: list[tuple[str, str]] = []
    for record in found.records:
        name, separator, rest = record.partition(b"\0")
        shown = where.shown_path(name) if separator else None
        if shown is not None:
            text = rest.decode("utf-8", "backslashreplace").removesuffix("\r")
            matches.append((spelled(shown, cwd), text))
    return [f"{path}:{text}" for path, text in sorted(matches, key=lambda match: match[0])]


def _report(matches: list[str], found: Found) -> str:
    lines = matches or ([] if found.cut else ["No matches."])
    if found.cut:
        lines = [*lines, f"[Stopped after {len(matches)} matches; narrow the pattern, the path or the glob.]"]
    if found.code == 2:
        lines = [*lines, "[Some files could not be read.]"]
    return "\n".join(lines)


def _only(glob: str | None) -> str:
    return f" ({clipped(visible_line(glob), 200)})" if glob else ""

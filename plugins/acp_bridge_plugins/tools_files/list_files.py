"""The tool `list_files`: the files of a directory tree, as git would see them (design §7).

Owns: the question and the list. Must not know: how ripgrep is run. Invariant: what is private or git's own is never
shown; the list is sorted, bounded, and says so when it is cut.
"""

from __future__ import annotations

from typing import Any

import anyio
from msgspec import Struct

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.paths import Place, locate, refuse_read
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import absolute, clipped, spelled, text
from acp_bridge.tools.ripgrep import Query, argument, ripgrep, target
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge.tools.visible import visible, visible_line

__all__ = ["ListFiles"]

MAX_ENTRIES = 1000
MAX_BYTES = 128 * 1024

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The directory; the working directory when left out."},
        "glob": {"type": "string", "description": "Only files whose path matches, such as *.py or src/**/*.ts."},
    },
}


class _Plan(Struct, frozen=True):
    place: Place
    glob: str | None


class ListFiles:
    name = "list_files"
    description = (
        "List the files beneath a directory, one path a line, relative to the working directory. Files that git "
        "ignores are left out. At most 1000 are listed."
    )
    parameters = _PARAMETERS

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private = private_dirs

    def present(self, arguments: Any, cwd: str) -> Presentation:
        path, glob = text(arguments, "path"), text(arguments, "glob")
        where = absolute(path, cwd) if path else None
        return Presentation(_title(spelled(path or ".", cwd), glob), "search", ((where, 0),) if where else ())

    def concurrency_safe(self, arguments: Any) -> bool:
        return True

    async def prepare(self, execution: Execution) -> Prepared:
        session, glob = execution.session, text(execution.arguments, "glob")
        path = text(execution.arguments, "path") or "."
        place = await anyio.to_thread.run_sync(locate, path, session.roots)
        refuse_read(place, self._private)
        card = Presentation(_title(spelled(place.shown, session.cwd), glob), "search", ((place.shown, 0),))
        plan = _Plan(place, argument(glob, "glob") if glob else None)
        return Prepared(card, Access("read", (place.path,)), plan)

    async def execute(self, execution: Execution) -> ToolOutcome:
        plan: _Plan = execution.prepared.plan  # type: ignore[union-attr]  # the pipeline always prepares first
        session = execution.session
        where = await anyio.to_thread.run_sync(target, plan.place, self._private, session.roots)
        if where.directory != plan.place.path:
            raise ToolFailed(f"{visible_line(plan.place.shown)} is a file; read_file reads it")
        query = Query(where, ("--files", "--sort=path"), b"\0", MAX_ENTRIES, MAX_BYTES, plan.glob)
        found = await ripgrep(query, execution.signal)
        if found.code == 2 and found.complaint:
            raise ToolFailed(visible(found.complaint), "INVALID_ARGS")
        names = filter(None, map(where.shown_path, found.records))
        entries = sorted(spelled(name, session.cwd) for name in names)
        return ToolOutcome(_report(entries, cut=found.cut), meta={"entries": len(entries), "cut": found.cut})


def _report(entries: list[str], *, cut: bool) -> str:
    if cut:
        entries = [*entries, f"[Stopped after {len(entries)} files; narrow the path or the glob.]"]
    return "\n".join(entries) or "No files."


def _title(where: str, glob: str | None) -> str:
    return f"List {where} ({clipped(visible_line(glob), 200)})" if glob else f"List {where}"

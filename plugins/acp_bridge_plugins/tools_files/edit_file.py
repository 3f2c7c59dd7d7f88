"""The tool `edit_file`: replace one piece of text in a file (design §7; field cases E1 to E5).

Owns: what is replaced, and the diff that a person approves. Must not know: bytes, encodings, how a file is saved.
Invariant: what is written is what `prepare` computed and showed; everything else in the file stays as it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.paths import locate, refuse_write
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import absolute, flag, spelled, text
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge_plugins.tools_files.diff import Change, change
from acp_bridge_plugins.tools_files.presenting import announced, shown
from acp_bridge_plugins.tools_files.replacing import replaced, replaced_ascii
from acp_bridge_plugins.tools_files.saving import Pending, pending, save
from acp_bridge_plugins.tools_files.source import Source, computed, load
from acp_bridge_plugins.tools_files.text import legible, view

__all__ = ["EditFile"]

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, absolute or relative to the working directory."},
        "old_text": {
            "type": "string",
            "description": "The text to replace, exactly as it stands in the file, with enough lines to be unique.",
        },
        "new_text": {"type": "string", "description": "What to put in its place."},
        "replace_all": {"type": "boolean", "description": "Replace every occurrence instead of the only one."},
    },
    "required": ["path", "old_text", "new_text"],
}


class _Plan(Struct, frozen=True):
    pending: Pending
    times: int


class EditFile:
    name = "edit_file"
    description = (
        "Replace old_text by new_text in a file. old_text must occur exactly once unless replace_all is set. Write "
        "line ends as \\n: the file keeps its own, and its encoding. Read the file first."
    )
    parameters = _PARAMETERS

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private = private_dirs

    def present(self, arguments: Any, cwd: str) -> Presentation:
        card = announced("Edit", "edit", arguments, cwd, fallback="Edit a file")
        old, new = text(arguments, "old_text"), text(arguments, "new_text")
        where = absolute(text(arguments, "path") or "", cwd)
        if where is None or old is None or new is None:
            return card
        drawn = change(where, view(old), view(new))
        return replace(card, diffs=(drawn.diff,), text=drawn.note)

    def concurrency_safe(self, arguments: Any) -> bool:
        return False

    async def prepare(self, execution: Execution) -> Prepared:
        arguments, session = execution.arguments, execution.session
        place = await anyio.to_thread.run_sync(locate, arguments["path"], session.roots)
        refuse_write(place, execution.sandbox_mode, self._private)
        source = await load(execution, place)
        if not source.exists:
            raise ToolFailed(f"{source.name} does not exist; write_file creates files")
        new, times = await computed(execution, partial(_edited, source, arguments))
        plan = _Plan(await anyio.to_thread.run_sync(pending, execution, source, new), times)
        drawn = await computed(execution, partial(_drawn, source, new))
        return Prepared(shown("Edit", "edit", place, session.cwd, change=drawn), Access("edit", (place.path,)), plan)

    async def execute(self, execution: Execution) -> ToolOutcome:
        plan: _Plan = execution.prepared.plan  # type: ignore[union-attr]  # the pipeline always prepares first
        place = plan.pending.source.place
        refuse_write(place, execution.sandbox_mode, self._private)
        note = await save(execution, plan.pending)
        times = "1 replacement" if plan.times == 1 else f"{plan.times} replacements"
        done = f"Edited {spelled(place.shown, execution.session.cwd)} ({times})."
        if plan.pending.source.unsaved:
            done += " The edit was made in the editor's text, which differed from the file on disk."
        return ToolOutcome(f"{done} {note}" if note else done, meta={"path": place.shown, "replacements": plan.times})


def _edited(source: Source, arguments: dict[str, Any]) -> tuple[str, int]:
    find = replaced if source.coding.known else replaced_ascii
    every = flag(arguments, "replace_all")
    return find(source.text, arguments["old_text"], arguments["new_text"], every=every, name=source.name)


def _drawn(source: Source, new: str) -> Change:
    old = source.disk_view
    before = None if old is None else legible(old, source.coding)
    drawn = change(source.place.shown, before, legible(new, source.coding))
    return replace(drawn, note=source.note(drawn.note))

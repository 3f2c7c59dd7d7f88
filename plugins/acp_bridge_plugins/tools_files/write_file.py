"""The tool `write_file`: a whole file, new or replaced (design §7; field cases E1 to E5).

Owns: what a whole-file write means for an existing file. Must not know: bytes, encodings, how a file is saved.
Invariant: what is written is what `prepare` computed and showed; a file in an encoding that is not known, or that is
not text, is never replaced.
"""

from __future__ import annotations

from typing import Any

import anyio
from msgspec.structs import replace

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.paths import locate, refuse_write
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import spelled
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge_plugins.tools_files.diff import Change, change
from acp_bridge_plugins.tools_files.presenting import announced, shown
from acp_bridge_plugins.tools_files.saving import Pending, pending, save
from acp_bridge_plugins.tools_files.source import load
from acp_bridge_plugins.tools_files.text import view

__all__ = ["WriteFile"]

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, absolute or relative to the working directory."},
        "content": {"type": "string", "description": "The whole new content."},
    },
    "required": ["path", "content"],
}


class WriteFile:
    name = "write_file"
    description = (
        "Write a whole file: create it, with its directories, or replace its content. An existing file keeps its line "
        "ends and its encoding. Prefer edit_file for changes to an existing file."
    )
    parameters = _PARAMETERS

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private = private_dirs

    def present(self, arguments: Any, cwd: str) -> Presentation:
        return announced("Write", "edit", arguments, cwd, fallback="Write a file")

    def concurrency_safe(self, arguments: Any) -> bool:
        return False

    async def prepare(self, execution: Execution) -> Prepared:
        arguments, session = execution.arguments, execution.session
        place = await anyio.to_thread.run_sync(locate, arguments["path"], session.roots)
        refuse_write(place, execution.sandbox_mode, self._private)
        source = await load(execution, place)
        if not source.coding.known:
            raise ToolFailed(
                f"{source.name} is not valid UTF-8 and its encoding is unknown: a whole write would lose it. Edit "
                "ASCII parts with edit_file, or convert or delete the file first"
            )
        content = arguments["content"].removeprefix("\ufeff" if source.coding.bom else "")
        plan = await anyio.to_thread.run_sync(pending, execution, source, content)
        drawn = await anyio.to_thread.run_sync(_drawn, plan, content)
        return Prepared(shown("Write", "edit", place, session.cwd, change=drawn), Access("edit", (place.path,)), plan)

    async def execute(self, execution: Execution) -> ToolOutcome:
        plan: Pending = execution.prepared.plan  # type: ignore[union-attr]  # the pipeline always prepares first
        source = plan.source
        refuse_write(source.place, execution.sandbox_mode, self._private)
        name = spelled(source.place.shown, execution.session.cwd)
        if plan.wanted == source.disk and not source.unsaved:
            return ToolOutcome(
                f"{name} already has this content; nothing was written.", meta={"path": source.place.shown}
            )
        note = await save(execution, plan)
        done = f"Created {name}." if source.disk is None else f"Replaced the content of {name}."
        return ToolOutcome(f"{done} {note}" if note else done, meta={"path": source.place.shown})


def _drawn(plan: Pending, content: str) -> Change:
    source = plan.source
    drawn = change(source.place.shown, source.disk_view, view(content))
    return replace(drawn, note=source.note(drawn.note))

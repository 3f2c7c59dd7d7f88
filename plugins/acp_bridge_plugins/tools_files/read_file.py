"""The tool `read_file`: lines of a text file (design §7; field cases E2, E4).

Owns: which lines, how much of them, and the notes about what is not shown. Must not know: encodings, the editor.
Invariant: what stands before the notes in brackets is the file's own text; nothing blocks on a pipe or a device.
"""

from __future__ import annotations

from typing import Any

import anyio
from msgspec import Struct

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.paths import Place, locate, refuse_read
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import integer
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge_plugins.tools_files.presenting import announced, shown
from acp_bridge_plugins.tools_files.source import Source, load
from acp_bridge_plugins.tools_files.text import escaped, marked

__all__ = ["MAX_BYTES", "MAX_COLUMNS", "MAX_LINES", "ReadFile"]

MAX_LINES = 2000
MAX_BYTES = 256 * 1024
# Characters. One line of a minified file must not use up the whole answer.
MAX_COLUMNS = 8000

UNSAVED = (
    "The editor has unsaved changes in this file, or the file was changed from outside and the editor has not noticed. "
    "This is the editor's text, not the file on disk."
)
UNKNOWN = "Not valid UTF-8: bytes in an unknown encoding appear as \\xNN. Only ASCII text can be edited here."

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, absolute or relative to the working directory."},
        "line": {"type": "integer", "minimum": 1, "description": "First line to read, 1-based. Default 1."},
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines. Default and maximum 2000."},
    },
    "required": ["path"],
}


class Window(Struct, frozen=True):
    """Lines `first` to `last` (1-based, inclusive; `last` < `first` for none) of `total`."""

    text: str
    first: int
    last: int
    total: int
    notes: tuple[str, ...]


class ReadFile:
    name = "read_file"
    description = (
        "Read a text file. Answers with the plain text, at most 2000 lines or 256 KiB of it; notes about what is left "
        "out follow in brackets. Read on with line. Line ends are shown as \\n whatever the file uses."
    )
    parameters = _PARAMETERS

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private = private_dirs

    def present(self, arguments: Any, cwd: str) -> Presentation:
        line = integer(arguments, "line") or 0
        suffix = _lines(arguments)
        return announced("Read", "read", arguments, cwd, fallback="Read a file", suffix=suffix, line=line)

    def concurrency_safe(self, arguments: Any) -> bool:
        return True

    async def prepare(self, execution: Execution) -> Prepared:
        # Nothing is read yet: outside the roots even the question whether a file exists waits for the approval.
        arguments, session = execution.arguments, execution.session
        place = await anyio.to_thread.run_sync(locate, arguments["path"], session.roots)
        refuse_read(place, self._private)
        line = integer(arguments, "line") or 0
        card = shown("Read", "read", place, session.cwd, suffix=_lines(arguments), line=line)
        return Prepared(card, Access("read", (place.path,)), place)

    async def execute(self, execution: Execution) -> ToolOutcome:
        place: Place = execution.prepared.plan  # type: ignore[union-attr]  # the pipeline always prepares first
        source = await load(execution, place)
        if not source.exists:
            raise ToolFailed(f"{source.name} does not exist")
        line, limit = execution.arguments.get("line", 1), execution.arguments.get("limit")
        found = await anyio.to_thread.run_sync(_shown, source, line, limit)
        if found.total < line > 1:
            raise ToolFailed(f"{source.name} has {found.total} lines; line {line} is past its end", "INVALID_ARGS")
        meta = {"path": place.shown, "firstLine": found.first, "lastLine": found.last, "totalLines": found.total}
        return ToolOutcome(_with_notes(found.text, (*_about(source), *found.notes)), meta=meta)


def window(text: str, line: int, limit: int | None) -> Window:
    """At most `limit` lines from `line` on, within MAX_LINES and MAX_BYTES, with notes about what they cut off."""
    # Looked for line by line: a list of all lines is several times as large as the text.
    end = len(text) - text.endswith("\n")
    total = text.count("\n", 0, end) + 1 if text else 0
    taken: list[str] = []
    notes: list[str] = []
    start, size = _start(text, line), 0
    for number in range(line, min(total, line - 1 + min(limit or MAX_LINES, MAX_LINES)) + 1):
        found = text.find("\n", start, end)
        stop = end if found < 0 else found
        kept = escaped(text[start : min(stop, start + MAX_COLUMNS)])
        size += len(kept.encode()) + 1
        if size > MAX_BYTES:
            break
        if stop - start > MAX_COLUMNS:
            notes.append(f"Line {number} is cut: {MAX_COLUMNS} of its {stop - start} characters are shown.")
        taken.append(kept)
        start = stop + 1
    last = line + len(taken) - 1
    if taken and last < total and len(taken) != limit:
        notes.append(f"Lines {line} to {last} of {total}. Read on with line={last + 1}.")
    if not total:
        notes.append("The file is empty.")
    complete = taken and (last < total or text.endswith("\n"))
    return Window("\n".join(taken) + "\n" * bool(complete), line, last, total, tuple(notes))


def _shown(source: Source, line: int, limit: int | None) -> Window:
    # An editor's text is characters already.
    text = source.text if source.unsaved else marked(source.text, source.coding)
    return window(text, line, limit)


def _start(text: str, line: int) -> int:
    """Where the line starts; anywhere for one that is not there."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            break
    return start


def _about(source: Source) -> list[str]:
    unknown = UNKNOWN if not source.coding.known and not source.unsaved else None
    return [note for note in (UNSAVED if source.unsaved else None, unknown) if note]


def _with_notes(text: str, notes: tuple[str, ...]) -> str:
    if not notes:
        return text
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return text + gap + "\n".join(f"[{note}]" for note in notes)


def _lines(arguments: Any) -> str:
    line, limit = integer(arguments, "line"), integer(arguments, "limit")
    if limit:
        return f" (lines {line or 1}-{(line or 1) + limit - 1})"
    return f" (from line {line})" if line else ""

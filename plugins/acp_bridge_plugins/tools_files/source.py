"""The text that a call works on: the file on disk, or the editor's unsaved buffer over it (field case E4).

Owns: reading both and telling which one counts. Must not know: edits, what is allowed.
Invariant: unsaved text is never ignored; an answer that an editor gives for want of a better one ("" for a file that
is missing, or that holds something) counts as no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.beneath import read_file
from acp_bridge.sandbox.paths import Place
from acp_bridge.tools.tool import EditorFiles, Execution
from acp_bridge.tools.visible import visible_line
from acp_bridge_plugins.tools_files.text import UTF8, Coding, NotText, decode, same_text, view

__all__ = ["Source", "ask_editor", "computed", "editor_for", "load"]

T = TypeVar("T")


# A buffer differs because somebody typed, or because a command changed the file and the editor has not noticed. No
# editor tells which, so the person gets to see both.
DIFFERS = (
    "The editor holds other text than the file on disk: unsaved changes, or the file was changed from outside. "
    "This diff starts from the file on disk."
)


class Source(Struct, frozen=True):
    """`disk` None: no file. `disk_text` has the file's own line ends. `buffer` None: the editor gave no answer."""

    place: Place
    name: str
    disk: bytes | None
    disk_text: str
    coding: Coding
    buffer: str | None

    @property
    def exists(self) -> bool:
        return self.disk is not None or self.buffer is not None

    @property
    def unsaved(self) -> bool:
        """Whether the buffer holds text that is not on disk."""
        if self.buffer is None:
            return False
        if self.coding.known:
            return not same_text(self.buffer, self.disk_text)
        # The editor may know the encoding; what both sides agree on is ASCII.
        return not same_text(_ascii(self.buffer), _ascii(self.disk_text))

    @property
    def disk_view(self) -> str | None:
        """What is on disk, with LF line ends. Diffs start here, so that they show all that a write changes."""
        return None if self.disk is None else view(self.disk_text)

    def note(self, other: str | None) -> str | None:
        """What to tell a person beside the diff: `other`, and that more than the edit may change on disk."""
        return "\n".join(filter(None, (DIFFERS if self.unsaved else None, other))) or None

    @property
    def text(self) -> str:
        """The text that counts, with LF line ends."""
        if self.unsaved and self.buffer is not None:
            return view(self.buffer).removeprefix("\ufeff")
        return view(self.disk_text)


async def load(execution: Execution, place: Place) -> Source:
    """Raises ToolFailed for anything that is not text, or not a regular file."""
    source = await anyio.to_thread.run_sync(_from_disk, place)
    return replace(source, buffer=await ask_editor(execution, place, source.disk))


def _from_disk(place: Place) -> Source:
    name = visible_line(place.shown)
    disk = read_file(place.path, name)
    try:
        text, coding = decode(disk) if disk is not None else ("", UTF8)
    except NotText as error:
        raise ToolFailed(f"{name} {error}") from error
    return Source(place, name, disk, text, coding, None)


async def computed(execution: Execution, work: Callable[[], T]) -> T:
    """`work` in a thread; it changes nothing, so an abort does not wait for it. Raises ToolFailed then."""
    with execution.signal.cancels():
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    raise ToolFailed("tool call aborted", "ABORTED")


def editor_for(execution: Execution, place: Place) -> EditorFiles | None:
    """The editor, where it may be asked: it knows only what lies in the session's directories."""
    return execution.editor if place.root is not None else None


async def ask_editor(execution: Execution, place: Place, disk: bytes | None) -> str | None:
    """The buffer's text, or None when the editor cannot say. Raises ToolFailed when the signal aborts meanwhile."""
    editor = editor_for(execution, place)
    if editor is None or not editor.can_read:
        return None
    text: str | None = None
    with execution.signal.cancels() as scope:
        text = await editor.read(place.shown)
    if scope.cancelled_caught:
        raise ToolFailed("tool call aborted", "ABORTED")
    return None if text == "" and disk != b"" else text


def _ascii(text: str) -> str:
    return text.encode("ascii", "ignore").decode()

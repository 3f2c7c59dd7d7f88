"""Writing a planned change: through the editor when it offers that, else to disk, and never over anything unseen.

Owns: the order of checks around a write (field cases E4, E5; editors, rule 20). Must not know: how the new text
came about. Invariant: nothing is written unless disk and buffer are what the person was shown; what an editor says
about its write is not believed, only the file is.
"""

from __future__ import annotations

import anyio
from msgspec import Struct
from msgspec.structs import replace

from acp_bridge.errors import BridgeError, ToolFailed
from acp_bridge.sandbox.beneath import FileChanged, make_directory, read_file, replace_file
from acp_bridge.tools.tool import EditorFiles, Execution
from acp_bridge_plugins.tools_files.source import Source, ask_editor, editor_for
from acp_bridge_plugins.tools_files.text import NotText, decode, encode, realigned, same_text, view

__all__ = ["Pending", "pending", "save"]

REFORMATTED = "The editor changed the file while saving it; read it again before the next edit."


class Pending(Struct, frozen=True):
    """`wanted` are the bytes that the file shall hold; `sent` the text for the editor, None to write it ourselves."""

    source: Source
    wanted: bytes
    sent: str | None


def pending(execution: Execution, source: Source, new: str) -> Pending:
    """The change of `source` to the text `new`. Raises ToolFailed when it cannot be made without a loss."""
    editor = editor_for(execution, source.place)
    through = editor is not None and editor.can_write and source.coding.known
    if source.unsaved and not through:
        raise ToolFailed(
            f"{source.name} has unsaved changes in the editor, and they would be lost: ask the user to save the file, "
            "then read it again"
        )
    text = realigned(source.disk_text, new)
    try:
        wanted = encode(text, source.coding)
    except NotText as error:
        raise ToolFailed(f"{source.name} {error}", "INVALID_ARGS") from error
    return Pending(source, wanted, _for_editor(source, text) if through else None)


async def save(execution: Execution, change: Pending) -> str | None:
    """Write, and answer with what the model must know about it. Raises FileChanged, or ToolFailed, else."""
    await _recheck(execution, change.source)
    editor = editor_for(execution, change.source.place)
    if change.sent is not None and editor is not None:
        return await _through_editor(execution, editor, change, change.sent)
    await _to_disk(change, change.source.disk)
    return None


def _for_editor(source: Source, text: str) -> str:
    """`text` in the line ends in which the editor speaks of this file: some convert on reading, and back on writing."""
    if source.buffer is None:
        return text
    spoken = realigned(source.buffer, text) if "\r" in source.buffer else view(text)
    # Editors that hold a file as a list of lines leave the last line end out, and add it when they save.
    lined = view(source.disk_text).endswith("\n") and not view(source.buffer).endswith("\n")
    return spoken.removesuffix("\n") if lined and not source.unsaved else spoken


async def _recheck(execution: Execution, source: Source) -> None:
    if await _disk(source) != source.disk:
        raise FileChanged(source.name)
    buffer = await ask_editor(execution, source.place, source.disk)
    # An editor that did not answer before may answer now; what counts is whether it holds other text.
    known = source.buffer is not None
    if buffer != source.buffer if known else replace(source, buffer=buffer).unsaved:
        raise FileChanged(source.name)


async def _disk(source: Source) -> bytes | None:
    try:
        return await anyio.to_thread.run_sync(read_file, source.place.path, source.name)
    except ToolFailed as error:
        # A link, a directory or a device stands where the file was.
        raise FileChanged(source.name) from error


async def _through_editor(execution: Execution, editor: EditorFiles, change: Pending, text: str) -> str | None:
    source = change.source
    if source.disk is None:
        await anyio.to_thread.run_sync(make_directory, source.place.path.rpartition("/")[0] or "/", source.name)
    failure: BridgeError | None = None
    with execution.signal.cancels() as scope:
        try:
            await editor.write(source.place.shown, text)
        except BridgeError as error:
            failure = error
    return await _settled(change, failure, aborted=scope.cancelled_caught)


async def _settled(change: Pending, failure: BridgeError | None, *, aborted: bool) -> str | None:
    """Look at what is on disk now, and finish what the editor left undone."""
    source = change.source
    now = await anyio.to_thread.run_sync(read_file, source.place.path, source.name)
    if now == change.wanted:
        return None
    if now == source.disk:
        if aborted:
            raise ToolFailed("tool call aborted", "ABORTED")
        await _to_disk(change, now)
        return None
    if _same(now, change):
        # Line ends, encoding or byte order mark were lost on the way. Not over a buffer: there the editor decides.
        if not source.unsaved:
            await _to_disk(change, now)
        return None
    if failure or aborted:
        raise ToolFailed(f"{source.name} could not be saved as planned, and has changed on disk; read it again")
    return REFORMATTED


def _same(now: bytes | None, change: Pending) -> bool:
    try:
        return now is not None and same_text(decode(now)[0], decode(change.wanted)[0])
    except NotText:
        return False


async def _to_disk(change: Pending, seen: bytes | None) -> None:
    place = change.source.place
    await anyio.to_thread.run_sync(replace_file, place.path, seen, change.wanted, change.source.name)

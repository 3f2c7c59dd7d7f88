"""Edits: what is shown is what is written, byte for byte, and nothing that anybody changed meanwhile is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.worlds import snapshot
from tests.support.agent import start_agent
from tests.support.buffers import Buffers
from tests.support.client import client_capabilities
from tests.support.editor import Editor
from tests.support.permissions import Answer, PermissionRequest
from tests.support.transcript import ToolCallView

pytestmark = pytest.mark.anyio

# Field case E1: file before, edit (as a model writes it, LF only), file after.
ENDINGS: dict[str, tuple[bytes, tuple[str, str], bytes]] = {
    "lf": (b"a\nb\nc\n", ("b\n", "B\nB2\n"), b"a\nB\nB2\nc\n"),
    "crlf": (b"a\r\nb\r\nc\r\n", ("b\n", "B\nB2\n"), b"a\r\nB\r\nB2\r\nc\r\n"),
    "crlf, over a line's end": (b"a\r\nb\r\nc\r\n", ("a\nb", "A\nB"), b"A\r\nB\r\nc\r\n"),
    "mixed": (b"a\r\nb\r\nc\nd\r\n", ("b", "B"), b"a\r\nB\r\nc\nd\r\n"),
    "no final newline": (b"a\nb", ("b", "B"), b"a\nB"),
    "crlf, no final newline": (b"a\r\nb", ("a", "A"), b"A\r\nb"),
    "cr inside a line": (b"a\rx\nb\n", ("b", "B"), b"a\rx\nB\n"),
    "bom": (b"\xef\xbb\xbfa\nb\n", ("a\n", "A\n"), b"\xef\xbb\xbfA\nb\n"),
}
# Field case E2: bytes that are no UTF-8 text. Refused with a reason, or every other byte kept.
FOREIGN = {
    "latin-1": "é = b\n".encode("latin-1"),
    "shift-jis": "日本 = b\n".encode("shift-jis"),
    "gbk": "中文 = b\n".encode("gbk"),
    "utf-16": "é = b\n".encode("utf-16"),
    "utf-16 without a mark": "é = b\n".encode("utf-16-le"),
    "one stray byte": b"good\n\xff\nx = b\n",
    "nul": b"x\0y = b\n",
}


ON_DISK: dict[str, Any] = {"capabilities": client_capabilities(read=False, write=False)}


def edit(id: str, path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
    return call(id, "edit_file", {"path": path, "old_text": old, "new_text": new, **more})


def buffers_or_disk(through: str) -> dict[str, Any]:
    """An editor that offers its files, or one that does not."""
    return {} if through == "buffers" else ON_DISK


def shown_diff(view: ToolCallView) -> tuple[str | None, str]:
    """The one diff of a card."""
    diffs = [block for block in view.content if block["type"] == "diff"]
    assert len(diffs) == 1
    return diffs[0].get("oldText"), diffs[0]["newText"]


@pytest.mark.parametrize("through", ["buffers", "disk"])
async def test_only_the_lines_that_were_asked_for_change_whatever_the_line_endings(
    tmp_path: Path, through: str
) -> None:
    """Field case E1. The diff on the card, applied to the old text, gives the new one."""
    folder = tmp_path / "project"
    folder.mkdir()
    steps = []
    for name, (before, (old, new), _) in ENDINGS.items():
        (folder / name).write_bytes(before)
        (folder / name).chmod(0o751)
        steps.append(edit(name, name, old, new))
    play_file = play(tmp_path, [{"calls": steps}, text("Done.")])
    async with start_agent(
        tmp_path, screenplay=play_file, permissions="allow_once", **buffers_or_disk(through)
    ) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Edit.")
        views = editor.tool_calls(session)
    assert {name: (folder / name).read_bytes() for name in ENDINGS} == {
        name: after for name, (_, _, after) in ENDINGS.items()
    }
    for name, (before, _, after) in ENDINGS.items():
        old_shown, new_shown = shown_diff(views[name])
        assert old_shown is not None and old_shown in _text(before)
        assert _text(before).replace(old_shown, new_shown, 1) == _text(after), name
    if through == "disk":
        assert {os.stat(folder / name).st_mode & 0o777 for name in ENDINGS} == {0o751}


def _text(data: bytes) -> str:
    """As cards show it: without a mark, every line with a plain ending."""
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


async def test_text_in_another_encoding_keeps_every_other_byte_or_is_refused_with_a_reason(tmp_path: Path) -> None:
    """Field case E2: an edit of the ASCII part."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, data in FOREIGN.items():
        (folder / name).write_bytes(data)
    steps = play(tmp_path, [{"calls": [edit(name, name, "= b", "= B") for name in FOREIGN]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", **ON_DISK) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Edit.")
        views = editor.tool_calls(session)
    refused = {name for name, view in views.items() if view.status == "failed"}
    assert refused == {"utf-16 without a mark", "nul"}
    for name, data in FOREIGN.items():
        assert (folder / name).read_bytes() == (data if name in refused else data.replace(b"b", b"B"))
        assert name not in refused or "text" in views[name].text, views[name].text


async def test_an_edit_that_does_not_fit_says_why_and_is_never_asked_about(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "twice").write_text("x\nx\n")
    wrong = {
        "not there": (edit("not there", "twice", "y", "z"), "not"),
        "twice": (edit("twice", "twice", "x", "z"), "2"),
        "no file": (edit("no file", "missing", "x", "z"), "missing"),
        "a folder": (edit("a folder", ".", "x", "z"), "director"),
        "nothing to do": (edit("nothing to do", "twice", "x\nx", "x\nx"), ""),
    }
    steps = play(tmp_path, [{"calls": [made for made, _ in wrong.values()]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Edit.")).stop_reason == "end_turn"
        for id, view in editor.tool_calls(session).items():
            assert view.status == "failed" and wrong[id][1] in view.text, (id, view.text)
        assert editor.permissions.requests == []
    assert (folder / "twice").read_text() == "x\nx\n"


def _line(path: Path) -> None:
    path.write_text("one\nTWO, by hand\nthree\n")


def _another_line(path: Path) -> None:
    path.write_text("ONE, by hand\ntwo\nthree\n")


def _gone(path: Path) -> None:
    path.unlink()


def _link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_text("one\ntwo\nthree\n")
    path.unlink()
    path.symlink_to(elsewhere)


MEANWHILE: dict[str, Callable[[Path], None]] = {
    "the same line": _line, "another line": _another_line, "deleted": _gone, "a link": _link,
}  # fmt: skip


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
async def test_what_changes_between_the_question_and_the_answer_is_not_overwritten(tmp_path: Path, tool: str) -> None:
    """Field case E5: the person changes the file while the editor asks, then allows what it still shows."""
    folder = tmp_path / "project"
    folder.mkdir()
    calls = []
    for name in MEANWHILE:
        (folder / name).write_text("one\ntwo\nthree\n")
        whole = call(name, "write_file", {"path": name, "content": "one\n2\nthree\n"})
        calls.append(edit(name, name, "two", "2") if tool == "edit_file" else whole)
    after: dict[str, dict[str, bytes | str]] = {}

    def person(request: PermissionRequest) -> Answer:
        name = request.tool_call["toolCallId"]
        MEANWHILE[name](folder / name)
        after[name] = snapshot(folder)
        return "allow_once"

    steps = play(tmp_path, [{"calls": calls}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=person, **ON_DISK) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Edit.")).stop_reason == "end_turn"
        for name, view in editor.tool_calls(session).items():
            assert view.status == "failed" and "changed" in view.text, (name, view.text)
    assert list(after) == list(MEANWHILE)
    assert snapshot(folder) == after["a link"]


async def test_unsaved_text_of_the_editor_is_what_is_read_and_edited(tmp_path: Path) -> None:
    """Field case E4: the buffer holds more than the disk; the edit keeps it."""
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / "notes"
    file.write_text("one\ntwo\n")
    buffers = Buffers({str(file): "one\ntwo\nunsaved\n"})
    calls = {"calls": [call("read", "read_file", {"path": "notes"}), edit("edit", "notes", "two", "2")]}
    steps = play(tmp_path, [calls, {"expect": ["unsaved"], "text": "Done."}])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Edit.")
        assert editor.text(session) == "Done."
        assert _statuses(editor, session) == {"read": "completed", "edit": "completed"}
    assert buffers.texts[str(file)] == "one\n2\nunsaved\n"


async def test_typing_in_the_editor_while_it_asks_is_not_lost(tmp_path: Path) -> None:
    """Field case E5, in a buffer that was never saved."""
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / "notes"
    file.write_text("one\ntwo\n")
    buffers = Buffers({str(file): "one\ntwo\n"})

    def person(request: PermissionRequest) -> Answer:
        buffers.texts[str(file)] += "typed\n"
        return "allow_once"

    steps = play(tmp_path, [{"calls": [edit("edit", "notes", "two", "2")]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=person, buffers=buffers) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Edit.")
        assert _statuses(editor, session) == {"edit": "failed"}
    assert buffers.texts[str(file)] == "one\ntwo\ntyped\n"
    assert file.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("style", ["error", "lost", "null", "text"])
async def test_whatever_the_editor_says_of_a_write_the_file_on_disk_is_what_counts(tmp_path: Path, style: Any) -> None:
    """Editors rule 20: what an editor did not write is written beside it, and never twice."""
    folder = tmp_path / "project"
    folder.mkdir()
    buffers = Buffers()
    buffers.write_style = style
    (folder / "notes").write_text("one\ntwo\n")
    steps = play(tmp_path, [{"calls": [edit("edit", "notes", "two", "2")]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Edit.")).stop_reason == "end_turn"
        assert _statuses(editor, session) == {"edit": "completed"}
    assert len(buffers.writes) == 1
    assert (folder / "notes").read_text() == "one\n2\n"


def _statuses(editor: Editor, session: str) -> dict[str, str | None]:
    return {id: view.status for id, view in editor.tool_calls(session).items()}

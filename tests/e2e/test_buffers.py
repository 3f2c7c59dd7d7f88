"""The editor's buffers: unsaved text is what counts, and an editor that cannot serve its files costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.support.agent import start_agent
from tests.support.buffers import Buffers
from tests.support.client import client_capabilities
from tests.support.editor import Editor
from tests.support.permissions import Answer, PermissionRequest

pytestmark = pytest.mark.anyio

READ = call("read", "read_file", {"path": "notes"})
EDIT = call("edit", "edit_file", {"path": "notes", "old_text": "two", "new_text": "2"})


def notes(tmp_path: Path, data: bytes = b"one\ntwo\n") -> Path:
    """The file `project/notes`, to be opened by path."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes").write_bytes(data)
    return folder / "notes"


async def test_unsaved_text_of_the_editor_is_what_is_read_and_edited(tmp_path: Path) -> None:
    """Field case E4: the buffer holds more than the disk; the edit keeps it."""
    file = notes(tmp_path)
    buffers = Buffers({str(file): "one\ntwo\nunsaved\n"})
    calls = {"calls": [READ, EDIT]}
    steps = play(tmp_path, [calls, {"expect": ["unsaved"], "text": "Done."}])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers) as editor:
        session = await editor.new_session(file.parent)
        await editor.prompt(session, "Edit.")
        assert editor.text(session) == "Done."
        assert _statuses(editor, session) == {"read": "completed", "edit": "completed"}
    assert buffers.texts[str(file)] == "one\n2\nunsaved\n"


async def test_typing_in_the_editor_while_it_asks_is_not_lost(tmp_path: Path) -> None:
    """Field case E5, in a buffer that was never saved."""
    file = notes(tmp_path)
    buffers = Buffers({str(file): "one\ntwo\n"})

    def person(request: PermissionRequest) -> Answer:
        buffers.texts[str(file)] += "typed\n"
        return "allow_once"

    steps = play(tmp_path, [{"calls": [EDIT]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=person, buffers=buffers) as editor:
        session = await editor.new_session(file.parent)
        await editor.prompt(session, "Edit.")
        assert _statuses(editor, session) == {"edit": "failed"}
    assert buffers.texts[str(file)] == "one\ntwo\ntyped\n"
    assert file.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("style", ["error", "lost", "null", "text"])
async def test_whatever_the_editor_says_of_a_write_the_file_on_disk_is_what_counts(tmp_path: Path, style: Any) -> None:
    """Editors rule 20: what an editor did not write is written beside it, and never twice."""
    file = notes(tmp_path)
    buffers = Buffers()
    buffers.write_style = style
    steps = play(tmp_path, [{"calls": [EDIT]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers) as editor:
        session = await editor.new_session(file.parent)
        assert (await editor.prompt(session, "Edit.")).stop_reason == "end_turn"
        assert _statuses(editor, session) == {"edit": "completed"}
    assert len(buffers.writes) == 1
    assert file.read_text() == "one\n2\n"


@pytest.mark.parametrize("style", ["error", "null", "empty_if_missing"])
async def test_whatever_an_editor_answers_for_a_read_that_it_cannot_serve_the_disk_counts(
    tmp_path: Path, style: Any
) -> None:
    """Editors §6.3: a missing file is "" to some, and must not become an empty one that can be edited."""
    file = notes(tmp_path, b"one\r\ntwo\r\n")
    buffers = Buffers()
    buffers.read_style = style
    missing = call("missing", "read_file", {"path": "missing"})
    steps = play(tmp_path, [{"calls": [READ, missing, EDIT]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers) as editor:
        session = await editor.new_session(file.parent)
        assert (await editor.prompt(session, "Edit.")).stop_reason == "end_turn"
        assert _statuses(editor, session) == {"read": "completed", "missing": "failed", "edit": "completed"}
        assert "does not exist" in editor.tool_calls(session)["missing"].text
    assert buffers.reads != []
    assert file.read_bytes() == b"one\r\n2\r\n"


async def test_an_editor_that_offers_no_files_is_never_asked_for_them(tmp_path: Path) -> None:
    """Editors rule 7: agentic.nvim and Obsidian would leave the request unanswered."""
    file = notes(tmp_path)
    buffers = Buffers({str(file): "not offered\n"})
    buffers.read_style = buffers.write_style = "never"
    steps = play(tmp_path, [{"calls": [READ, EDIT]}, text("Done.")])
    none = client_capabilities(read=False, write=False)
    async with start_agent(
        tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers, capabilities=none
    ) as editor:
        session = await editor.new_session(file.parent)
        await editor.prompt(session, "Edit.")
        assert _statuses(editor, session) == {"read": "completed", "edit": "completed"}
    assert (buffers.reads, buffers.writes, file.read_text()) == ([], [], "one\n2\n")


async def test_unsaved_text_is_not_overwritten_by_going_past_an_editor_that_cannot_write(tmp_path: Path) -> None:
    """Field case E4: the model is told what to ask for, and the person is not asked to lose anything."""
    file = notes(tmp_path)
    buffers = Buffers({str(file): "one\ntwo\nunsaved\n"})
    steps = play(tmp_path, [{"calls": [EDIT]}, {"expect": ["ask the user to save"], "text": "Please save."}])
    reads = client_capabilities(read=True, write=False)
    async with start_agent(tmp_path, screenplay=steps, buffers=buffers, capabilities=reads) as editor:
        session = await editor.new_session(file.parent)
        await editor.prompt(session, "Edit.")
        assert editor.text(session) == "Please save."
        assert _statuses(editor, session) == {"edit": "failed"}
        assert editor.permissions.requests == []
    assert (file.read_text(), buffers.texts[str(file)]) == ("one\ntwo\n", "one\ntwo\nunsaved\n")


@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
async def test_what_a_command_changed_under_a_stale_buffer_is_told_and_is_part_of_the_question(
    tmp_path: Path, answer: Answer
) -> None:
    """Field case E4: read, sed, read, edit. No editor says which of the two texts is newer, so the person sees both."""
    file = notes(tmp_path)
    buffers = Buffers({str(file): "one\ntwo\n"})
    sed = call("sed", "run_command", {"command": "sed -i s/one/ONE/ notes"})
    again = {**READ, "id": "again"}
    steps = play(
        tmp_path,
        [
            {"calls": [READ]}, {"calls": [sed]}, {"calls": [again]},
            {"expect": ["unsaved changes"], "calls": [EDIT]}, text("Done."),
        ],
    )  # fmt: skip
    async with start_agent(tmp_path, screenplay=steps, permissions=["allow_once", answer], buffers=buffers) as editor:
        session = await editor.new_session(file.parent)
        await editor.prompt(session, "Edit.")
        assert editor.text(session) == "Done."
        question = editor.permissions.requests[1].tool_call
    diff, note = question["content"]
    assert (diff["oldText"], diff["newText"]) == ("ONE\ntwo\n", "one\n2\n")
    assert "changed from outside" in note["content"]["text"]
    assert file.read_text() == ("one\n2\n" if answer == "allow_once" else "ONE\ntwo\n")


@pytest.mark.parametrize("buffer", ["one\ntwo\n", "one\ntwo", "one\r\ntwo\r\n"])
async def test_a_buffer_that_differs_from_the_disk_in_line_endings_only_holds_nothing_unsaved(
    tmp_path: Path, buffer: str
) -> None:
    """Field case E4: editors convert on reading. The file keeps its own line endings."""
    file = notes(tmp_path, b"one\r\ntwo\r\n")
    buffers = Buffers({str(file): buffer})
    steps = play(tmp_path, [{"calls": [READ, EDIT]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", buffers=buffers) as editor:
        session = await editor.new_session(file.parent)
        await editor.prompt(session, "Edit.")
        shown = editor.tool_calls(session)
        assert _statuses(editor, session) == {"read": "completed", "edit": "completed"}
    assert "unsaved" not in shown["read"].text + shown["edit"].text
    assert [(diff["oldText"], diff["newText"]) for diff in shown["edit"].diffs] == [("one\ntwo\n", "one\n2\n")]
    assert file.read_bytes() == b"one\r\n2\r\n"


def _statuses(editor: Editor, session: str) -> dict[str, str | None]:
    return {id: view.status for id, view in editor.tool_calls(session).items()}

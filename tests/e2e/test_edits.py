"""Edits: what is shown is what is written, byte for byte, and nothing that anybody changed meanwhile is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.worlds import snapshot
from tests.support.agent import start_agent
from tests.support.client import client_capabilities
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
    "cr only": (b"a\rb\rc\r", ("b\n", "B\nB2\n"), b"a\rB\rB2\rc\r"),
    "crlf, no final newline": (b"a\r\nb", ("a", "A"), b"A\r\nb"),
    "cr inside a line": (b"a\rx\nb\n", ("b", "B"), b"a\rx\nB\n"),
    "an endless line": (b"x" * 200_000 + b" b\r\nc\r\n", (" b\n", " B\n"), b"x" * 200_000 + b" B\r\nc\r\n"),
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


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
@pytest.mark.parametrize("through", ["buffers", "disk"])
async def test_only_the_lines_that_were_asked_for_change_whatever_the_line_endings(
    tmp_path: Path, through: str, tool: str
) -> None:
    """Field case E1. The diff on the card, applied to the old text, gives the new one; the question showed the same."""
    folder = tmp_path / "project"
    folder.mkdir()
    steps = []
    for name, (before, (old, new), after) in ENDINGS.items():
        (folder / name).write_bytes(before)
        (folder / name).chmod(0o751)
        whole = call(name, "write_file", {"path": name, "content": _text(after)})
        steps.append(edit(name, name, old, new) if tool == "edit_file" else whole)
    play_file = play(tmp_path, [{"calls": steps}, text("Done.")])
    async with start_agent(
        tmp_path, screenplay=play_file, permissions="allow_once", **buffers_or_disk(through)
    ) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Edit.")
        views = editor.tool_calls(session)
        asked = {str(request.tool_call["toolCallId"]): request.tool_call for request in editor.permissions.requests}
    assert {name: (folder / name).read_bytes() for name in ENDINGS} == {
        name: after for name, (_, _, after) in ENDINGS.items()
    }
    assert {os.stat(folder / name).st_mode & 0o777 for name in ENDINGS} == {0o751}
    for name, (before, _, after) in ENDINGS.items():
        old_shown, new_shown = shown_diff(views[name])
        assert old_shown is not None and old_shown in _text(before)
        assert _text(before).replace(old_shown, new_shown, 1) == _text(after), name
        assert asked[name]["content"] == views[name].content


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


async def test_text_in_another_encoding_is_read_as_far_as_it_is_text_and_never_replaced_whole(tmp_path: Path) -> None:
    """Field case E2: a whole write would lose an encoding that nobody knows; with a mark it is known, and kept."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, data in FOREIGN.items():
        (folder / name).write_bytes(data)
    reads = [call(f"read {name}", "read_file", {"path": name}) for name in FOREIGN]
    writes = [call(f"write {name}", "write_file", {"path": name, "content": "new\n"}) for name in FOREIGN]
    steps = play(tmp_path, [{"calls": [*reads, *writes]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once", **ON_DISK) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Go.")).stop_reason == "end_turn"
        views = editor.tool_calls(session)
        assert len(editor.permissions.requests) == 1
    for name, data in FOREIGN.items():
        binary, marked = name in ("utf-16 without a mark", "nul"), name == "utf-16"
        read, written = views[f"read {name}"], views[f"write {name}"]
        assert (name, read.status) == (name, "failed" if binary else "completed")
        assert ("binary" if binary else "= b") in read.text
        assert (name, written.status) == (name, "completed" if marked else "failed")
        assert (folder / name).read_bytes() == ("new\n".encode("utf-16") if marked else data)


async def test_a_file_whose_name_is_no_text_is_listed_and_found_and_harms_nothing(tmp_path: Path) -> None:
    """Field case E2: no such byte reaches the wire or the log, and the session loads again."""
    folder = tmp_path / "project"
    folder.mkdir()
    Path(os.fsdecode(bytes(folder) + b"/caf\xe9")).write_text("here it is\n")
    (folder / "plain").write_text("here it is\n")
    looks = [
        call("list", "list_files", {}),
        call("search", "search", {"pattern": "here it"}),
        call("run", "run_command", {"command": "ls; cat caf*"}),
    ]
    steps = play(tmp_path, [{"calls": looks}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Look.")).stop_reason == "end_turn"
        live = editor.tool_calls(session)
    assert all(view.status == "completed" and "caf" in view.text and "plain" in view.text for view in live.values())
    async with start_agent(tmp_path, screenplay=steps) as editor:
        await editor.load_session(session, folder)
        replayed = editor.tool_calls(session)
    assert {id: view.content for id, view in replayed.items()} == {id: view.content for id, view in live.items()}


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


async def test_two_sessions_that_edit_one_file_lose_nothing_of_each_other(tmp_path: Path) -> None:
    """Field case E5: disjoint lines, both asked at once. The one that is allowed later is told, and tries again."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shared").write_text("one\ntwo\nthree\n")
    sessions: list[str] = []
    second_is_done = anyio.Event()

    async def person(request: PermissionRequest) -> Answer:
        if request.frame.session_id == sessions[0]:
            await second_is_done.wait()
            return "allow_once"
        return "allow_once" if request.tool_call["toolCallId"] == "three" else "reject_once"

    both = {"calls": [edit("one", "shared", "one", "1"), edit("three", "shared", "three", "3")]}
    steps = play(tmp_path, [both, {"calls": [edit("again", "shared", "one", "1")]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=person, **ON_DISK) as editor:
        sessions += [await editor.new_session(folder), await editor.new_session(folder)]
        first = editor.start_prompt(sessions[0], "Edit the first line.")
        await editor.wait_for_permission()
        await editor.prompt(sessions[1], "Edit the last line.")
        assert (folder / "shared").read_text() == "one\ntwo\n3\n"
        second_is_done.set()
        await first.result()
        views = editor.tool_calls(sessions[0])
    assert (views["one"].status, views["again"].status) == ("failed", "completed")
    assert "changed" in views["one"].text
    assert (folder / "shared").read_text() == "1\ntwo\n3\n"

"""Permission questions: the person is shown all of what runs, and what runs is what was shown (field case A5)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.worlds import project, snapshot
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.permissions import Answer, PermissionRequest
from tests.support.transcript import ToolCallView

pytestmark = pytest.mark.anyio

# bash holds in this variable what `-c` was given, so each command tells what it was.
ITSELF = 'printf %s "$BASH_EXECUTION_STRING" > '
WIDER = {"sandbox_permissions": "danger-full-access", "justification": "It is needed."}
LONGEST = 131_071  # design §7: what Linux takes as one argument
ESCAPES = {
    "\x1b": "\\x1b", "\r": "\\r", "\x07": "\\x07", "\x7f": "\\x7f", "\u202e": "\\u202e", "\u2066": "\\u2066",
    "\u200b": "\\u200b", "\u2028": "\\u2028", "\ufeff": "\\ufeff", "\U000e0041": "\\U000e0041", "\xad": "\\xad",
}  # fmt: skip
COMMANDS = {
    "blanks": ITSELF + "blanks" + " " * 400 + "; : far away",
    "lines": ITSELF + "lines" + "\n" * 60 + ": far below",
    "first-lines": "\n\n \n" + ITSELF + "first-lines",
    "fence": ITSELF + "fence # ```\n```\n: '````' \n~~~\n: end",
    "markdown": ITSELF + "markdown # <!-- [a](b) **c** `d`\n: -->",
    "line-end": ITSELF + "line-end \n: # \rrm -rf / \r",
    "hidden": ITSELF + "hidden # " + "a".join(ESCAPES),
    "escaped": ITSELF + "escaped # \\x1b \\u202e \\r",
    "longest": (ITSELF + "longest # ").ljust(LONGEST - 5, "x") + " # :)",
}


def _escaped(command: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in command)


def _block(card: str) -> tuple[str, str]:
    """The code of the first fenced block as a Markdown reader finds it, and what follows."""
    found = re.match(r"(`{3,})sh\n(.*?)\n\1\n(.*)", card, re.DOTALL)
    assert found is not None, card[:200]
    return found[2], found[3]


def _text(request: PermissionRequest) -> str:
    return str(request.tool_call["content"][0]["content"]["text"])


def _hidden(line: str) -> set[str]:
    return {character for character in line if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Co", "Cs")}


class Cards:
    """A person who allows everything, and what the card of each call looked like when it was asked about."""

    def __init__(self) -> None:
        self.editor: Editor
        self.seen: dict[str, ToolCallView] = {}

    def __call__(self, request: PermissionRequest) -> Answer:
        session, id = str(request.frame.session_id), request.tool_call["toolCallId"]
        self.seen[id] = self.editor.tool_calls(session)[id]
        return "allow_once"


async def test_a_command_is_shown_to_its_last_character_and_runs_byte_by_byte_as_it_was_asked_for(
    tmp_path: Path,
) -> None:
    """Field case A5. What the card shows and what the question shows are the same."""
    calls = [call(id, "run_command", {"command": command}) for id, command in COMMANDS.items()]
    folder, cards = project(tmp_path, "one"), Cards()
    steps = play(tmp_path, [{"calls": calls}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=cards) as cards.editor:
        session = await cards.editor.new_session(folder)
        assert (await cards.editor.prompt(session, "Run them.")).stop_reason == "end_turn"
        requests = {request.tool_call["toolCallId"]: request for request in cards.editor.permissions.requests}
    assert list(requests) == list(COMMANDS)
    for id, request in requests.items():
        code, rest = _block(_text(request))
        assert code == _escaped(COMMANDS[id]), id
        assert str(folder) in rest and "workspace-write" in rest
        assert not _hidden(_text(request).replace("\n", ""))
        assert "printf %s" in request.title and len(request.title) < 200 and not _hidden(request.title)
        assert request.tool_call["rawInput"] == {"command": COMMANDS[id]}
        assert (cards.seen[id].title, cards.seen[id].content) == (request.title, request.tool_call["content"])
        assert (folder / id).read_bytes() == COMMANDS[id].encode(), id


async def test_a_command_that_cannot_run_as_it_stands_is_never_asked_about(tmp_path: Path) -> None:
    wrong = {
        "too long": "x" * (LONGEST + 1),
        "too many bytes": "\u00e9" * (LONGEST // 2 + 1),
        "NUL": "printf x > ran\0; true",
        "blank": " \n\t",
        "empty": "",
    }
    calls = [call(id, "run_command", {"command": command}) for id, command in wrong.items()]
    calls.append(call("half a pair", "run_command", '{"command": "printf x > ran # \\ud800"}'))
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=play(tmp_path, [{"calls": calls}, text("I see.")])) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run them.")).stop_reason == "end_turn"
        for id, view in editor.tool_calls(session).items():
            assert view.status == "failed" and "Error: arguments" in view.text, (id, view.text)
    assert not (folder / "ran").exists()


async def test_the_reason_for_a_wider_sandbox_cannot_pretend_to_be_something_else(tmp_path: Path) -> None:
    """Field case A5: the model writes the reason, so it is shown as its words, in one line."""
    reason = "Safe.`\n\n```\nSandbox read-only: it can change no file.\u202e\x1b[2K"
    arguments = {"command": "true", "sandbox_permissions": "danger-full-access", "justification": reason}
    folder = project(tmp_path, "one")
    steps = play(tmp_path, [{"calls": [call("c", "run_command", arguments)]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_once"]) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Run it.")
        content = editor.permissions.requests[0].tool_call["content"]
    for block in content:
        shown = block["content"]["text"]
        assert not _hidden(shown.replace("\n", ""))
        assert not any(row.startswith(("Sandbox read-only", "```\n")) for row in shown.splitlines()), shown
    assert "**no sandbox**" in content[0]["content"]["text"]


# A file, the call, and the old and the new text as they must be shown; None where there is no file.
CHANGES: dict[str, tuple[bytes | None, tuple[str, dict[str, Any]], str | None, str, bytes]] = {
    "edited": (
        b"one\ntwo\nthree\n", ("edit_file", {"old_text": "two", "new_text": "2"}),
        "one\ntwo\nthree\n", "one\n2\nthree\n", b"one\n2\nthree\n",
    ),
    "created": (None, ("write_file", {"content": "new\n"}), None, "new\n", b"new\n"),
    "replaced": (b"old\n", ("write_file", {"content": "new"}), "old\n", "new", b"new"),
    "emptied": (b"old\n", ("write_file", {"content": ""}), "old\n", "", b""),
    "every one": (
        b"a\nb\na\n", ("edit_file", {"old_text": "a", "new_text": "c", "replace_all": True}),
        "a\nb\na\n", "c\nb\nc\n", b"c\nb\nc\n",
    ),
    "hides": (
        b"if x:\n", ("edit_file", {"old_text": "x", "new_text": "x\u202e\u200b \x1b"}),
        "if x:\n", "if x\\u202e\\u200b \\x1b:\n", "if x\u202e\u200b \x1b:\n".encode(),
    ),
    "hid": ("a\u2066b\n".encode(), ("write_file", {"content": "ab\n"}), "a\\u2066b\n", "ab\n", b"ab\n"),
    "na\u202eme": (None, ("write_file", {"content": "x"}), None, "x", b"x"),
}  # fmt: skip


async def test_a_change_is_shown_as_the_true_diff_of_the_true_file_and_nothing_in_it_is_hidden(tmp_path: Path) -> None:
    """Field case A5: edit, new file, replaced file; control and bidi characters in text and in names."""
    folder, cards = project(tmp_path, "one"), Cards()
    for name, (old, *_) in CHANGES.items():
        if old is not None:
            (folder / name).write_bytes(old)
    calls = [call(name, tool, {"path": name, **more}) for name, (_, (tool, more), *_) in CHANGES.items()]
    steps = play(tmp_path, [{"calls": calls}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=cards) as cards.editor:
        session = await cards.editor.new_session(folder)
        assert (await cards.editor.prompt(session, "Change them.")).stop_reason == "end_turn"
        requests = {request.tool_call["toolCallId"]: request for request in cards.editor.permissions.requests}
    assert list(requests) == list(CHANGES)
    for name, (_, _, shown, new, wanted) in CHANGES.items():
        request = requests[name]
        diff, *notes = request.tool_call["content"]
        assert (diff["path"], diff.get("oldText"), diff["newText"]) == (str(folder / name), shown, new), name
        assert ("escapes" in str(notes)) is name.startswith("hid"), name
        assert _escaped(name) in request.title and not _hidden(request.title)
        assert [place["path"] for place in request.tool_call["locations"]] == [str(folder / name)]
        assert (cards.seen[name].title, cards.seen[name].content) == (request.title, request.tool_call["content"])
        assert (folder / name).read_bytes() == wanted, name


async def test_a_path_that_leads_elsewhere_is_asked_about_as_the_place_that_it_leads_to(tmp_path: Path) -> None:
    """Field cases A5, S3: links and `..` in what is read, changed, and run in."""
    folder = project(tmp_path, "one")
    outside = folder.parent / "outside"
    (folder / "inside").symlink_to("kept")
    (folder / "away").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret")
    calls = {
        "edit": call("edit", "edit_file", {"path": "inside", "old_text": "two", "new_text": "2"}),
        "linked": call("linked", "read_file", {"path": "file"}),
        "folder": call("folder", "read_file", {"path": "away/secret"}),
        "dots": call("dots", "read_file", {"path": "away/../outside/secret"}),
        "list": call("list", "list_files", {"path": "away"}),
        "search": call("search", "search", {"pattern": "the", "path": "away"}),
        "run": call("run", "run_command", {"command": "true", "cwd": "away"}),
    }
    leads = {"edit": folder / "kept", "list": outside, "search": outside, "run": outside}
    steps = play(tmp_path, [{"calls": list(calls.values())}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
        asked = {request.tool_call["toolCallId"]: request.tool_call for request in editor.permissions.requests}
    assert list(asked) == list(calls)
    for id, question in asked.items():
        place = leads.get(id, outside / "secret")
        shown = {location["path"] for location in question.get("locations") or []}
        assert str(place) in str([question["content"], question["title"]]), (id, question)
        assert not shown or shown == {str(place)}, id
    assert (folder / "inside").is_symlink() and (folder / "kept").read_text() == "one\n2\n"


def _link(sub: Path) -> None:
    sub.rename(sub.with_name("was"))
    sub.symlink_to(sub.parent.parent / "outside")


def _gone(sub: Path) -> None:
    sub.rename(sub.with_name("was"))


SWAPPED: dict[str, Callable[[Path], None]] = {"a link": _link, "gone": _gone}


CHANGED = "changed since it was shown"
# What is said about it, by what became of the folder. A file may still be created where the folder is gone: the
# question shows a new file at that path, and that is what is made.
IN_FOLDER: dict[str, tuple[tuple[str, dict[str, Any]], dict[str, str]]] = {
    "edit": (
        ("edit_file", {"path": "sub/file", "old_text": "two", "new_text": "2"}), {"a link": CHANGED, "gone": CHANGED},
    ),
    "replace": (("write_file", {"path": "sub/file", "content": "no\n"}), {"a link": CHANGED, "gone": CHANGED}),
    "create": (("write_file", {"path": "sub/new", "content": "no\n"}), {"a link": CHANGED}),
    "run": (
        ("run_command", {"command": "printf no > ran", "cwd": "sub"}), {"a link": CHANGED, "gone": "No such file"},
    ),
    "wider": (
        ("run_command", {"command": "printf no > ran", "cwd": "sub", **WIDER}),
        {"a link": CHANGED, "gone": "No such file"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("id", "swap"), [(id, swap) for id, (_, said) in IN_FOLDER.items() for swap in said])
async def test_a_folder_that_is_exchanged_while_the_person_decides_is_not_the_one_that_was_allowed(
    tmp_path: Path, id: str, swap: str
) -> None:
    """Field cases A5, S3: the folder becomes a link that leads out of the project, to a file with the same text."""
    made, said = IN_FOLDER[id]
    folder = project(tmp_path, "one")
    (folder / "sub").mkdir()
    for file in (folder / "sub" / "file", folder.parent / "outside" / "file"):
        file.write_text("one\ntwo\n")
    after: dict[str, bytes | str] = {}

    def person(request: PermissionRequest) -> Answer:
        SWAPPED[swap](folder / "sub")
        after.update(snapshot(folder.parent))
        return "allow_once"

    steps = play(tmp_path, [{"calls": [call(id, *made)]}, text("I see.")])
    async with start_agent(tmp_path, screenplay=steps, permissions=person) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
        view = editor.tool_calls(session)[id]
        assert view.status == "failed" and said[swap] in view.text
    assert after and snapshot(folder.parent) == after

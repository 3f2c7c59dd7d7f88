"""Calls whose arguments, name or id are broken fail where the model can read it; the calls beside them run (P13)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.asked import calls, results
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.frames import Frame
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.processes import descendants

pytestmark = pytest.mark.anyio

MEGABYTE = "x" * 1_000_000
SHORT = 11_000  # a title holds a path of up to 4096 characters


@dataclass(frozen=True)
class Bad:
    """A call to `name` with raw `arguments`, and what the model is told."""

    arguments: str
    told: str
    name: str = "write_file"


BAD = {
    "null": Bad("null", "arguments must be an object"),
    "list": Bad("[]", "arguments must be an object"),
    "list of objects": Bad('[{"path":"no","content":"no"}]', "arguments must be an object"),
    "text": Bad('"x"', "arguments must be an object"),
    "number": Bad("7", "arguments must be an object"),
    "true": Bad("true", "arguments must be an object"),
    "truncated": Bad('{"path":"no","content":"no', "arguments must be an object"),
    "two objects": Bad('{"path":"no","content":"no"}{}', "arguments must be an object"),
    "no JSON": Bad("path=no", "arguments must be an object"),
    "NaN": Bad('{"path":"no","content":NaN}', "arguments must be an object"),
    "nested": Bad("[" * 100_000, "arguments must be an object"),
    "empty": Bad("", "path"),
    "blank": Bad("  ", "path"),
    "no members": Bad("{}", "path"),
    "null members": Bad('{"path":null,"content":null}', "path"),
    "number as path": Bad('{"path":7,"content":"no"}', "path"),
    "list as path": Bad('{"path":["no"],"content":"no"}', "path"),
    "empty path": Bad('{"path":"","content":"no"}', "Error"),
    "zero byte in path": Bad('{"path":"no\\u0000","content":"no"}', "Error"),
    "lone surrogate": Bad('{"path":"no\\ud800","content":"no"}', "Error"),
    "text as line": Bad('{"path":"a","line":"1"}', "line", "read_file"),
    "true as line": Bad('{"path":"a","line":true}', "line", "read_file"),
    "zero as line": Bad('{"path":"a","line":0}', "line", "read_file"),
    "huge number": Bad('{"path":"a","line":1' + "0" * 400 + "}", "Error", "read_file"),
    "long number": Bad('{"path":"a","line":123456789012345678901234}', "Error", "read_file"),
    "text as entries": Bad('{"entries":"x"}', "entries", "update_plan"),
    "entries of null": Bad('{"entries":[null]}', "entries", "update_plan"),
    "unknown status": Bad('{"entries":[{"content":"x","status":"odd","priority":"high"}]}', "status", "update_plan"),
    "command list": Bad('{"command":["sh","-c","printf no >> effects"]}', "command", "run_command"),
    "megabyte of text": Bad(json.dumps(MEGABYTE), "arguments must be an object"),
    "megabyte of path": Bad(json.dumps({"path": MEGABYTE, "content": "no"}), "Error"),
    "unknown tool": Bad("{}", "there is no tool 'no_such_tool'", "no_such_tool"),
    "tool of another case": Bad('{"path":"a"}', "there is no tool 'Read_File'", "Read_File"),
    "megabyte as tool": Bad("{}", "there is no tool", MEGABYTE),
    "nonsense as tool": Bad("{}", "there is no tool", "../\u202e\n"),
}


def _reply() -> Reply:
    """Every bad call between two good ones."""
    reply = Reply.tool("first", "read_file", {"path": "a"})
    for name, bad in BAD.items():
        reply += Reply.tool(name, bad.name, bad.arguments, pieces=1)
    return reply + Reply.tool("last", "run_command", {"command": "printf yes >> effects"})


def _cards(editor: Editor, session: str, since: int = 0) -> dict[str, tuple[str, str, str]]:
    """Title, kind and status of every call."""
    views = editor.tool_calls(session, since)
    return {id: (view.title, view.kind, view.status) for id, view in views.items()}


async def test_bad_arguments_fail_their_call_and_the_valid_calls_beside_it_run(tmp_path: Path) -> None:
    """Field case P13: then the model goes on, the agent is killed, and the thread loads as it was."""
    (tmp_path / "a").write_text("content of a\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    steps = [_reply(), Reply.text("I see."), Reply.silence()]
    with OpenAIServer(steps) as server:
        async with start_agent(tmp_path, server=server, permissions="allow_once") as editor:
            session = await editor.new_session(tmp_path)
            assert (await editor.prompt(session, "Call them.")).stop_reason == "end_turn"
            assert editor.text(session) == "I see."
            cards = _cards(editor, session)
            assert editor.stderr == ""
            assert len(editor.permissions.requests) == 1
            editor.start_prompt(session, "And now?")
            await server.wait_for_chats(3)
            assert descendants(editor.pid) == []
            editor.kill()
            await editor.wait_exit()
        told = results(server.chats[1])
        async with start_agent(tmp_path, server=server) as editor:
            await editor.load_session(session, tmp_path)
            assert _cards(editor, session) == cards
            assert editor.text(session) == "I see."
            server.add(Reply.text("Here I am."))
            assert (await editor.prompt(session, "Still there?")).stop_reason == "end_turn"
        assert results(server.chats[-1]) == told
    assert calls(server.chats[1]) == list(told) == ["first", *BAD, "last"]
    assert told["first"] == "content of a\n"
    assert [(name, bad.told) for name, bad in BAD.items() if bad.told not in told[name]] == []
    assert [name for name in BAD if not told[name].startswith("Error: ")] == []
    assert [name for name in BAD if cards[name][2] != "failed"] == []
    assert [(name, len(text)) for name, text in told.items() if len(text) > SHORT] == []
    assert (cards["first"][2], cards["last"][2]) == ("completed", "completed")
    assert (tmp_path / "effects").read_text() == "yes"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "effects", "home", "state"])
    assert not (tmp_path / "state" / "logs").exists()


IDS = (
    Reply.tool("same", "run_command", {"command": "printf 1 >> effects"})
    + Reply.tool("same", "run_command", {"command": "printf 2 >> effects"})
    + Reply.tool("", "run_command", {"command": "printf 3 >> effects"})
    + Reply.tool(None, "run_command", {"command": "printf 4 >> effects"})
    + Reply.tool("x" * 5000, "run_command", {"command": "printf 5 >> effects"})
)


async def test_every_call_gets_an_id_of_its_own_and_a_repeated_one_is_not_run(tmp_path: Path) -> None:
    """Field case P13: a repeated id in one reply and over replies, an empty one, none at all, and a very long one."""
    again = Reply.tool("same", "run_command", {"command": "printf 6 >> effects"})
    with OpenAIServer([IDS, again, Reply.text("I see."), Reply.text("Here I am.")]) as server:
        async with start_agent(tmp_path, server=server, permissions="allow_once") as editor:
            session = await editor.new_session(tmp_path)
            assert (await editor.prompt(session, "Call them.")).stop_reason == "end_turn"
            cards = _cards(editor, session)
            editor.kill()
            await editor.wait_exit()
        async with start_agent(tmp_path, server=server) as editor:
            await editor.load_session(session, tmp_path)
            assert _cards(editor, session) == cards
            assert (await editor.prompt(session, "Still there?")).stop_reason == "end_turn"
    asked = server.chats[-1]
    assert len(set(calls(asked))) == len(calls(asked)) == len(cards) == 6
    assert list(results(asked)) == calls(asked)
    assert (tmp_path / "effects").read_text() == "13456"
    refused = [text for text in results(asked).values() if "used the same call id twice" in text]
    assert len(refused) == 1
    assert [status for _, _, status in cards.values()].count("failed") == 1
    assert StoredLog(tmp_path, session).endings == ["completed", "completed"]


def _start_of(frames: list[Frame], id: str) -> Frame:
    (found,) = [frame for frame in frames if frame.kind == "tool_call" and frame.update["toolCallId"] == id]
    return found


async def test_the_card_of_a_bad_call_is_one_every_editor_can_draw(tmp_path: Path) -> None:
    """Field case P13 and editors rules 11, 13, 15: rawInput is an object, the title one short line, the kind honest."""
    with OpenAIServer([_reply(), Reply.text("I see.")]) as server:
        async with start_agent(tmp_path, server=server, permissions="allow_once") as editor:
            session = await editor.new_session(tmp_path)
            await editor.prompt(session, "Call them.")
            for name, bad in BAD.items():
                update = _start_of(editor.frames, name).update
                assert isinstance(update["rawInput"], dict)
                assert update["title"].strip()
                assert len(update["title"]) < SHORT, name
                assert "\n" not in update["title"]
                assert "\u202e" not in update["title"]
                kind = {"write_file": "edit", "read_file": "read", "run_command": "execute"}.get(bad.name)
                assert kind in (None, update["kind"])

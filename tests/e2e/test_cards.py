"""What an editor draws of tool calls: cards, plan and message boundaries; and what the model gets paired with them."""

from __future__ import annotations

import functools
import operator
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import RequestError

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.buffers import Buffers
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.turns import Turn

pytestmark = pytest.mark.anyio

PLAN = [
    {"content": "Look", "status": "completed", "priority": "medium"},
    {"content": "Do", "status": "in_progress", "priority": "high"},
    {"content": "Rest", "status": "pending", "priority": "low"},
]
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read_file", {"path": "kept", "line": 2}),
    "list": ("list_files", {"path": "sub"}),
    "search": ("search", {"pattern": "two"}),
    "write": ("write_file", {"path": "new/file", "content": "x\n"}),
    "edit": ("edit_file", {"path": "kept", "old_text": "two", "new_text": "2"}),
    "run": ("run_command", {"command": "echo hello"}),
    "fail": ("run_command", {"command": "exit 3"}),
    "plan": ("update_plan", {"entries": PLAN}),
    "unknown": ("fly", {"where": "up"}),
}
# By call: title, kind, location (path, line), how it ends.
CARDS: dict[str, tuple[str, str, tuple[str, int | None] | None, str]] = {
    "read": ("Read kept (from line 2)", "read", ("kept", 2), "completed"),
    "list": ("List sub", "search", ("sub", None), "completed"),
    "search": ("Search 'two' in .", "search", ("", None), "completed"),
    "write": ("Write new/file", "edit", ("new/file", 1), "completed"),
    "edit": ("Edit kept", "edit", ("kept", 2), "completed"),
    "run": ("`echo hello`", "execute", None, "completed"),
    "fail": ("`exit 3`", "execute", None, "failed"),
    "plan": ("Update the plan (1 of 3 done)", "think", None, "completed"),
    "unknown": ("Unknown tool fly", "other", None, "failed"),
}
# By call: the text that the finished card shows, and its diff (old text, new text).
CONTENT: dict[str, tuple[str, tuple[str | None, str] | None]] = {
    "read": ("```\ntwo\n```", None),
    "list": ("sub/file", None),
    "search": ("kept:2:two", None),
    "write": ("", (None, "x\n")),
    "edit": ("", ("one\ntwo\n", "one\n2\n")),
    "run": ("```\nhello\n", None),
    "fail": ("[exit code: 3]", None),
    "plan": ("1 of 3", None),
    "unknown": ("fly", None),
}


async def test_each_tool_has_its_card_live_and_after_a_load(tmp_path: Path) -> None:
    """Issue 2, item 8: kind, title, locations, rawInput, status in order; one projection for both."""
    folder = project(tmp_path, "one")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").touch()
    steps = play(tmp_path, [{"calls": [call(id, *made) for id, made in CALLS.items()]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Do it.")
        live, plan = editor.tool_calls(session), editor.plan(session)
    async with start_agent(tmp_path, screenplay=steps) as editor:
        await editor.load_session(session, folder)
        replayed, planned_again = editor.tool_calls(session), editor.plan(session)
    assert list(live) == list(replayed) == list(CARDS)
    assert plan == planned_again == PLAN
    for id, (title, kind, location, ending) in CARDS.items():
        for view in (live[id], replayed[id]):
            assert (view.title, view.kind, view.status) == (title, kind, ending), id
            assert view.raw_input == CALLS[id][1]
            wanted = [] if location is None else [_location(folder, *location)]
            assert view.locations == wanted, id
        assert live[id].content == replayed[id].content, id
        said, changed = CONTENT[id]
        assert (said in live[id].text) if said else live[id].text == "", id
        assert [(diff["oldText"], diff["newText"]) for diff in live[id].diffs] == ([changed] if changed else []), id
        assert [diff["path"] for diff in live[id].diffs] == [place["path"] for place in live[id].locations if changed]
        shown = live[id].statuses
        in_order = [status for n, status in enumerate(shown) if n == 0 or status != shown[n - 1]]
        assert in_order == ["pending", "in_progress", ending] if id != "unknown" else in_order[-1] == ending


def _location(folder: Path, path: str, line: int | None) -> dict[str, Any]:
    return {"path": str(folder / path)} | ({} if line is None else {"line": line})


async def test_each_reply_of_the_model_is_a_message_of_its_own_around_its_calls(tmp_path: Path) -> None:
    """Editors: chunks with one `messageId` are drawn as one message; a batch of calls ends it."""
    read = [call("c1", *CALLS["read"]), call("c2", *CALLS["list"])]
    folder = project(tmp_path, "one")
    (folder / "sub").mkdir()
    steps = play(tmp_path, [
        {"reasoning": ["Hm ", "hm."], "text": ["First ", "part."], "calls": read},
        {"text": ["Second ", "part."]},
    ], [text("Another turn.")])  # fmt: skip
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Go.")
        await editor.prompt(session, "On.")
        said = editor.messages(session)
    assert [message.text for message in said] == ["Hm hm.", "First part.", "Second part.", "Another turn."]
    ids = [message.id for message in said]
    assert None not in ids and len(set(ids)) == 4


async def test_parallel_reads_come_back_in_the_order_of_their_calls_whichever_is_done_first(tmp_path: Path) -> None:
    """Contracts §3.5: dispatch overlaps, results commit in model order, in the log and in the next model request."""
    folder = project(tmp_path, "one")
    buffers = Buffers()
    first_may_end = anyio.Event()
    answered: list[str] = []
    read = buffers.read

    async def slow_first(path: str, line: int | None, limit: int | None) -> Any:
        if path.endswith("/kept"):
            await first_may_end.wait()
        answered.append(path.rpartition("/")[2])
        if len(answered) == 2:
            first_may_end.set()
        return await read(path, line, limit)

    buffers.read = slow_first  # type: ignore[method-assign]  # the editor is slow for one file
    (folder / "third").write_text("3\n")
    names = ["kept", "other", "third"]
    calls = [Reply.tool(f"c{n}", "read_file", {"path": name}, index=n) for n, name in enumerate(names)]
    with OpenAIServer([functools.reduce(operator.add, calls), Reply.text("Done.")]) as server:
        async with start_agent(tmp_path, server=server, buffers=buffers) as editor:
            session = await editor.new_session(folder)
            await editor.prompt(session, "Read.")
            sent = [message for message in server.chats[1].body["messages"] if message["role"] == "tool"]
    assert (sorted(answered[:2]), answered[2:]) == (["other", "third"], ["kept"])
    assert list(StoredLog(tmp_path, session).results) == ["c0", "c1", "c2"]
    assert [message["tool_call_id"] for message in sent] == ["c0", "c1", "c2"]
    assert [str(message["content"]) for message in sent] == ["one\ntwo\n", "one\ntwo\n", "3\n"]


async def test_a_plan_is_sent_whole_each_time_and_an_empty_one_clears_it(tmp_path: Path) -> None:
    """ACP: plan updates replace what was there; a bad plan changes nothing."""
    later = [{**entry, "status": "completed"} for entry in PLAN]
    bad = [{"content": "A", "status": "in_progress"}, {"content": "B", "status": "in_progress"}]
    plans: list[list[dict[str, Any]]] = [PLAN, bad, later, []]
    calls = [{"calls": [call(f"p{n}", "update_plan", {"entries": plan})]} for n, plan in enumerate(plans)]
    steps = play(tmp_path, [*calls, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, "Plan.")
        sent = [update for update in editor.updates(session) if update["sessionUpdate"] == "plan"]
        assert [update["entries"] for update in sent] == [PLAN, later, []]
        assert [view.status for view in editor.tool_calls(session).values()] == [
            "completed", "failed", "completed", "completed",
        ]  # fmt: skip


def _refuse(request: Any) -> Any:
    return "reject_once" if request.tool_call["toolCallId"].startswith("refused") else "allow_once"


def _batch(kind: str, count: int) -> Reply:
    """`count` calls; `reset` ends in the middle of the last one."""
    name, arguments = BATCHES[kind]
    calls = [Reply.tool(f"{kind}-{n}", name, arguments, index=n) for n in range(count)]
    reply = functools.reduce(operator.add, calls)
    return reply.reset_after(count, mid_event=True) if kind == "reset" else reply


LONG = {"command": "printf here > marker; sleep 300"}
BATCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "refused": ("run_command", {"command": "true"}),
    "unknown": ("fly", {}),
    "reset": ("run_command", LONG),
    "killed": ("run_command", LONG),
    "cancelled": ("run_command", LONG),
}
# Calls of a reply that never ended were never made.
MADE = ("refused", "unknown", "killed", "cancelled")


async def test_every_call_of_every_later_request_has_exactly_one_result_behind_it(tmp_path: Path) -> None:
    """Field case R3: refused, unknown, cut off by the provider, by a kill and by a cancel; then loaded twice."""
    sessions: dict[int, str] = {}
    folders = {count: project(tmp_path, str(count)) for count in (1, 4)}
    with OpenAIServer([]) as server:
        async with start_agent(tmp_path, server=server, permissions=_refuse) as editor:
            for count, folder in folders.items():
                session = sessions[count] = await editor.new_session(folder)
                server.add(_batch("refused", count), _batch("unknown", count), Reply.text("So."))
                await editor.prompt(session, "One.")
                server.add(_batch("reset", count))
                with pytest.raises(RequestError):
                    await editor.prompt(session, "And then?")
                assert not (folder / "marker").exists()
                await _running(editor, server, session, folder, _batch("killed", count))
            editor.kill()
            await editor.wait_exit()
        async with start_agent(tmp_path, server=server, permissions=_refuse) as editor:
            for count, folder in folders.items():
                (folder / "marker").unlink()
                await editor.load_session(sessions[count], folder)
                turn = await _running(editor, server, sessions[count], folder, _batch("cancelled", count))
                await editor.cancel(sessions[count])
                assert (await turn.result()).stop_reason == "cancelled"
        async with start_agent(tmp_path, server=server, permissions=_refuse) as editor:
            for count, folder in folders.items():
                server.add(Reply.text("Last."))
                await editor.load_session(sessions[count], folder)
                await editor.prompt(sessions[count], "Four.")
                wanted = [f"{kind}-{n}" for kind in MADE for n in range(count)]
                assert _paired(server.chats[-1].body["messages"]) == wanted
        for chat in server.chats:
            _paired(chat.body["messages"])


async def _running(editor: Editor, server: OpenAIServer, session: str, folder: Path, reply: Reply) -> Turn:
    """A turn that is in the first of the commands of this reply."""
    server.add(reply)
    turn = editor.start_prompt(session, "Run it.")
    await Marker(folder / "marker").wait("here")
    return turn


def _paired(messages: list[dict[str, Any]]) -> list[str]:
    """The ids of all calls. As every provider wants it: results right behind the reply, one for each call, in order."""
    waiting: list[str] = []
    found: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting and message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        waiting = [made["id"] for made in message.get("tool_calls") or ()]
        found += waiting
    assert waiting == []
    return found

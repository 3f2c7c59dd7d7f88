"""session/cancel: wherever a turn is, its prompt is answered `cancelled`, at once and once, and the log says who."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.e2e.asked import conversation
from tests.e2e.lines import answers, answers_to, notification, request, text_prompt
from tests.e2e.pausing_agent import PAUSING_AGENT
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.processes import descendants
from tests.support.schema import mapping
from tests.support.turns import Turn

pytestmark = pytest.mark.anyio

FAST_S = 3.0  # a turn of a minute or more is stopped; a command's grace period is in it
BY_USER = {"kind": "aborted", "reason": {"kind": "user"}}


def commands(**lines: str) -> dict[str, Any]:
    """A step that runs each line under its name as call id."""
    return {"calls": [call(id, "run_command", {"command": line}) for id, line in lines.items()]}


def told(*texts: str) -> list[dict[str, Any]]:
    """The turn after the cancelled one, in which the model must have been told all these texts."""
    return [{"expect": ["And now?", *texts], "text": "Here I am."}]


async def _cancelled(editor: Editor, session: str, tmp_path: Path, turn: Turn) -> None:
    """Cancel; the answer is fast, says `cancelled` and nothing else; the log blames the user."""
    await editor.cancel(session)
    response = await turn.result(timeout=FAST_S)
    assert response.model_dump(by_alias=True, exclude_unset=True) == {"stopReason": "cancelled"}
    assert StoredLog(tmp_path, session).of("turn/end")[-1]["reason"] == BY_USER


async def _goes_on(editor: Editor, session: str) -> None:
    since = len(editor.frames)
    assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
    assert editor.text(session, since) == "Here I am."


async def test_a_cancel_while_a_command_runs_ends_it_and_the_calls_behind_it(tmp_path: Path) -> None:
    """Field case P5, in a tool: its process tree is gone, the call behind it never started."""
    marker = Marker(tmp_path / "marker")
    run = commands(c1="printf here > marker; sleep 300", c2="printf two >> effects")
    steps = play(tmp_path, [run], told("tool call aborted", "tool call aborted before dispatch"))
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Run them.")
        await marker.wait("here")
        await _cancelled(editor, session, tmp_path, turn)
        assert descendants(editor.pid) == []
        assert [shown.status for shown in editor.tool_calls(session).values()] == ["failed", "failed"]
        await _goes_on(editor, session)
    assert StoredLog(tmp_path, session).results == {"c1": "ABORTED", "c2": "ABORTED_BEFORE_DISPATCH"}
    assert not (tmp_path / "effects").exists()


async def test_a_cancel_while_the_model_streams_keeps_what_was_shown(tmp_path: Path) -> None:
    """Field case P5, in a reply: nothing of it follows, and the model sees its own interrupted reply."""
    reply = Reply.text("One ", "two ", "three") + Reply.tool("c1", "run_command", {"command": "true"})
    with OpenAIServer([reply.gate(None, before=2)]) as server:
        async with start_agent(tmp_path, server=server) as editor:
            session = await editor.new_session(tmp_path)
            turn = editor.start_prompt(session, "Count.")
            await editor.wait_until(lambda: editor.text(session) == "One two ")
            await _cancelled(editor, session, tmp_path, turn)
            await server.wait_for(server.chats[0].disconnected)
            server.add(Reply.text("Here I am."))
            await _goes_on(editor, session)
            assert editor.text(session).startswith("One two ")
            assert "three" not in editor.text(session)
        assert any(role == "assistant" and said.startswith("One two") for role, said in conversation(server.chats[-1]))


async def test_a_cancel_between_two_calls_keeps_the_first_and_never_starts_the_second(tmp_path: Path) -> None:
    """Field case P5, between tools: held after the first call's result, before the second is asked about."""
    (tmp_path / "pause").write_text("c2")
    marker = Marker(tmp_path / "marker")
    run = commands(c1="printf 1 >> effects", c2="printf 2 >> effects")
    steps = play(tmp_path, [run], told("[exit code: 0]", "tool call aborted before dispatch"))
    async with start_agent(tmp_path, screenplay=steps, permissions=["allow_once"], command=PAUSING_AGENT) as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Run them.")
        await marker.wait("c2")
        await editor.cancel(session)
        await editor.request("session/list")
        (tmp_path / "go").touch()
        assert (await turn.result(timeout=FAST_S)).stop_reason == "cancelled"
        assert [shown.status for shown in editor.tool_calls(session).values()] == ["completed", "failed"]
        await _goes_on(editor, session)
    log = StoredLog(tmp_path, session)
    assert log.results == {"c1": "ok", "c2": "ABORTED_BEFORE_DISPATCH"}
    assert log.of("turn/end")[0]["reason"] == BY_USER
    assert (tmp_path / "effects").read_text() == "1"


@pytest.mark.parametrize("answer", ["cancelled", "never"])
async def test_a_cancel_while_a_question_is_open_ends_the_turn_whether_it_is_answered_or_not(
    tmp_path: Path, answer: str
) -> None:
    """Field cases P5 and A2: the answer `cancelled` follows, or none ever comes. The command is not run."""
    steps = play(tmp_path, [commands(c1="printf no >> effects")], told("tool call aborted"))
    async with start_agent(tmp_path, screenplay=steps, permissions="never") as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Run it.")
        await editor.wait_for_permission()
        await editor.cancel(session, answer_pending=answer == "cancelled")
        assert (await turn.result(timeout=FAST_S)).stop_reason == "cancelled"
        await editor.request("session/list")
        await _goes_on(editor, session)
    log = StoredLog(tmp_path, session)
    assert log.of("turn/end")[0]["reason"] == BY_USER
    assert [decided["outcome"] for decided in log.of("approval/decided")] == ["cancelled"]
    assert not (tmp_path / "effects").exists()


async def test_a_cancel_while_a_retry_waits_ends_the_wait(tmp_path: Path) -> None:
    """Field case P5, in the back-off: the provider said to come back in half a minute; nobody does."""
    with OpenAIServer([Reply.status(429, retry_after=30)]) as server:
        async with start_agent(tmp_path, server=server) as editor:
            session = await editor.new_session(tmp_path)
            turn = editor.start_prompt(session, "Hello.")
            request = await server.wait_for_chats(1)
            await server.wait_for(request.finished)
            await _cancelled(editor, session, tmp_path, turn)
            assert len(server.chats) == 1
            server.add(Reply.text("Here I am."))
            await _goes_on(editor, session)
            assert editor.text(session) == "Here I am."


def _prompt_and(session: str, *more: bytes) -> bytes:
    return text_prompt("p", session, "Hello.") + b"".join(more)


CANCEL: dict[str, Any] = {
    "once": lambda session: [notification("session/cancel", sessionId=session)],
    "twice": lambda session: [notification("session/cancel", sessionId=session)] * 2,
    "with a reason": lambda session: [notification("session/cancel", sessionId=session, reason="user", _meta={"a": 1})],
    "by request id": lambda session: [notification("$/cancel_request", requestId="p")],
    "both ways": lambda session: [
        notification("$/cancel_request", requestId="p", message="gone"),
        notification("session/cancel", sessionId=session),
    ],
}


async def test_a_prompt_and_its_cancel_in_one_write_get_one_answer_and_no_request_is_made(tmp_path: Path) -> None:
    """Field case P6, first part; each way to cancel, one after the other in one session, then an ordinary prompt.

    The screenplay has one turn, so a request made for a cancelled prompt would use it up.
    """
    async with start_agent(tmp_path, screenplay=play(tmp_path, told())) as editor:
        session = await editor.new_session(tmp_path)
        for name, cancel in CANCEL.items():
            since = len(editor.frames)
            await editor.send_raw(_prompt_and(session, *cancel(session), request("after", "session/list")))
            for id in ("p", "after"):
                await editor.wait_for(answers_to(id), since=since)
            given = [mapping(frame.message) for frame in answers(editor.frames[since:])]
            results = [message["result"] for message in given if message["id"] == "p"]
            assert (name, results) == (name, [{"stopReason": "cancelled"}])
        await _goes_on(editor, session)
        assert editor.stderr == ""
    log = StoredLog(tmp_path, session)
    assert set(log.endings[:-1]) <= {"aborted"}
    assert log.endings[-1] == "completed"
    assert len(log.of("request/header")) == 1


async def test_a_cancel_before_the_first_token_is_answered_at_once(tmp_path: Path) -> None:
    """Field case P6: the model is silent, before its headers and after them; cancelled twice."""
    silences = [Reply.silence(), Reply.text("never").gate(Event(), before=0)]
    with OpenAIServer(silences) as server:
        async with start_agent(tmp_path, server=server) as editor:
            session = await editor.new_session(tmp_path)
            for number in range(len(silences)):
                turn = editor.start_prompt(session, f"Hello {number}.")
                asked = await server.wait_for_chats(number + 1)
                await editor.cancel(session)
                await _cancelled(editor, session, tmp_path, turn)
                await server.wait_for(asked.disconnected)
            server.add(Reply.text("Here I am."))
            await _goes_on(editor, session)
            assert editor.text(session) == "Here I am."
    assert StoredLog(tmp_path, session).endings == ["aborted", "aborted", "completed"]


async def test_stray_cancels_are_ignored_and_do_not_poison_the_next_turn(tmp_path: Path) -> None:
    """Field case P6: an idle session, one that never was, one that was closed, a prompt that has its answer."""
    steps = play(tmp_path, [text("One.")], [text("Two.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session, closed = await editor.new_session(tmp_path), await editor.new_session(tmp_path)
        await editor.request("session/close", {"sessionId": closed})
        strays = [notification("session/cancel", sessionId=id) for id in (session, closed, "no-such-session", "")]
        strays += [notification("$/cancel_request", requestId=id) for id in (0, "p", None, {"a": 1})]
        await editor.send_raw(b"".join(strays) * 2 + text_prompt("p", session, "First."))
        await editor.wait_for(answers_to("p"))
        await editor.send_raw(b"".join(strays))
        assert (await editor.prompt(session, "Second.")).stop_reason == "end_turn"
        assert editor.text(session) == "One.Two."
        assert editor.stderr == ""
    assert not (tmp_path / "state" / "logs").exists()
    assert StoredLog(tmp_path, session).endings == ["completed", "completed"]


async def test_a_cancelled_list_or_load_is_answered_once_and_the_session_still_loads(tmp_path: Path) -> None:
    """ACP: $/cancel_request for other requests: a result that was ready, or -32800."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("One.")])) as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, "First.")
        await editor.request("session/close", {"sessionId": session})
        since = len(editor.frames)
        load = request("load", "session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        for id, line in (("list", request("list", "session/list")), ("load", load)):
            await editor.send_raw(line + notification("$/cancel_request", requestId=id))
        await editor.wait_until(lambda: len(answers(editor.frames[since:])) == 2)
        for frame in answers(editor.frames[since:]):
            message = json.loads(frame.raw)
            assert "result" in message or message["error"]["code"] == -32800
        await editor.load_session(session, tmp_path)
        assert editor.text(session, since).endswith("One.")

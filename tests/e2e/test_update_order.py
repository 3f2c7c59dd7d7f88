"""On the wire every update of a turn comes before that turn's response, and none after it; read as raw bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.lines import answers_to, code_of, notification, request, text_prompt
from tests.e2e.plays import call, play, text
from tests.support.agent import start_agent
from tests.support.editor import Editor

pytestmark = pytest.mark.anyio

CHUNKS = [f"{number} " for number in range(1000)]


async def _raw(editor: Editor, since: int) -> tuple[list[bytes], list[bytes]]:
    """The agent's lines from frame `since` on: up to the response of request `p`, and after it; a request follows."""
    await editor.request("session/list", id="after")
    raw = [frame.raw for frame in editor.frames[since:] if frame.sender == "agent"]
    (end,) = [number for number, line in enumerate(raw) if line.startswith(b'{"jsonrpc":"2.0","id":"p",')]
    return raw[: end + 1], raw[end + 1 :]


def _is_update(line: bytes) -> bool:
    return b'"method":"session/update"' in line


async def test_a_thousand_chunks_all_precede_the_response_that_follows_the_last_at_once(tmp_path: Path) -> None:
    """Field case P7: every chunk is on the wire, in order, by itself; the response is the very next line."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text(*CHUNKS)])) as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        await editor.send_raw(text_prompt("p", session, "Count."))
        await editor.wait_for(answers_to("p"))
        before, after = await _raw(editor, since)
        assert [update["content"]["text"] for update in editor.updates(session, since)] == CHUNKS
        assert len({update["messageId"] for update in editor.updates(session, since)}) == 1
    assert [_is_update(line) for line in before] == [True] * 1000 + [False]
    assert [line for line in after if _is_update(line)] == []


async def test_a_turn_that_ends_right_after_a_tool_result_shows_the_result_first(tmp_path: Path) -> None:
    """Field case P7: the model says nothing more once the call has ended."""
    step = {"calls": [call("c1", "list_files", {})]}
    async with start_agent(tmp_path, screenplay=play(tmp_path, [step, {}])) as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        await editor.send_raw(text_prompt("p", session, "List."))
        await editor.wait_for(answers_to("p"))
        before, after = await _raw(editor, since)
        assert editor.tool_calls(session)["c1"].status == "completed"
    assert b'"status":"completed"' in before[-2]
    assert [line for line in after if _is_update(line)] == []


@pytest.mark.parametrize("where", ["streaming", "command", "question"])
async def test_nothing_of_a_cancelled_turn_comes_after_its_response(tmp_path: Path, where: str) -> None:
    """Field case P7, after a cancel: also when the model would have gone on, and with calls that end by it."""
    streaming = text("One ", {"wait_for_file": "go"}, *CHUNKS)
    command = {"calls": [call(id, "run_command", {"command": "sleep 300"}) for id in ("c1", "c2")]}
    steps = play(tmp_path, [streaming if where == "streaming" else command, text("Never.")])
    answer = "allow_once" if where == "command" else "never"
    async with start_agent(tmp_path, screenplay=steps, permissions=answer) as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        await editor.send_raw(text_prompt("p", session, "Go."))
        shown = {"streaming": b"One ", "command": b'"in_progress"', "question": b"request_permission"}[where]
        await editor.wait_for(lambda frame: shown in frame.raw, since=since)
        await editor.send_raw(notification("session/cancel", sessionId=session))
        await editor.wait_for(answers_to("p"))
        (tmp_path / "go").touch()
        before, after = await _raw(editor, since)
        statuses = [view.status for view in editor.tool_calls(session).values()]
        assert statuses == ([] if where == "streaming" else ["failed", "failed"])
    assert before[-1] == b'{"jsonrpc":"2.0","id":"p","result":{"stopReason":"cancelled"}}'
    assert [line for line in after if _is_update(line)] == []


async def test_no_update_for_a_new_session_comes_before_its_id(tmp_path: Path) -> None:
    """Editors rule 2, design §13: session/new, a prompt that guesses nothing, and a mode change, in read order."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hello.")])) as editor:
        await editor.initialize()
        new = [request(f"new-{number}", "session/new", cwd=str(tmp_path), mcpServers=[]) for number in range(20)]
        since = len(editor.frames)
        await editor.send_raw(b"".join(new))
        for number in range(20):
            await editor.wait_for(answers_to(f"new-{number}"), since=since)
        assert [frame for frame in editor.frames[since:] if frame.sender == "agent" and not frame.is_response] == []
        session = editor.frames[-1].message["result"]["sessionId"]  # type: ignore[index]  # it is a response
        mode = request("mode", "session/set_mode", sessionId=session, modeId="auto-edit")
        await editor.send_raw(mode + text_prompt("p", session, "Hello."))
        await editor.wait_for(answers_to("p"), since=since)
        assert code_of(editor.frames[since:], "mode") is None
        assert [update["sessionUpdate"] for update in editor.updates(session)] == [
            "current_mode_update",
            "config_option_update",
            "agent_message_chunk",
        ]

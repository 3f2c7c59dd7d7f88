"""The editor against an agent made with the official SDK, over real pipes: what it shows, answers and reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest

from tests.support.buffers import Buffers
from tests.support.editor import Editor
from tests.support.permissions import held
from tests.support.transcript import Message

pytestmark = pytest.mark.anyio

STANDIN = [sys.executable, str(Path(__file__).with_name("standin_agent.py"))]
Start = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start(**options: Any) -> AbstractAsyncContextManager[Editor]:
        return Editor.start(STANDIN, env={"PATH": os.environ["PATH"]}, cwd=tmp_path, **options)

    return start


async def test_a_turn_is_seen_as_texts_in_order_with_the_raw_lines_of_both_sides(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        session = await editor.new_session(tmp_path)
        response = await editor.prompt(session, "talk")
        assert response.stop_reason == "end_turn"
        assert editor.text(session) == "Hello"
        assert editor.thoughts(session) == "hm"
        assert editor.messages(session)[1] == Message("agent_message_chunk", "agent_message_chunk", "Hello")
        assert [frame.method for frame in editor.frames if frame.sender == "client"] == [
            "initialize",
            "session/new",
            "session/prompt",
        ]
        assert [frame.time for frame in editor.frames] == sorted(frame.time for frame in editor.frames)
        assert editor.stderr == ""


async def test_an_edit_is_read_from_the_buffer_asked_for_and_written_back(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("on disk")
    async with start(permissions=["allow_once"], buffers=Buffers({str(path): "unsaved"})) as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, f"edit {path}")
        (asked,) = editor.permissions.requests
        assert asked.answer == "allow_once"
        assert asked.tool_call["content"][0]["oldText"] == "unsaved"
        call = editor.tool_calls(session)["t1"]
        assert (call.title, call.kind, call.statuses) == (f"Edit {path}", "edit", ["pending", "completed"])
        assert call.diffs[0]["newText"] == "new"
        assert path.read_text() == editor.buffers.texts[str(path)] == "new"


async def test_answers_without_permission_leave_the_file_alone(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    async with start(permissions=["reject_once", "cancelled", "unknown_option"]) as editor:
        session = await editor.new_session(tmp_path)
        for number, said in enumerate(["selected", "cancelled", "selected"], start=1):
            mark = len(editor.frames)
            await editor.prompt(session, f"edit {path}")
            assert editor.text(session, since=mark) == said
            assert editor.tool_calls(session)[f"t{number}"].status == "failed"
        assert path.read_text() == "old"


async def test_a_held_question_is_answered_by_cancel(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    async with start(permissions=held(anyio.Event(), "allow_once")) as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, f"edit {path}")
        asked = await editor.wait_for_permission()
        assert editor.permissions.pending == [asked]
        await editor.cancel(session)
        await turn.result()
        assert asked.answer == "cancelled"
        assert editor.text(session) == "cancelled"


async def test_an_unexpected_question_is_refused_and_fails_the_test(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(AssertionError, match="a permission request that the test did not expect: Edit"):
        async with start() as editor:
            await editor.prompt(await editor.new_session(tmp_path), f"edit {path}")
    assert path.read_text() == "old"


async def test_cancel_reaches_a_running_turn(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "wait")
        await editor.wait_for(lambda frame: frame.update.get("content", {}).get("text") == "waiting")
        await editor.cancel(session)
        assert (await turn.result()).stop_reason == "cancelled"


async def test_replay_and_errors_come_as_the_sdk_hands_them_out_and_raw_requests_return_the_whole_response(
    start: Start, tmp_path: Path
) -> None:
    async with start() as editor:
        await editor.initialize()
        mark = len(editor.frames)
        await editor.load_session("s1", tmp_path)
        assert [message.text for message in editor.messages("s1", since=mark)] == ["hello", "Hello!"]
        with pytest.raises(acp.RequestError) as caught:
            await editor.prompt("s1", "fail")
        assert caught.value.data == {"details": "It did not work."}
        prompt = [{"type": "text", "text": "talk"}]
        response = await editor.request("session/prompt", {"sessionId": "s1", "prompt": prompt}, id=77)
        assert response["result"] == {"stopReason": "end_turn"}

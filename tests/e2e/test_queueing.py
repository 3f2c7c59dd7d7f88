"""Prompts of one session wait for each other, each with its own turn and answer; sessions do not (field case P10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lines import answers, answers_to, notification, text_prompt
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

DONE = {"stopReason": "end_turn"}
CANCELLED = {"stopReason": "cancelled"}


def _results(editor: Editor, since: int = 0) -> list[tuple[Any, Any]]:
    """Id and result of each answer, in the order of the answers."""
    found = [mapping(frame.message) for frame in answers(editor.frames[since:])]
    return [(message["id"], message.get("result")) for message in found]


def _texts_and_answers(editor: Editor, since: int) -> list[Any]:
    """The agent's chunks as texts and its answers as ids, in wire order."""
    frames = [frame for frame in editor.frames[since:] if frame.sender == "agent"]
    chunks = {id(frame): frame.update["content"]["text"] for frame in frames if frame.kind == "agent_message_chunk"}
    return [chunks.get(id(frame), frame.id) for frame in frames if id(frame) in chunks or frame.is_response]


def _turns(log: StoredLog) -> list[tuple[str, Any]]:
    """Boundaries and prompts as the log has them; interleaved turns would show."""
    shown: list[tuple[str, Any]] = []
    for event in log.events:
        data = event["data"]
        if event["type"] in ("turn/start", "turn/end"):
            shown.append((event["type"], data["turn"]))
        elif event["type"] == "user/message" and data["source"] == {"kind": "user"}:
            shown.append(("prompt", data["content"][0]["text"]))
    return shown


async def test_prompts_during_a_turn_wait_their_turn_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    """Field case P10: a command runs while two more prompts come; none is refused, none runs into another."""
    command = {"calls": [call("c1", "run_command", {"command": "until [ -e go ]; do sleep 0.01; done"})]}
    steps = play(
        tmp_path,
        [command, text("One.")],
        [{"expect": ["First.", "One.", "Second."], "text": "Two."}],
        [{"expect": ["Second.", "Two.", "Third."], "text": "Three."}],
    )
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        await editor.send_raw(text_prompt(1, session, "First."))
        await editor.wait_until(lambda: [c for c in editor.tool_calls(session).values() if c.status == "in_progress"])
        await editor.send_raw(text_prompt(2, session, "Second.") + text_prompt(3, session, "Third."))
        await editor.request("session/list", id="meanwhile")
        assert editor.text(session) == ""
        (tmp_path / "go").touch()
        await editor.wait_for(answers_to(3), since=since)
        in_order = [(id, result) for id, result in _results(editor, since) if id != "meanwhile"]
        assert in_order == [(1, DONE), (2, DONE), (3, DONE)]
        shown = ("One.", 1, "Two.", 2, "Three.", 3)
        assert [item for item in _texts_and_answers(editor, since) if item in shown] == list(shown)
    assert _turns(StoredLog(tmp_path, session)) == [
        item
        for number, prompt in enumerate(("First.", "Second.", "Third."), 1)
        for item in (("turn/start", number), ("prompt", prompt), ("turn/end", number))
    ]


async def test_a_prompt_at_the_moment_of_the_answer_before_it_is_an_ordinary_one(tmp_path: Path) -> None:
    """Field case P10: twenty prompts, each written as soon as the answer before it is read."""
    steps = play(tmp_path, *([text(f"{number};")] for number in range(20)))
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        for number in range(20):
            since = len(editor.frames)
            await editor.send_raw(text_prompt(number, session, f"Prompt {number}."))
            await editor.wait_for(answers_to(number), since=since)
        assert editor.text(session) == "".join(f"{number};" for number in range(20))
    assert StoredLog(tmp_path, session).endings == ["completed"] * 20


async def test_a_cancel_settles_the_running_prompt_and_all_that_wait(tmp_path: Path) -> None:
    """Field case P10, design §6: each gets `cancelled`; none of them is heard of again; the next is an ordinary one."""
    steps = play(tmp_path, [text("One ", {"wait_for_file": "never"})], [text("Two.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        since = len(editor.frames)
        await editor.send_raw(b"".join(text_prompt(number, session, f"Prompt {number}.") for number in (1, 2, 3)))
        await editor.wait_until(lambda: editor.text(session) == "One ")
        await editor.send_raw(notification("session/cancel", sessionId=session) + text_prompt(4, session, "Prompt 4."))
        await editor.wait_for(answers_to(4), since=since)
        assert dict(_results(editor, since)) == {1: CANCELLED, 2: CANCELLED, 3: CANCELLED, 4: DONE}
        assert _results(editor, since)[-1][0] == 4
        assert editor.text(session).endswith("Two.")
    log = StoredLog(tmp_path, session)
    assert [text for kind, text in _turns(log) if kind == "prompt"] == ["Prompt 1.", "Prompt 4."]
    assert log.endings == ["aborted", "completed"]


async def test_sessions_run_side_by_side(tmp_path: Path) -> None:
    """Field case P10: three turns at once, ended in another order than begun; a cancel stops its own session only."""
    steps = play(tmp_path, [{"text": ["Begun. ", {"wait_for_file": "all"}, "Ended."]}], [text("Again.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        sessions = [await editor.new_session(tmp_path) for _ in range(3)]
        turns = [editor.start_prompt(session, "Begin.") for session in sessions]
        await editor.wait_until(lambda: all(editor.text(session) == "Begun. " for session in sessions))
        await editor.cancel(sessions[1])
        assert (await turns[1].result()).stop_reason == "cancelled"
        assert (await editor.prompt(sessions[1], "Again?")).stop_reason == "end_turn"
        assert not turns[0].ended.is_set()
        assert not turns[2].ended.is_set()
        (tmp_path / "all").touch()
        for number in (2, 0):
            assert (await turns[number].result()).stop_reason == "end_turn"
            assert editor.text(sessions[number]) == "Begun. Ended."
    endings = [StoredLog(tmp_path, session).endings for session in sessions]
    assert endings == [["completed"], ["aborted", "completed"], ["completed"]]

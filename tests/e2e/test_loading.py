"""session/load: the whole history between the request and its answer, the same each time, and nothing starts by it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.session.repair import OUTCOME_UNKNOWN_TEXT
from tests.e2e.asked import prompts, results
from tests.e2e.lines import notification, request, text_prompt
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.frames import Frame
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.permissions import held
from tests.support.processes import descendants
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

QUIET_S = 0.5  # how long nothing must happen where nothing may; never waited for where something must

PLAN = {"entries": [{"content": "Say hello", "status": "in_progress", "priority": "high"}]}
EDIT = {"path": "hello.txt", "old_text": "Hello", "new_text": "Good morning"}
READ_AND_PLAN = [call("c1", "read_file", {"path": "hello.txt"}), call("c2", "update_plan", PLAN)]
GREET: list[dict[str, Any]] = [
    {"reasoning": ["A greeting ", "is asked for."], "text": ["I look ", "first."], "calls": READ_AND_PLAN},
    {"calls": [call("c3", "edit_file", EDIT), call("c4", "no_such_tool", {})]},
    text("Done, ", "but for one tool."),
]
RUN = [{"calls": [call("c5", "run_command", {"command": "printf here > marker; sleep 300"})]}]


async def _crash(tmp_path: Path) -> str:
    """A session with a bit of everything, killed in a command."""
    (tmp_path / "hello.txt").write_text("Hello\n")
    marker = Marker(tmp_path / "marker")
    async with start_agent(tmp_path, screenplay=play(tmp_path, GREET, RUN), permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, "Greet me better.")
        editor.start_prompt(session, "Run it.")
        await marker.wait("here")
        editor.kill()
        await editor.wait_exit()
    return session


def _replayed(editor: Editor, session: str, since: int = 0) -> list[bytes]:
    """The updates from frame `since` on, byte for byte; all must lie between the load request there and its answer."""
    frames = editor.frames[since:]
    asked = next(number for number, frame in enumerate(frames) if frame.method == "session/load")
    answered = _answer(frames, frames[asked].id)
    updates = [number for number, frame in enumerate(frames) if frame.session_id == session and frame.update]
    assert all(asked < number < answered for number in updates)
    return [frames[number].raw for number in updates]


def _answer(frames: Sequence[Frame], id: Any) -> int:
    return next(number for number, frame in enumerate(frames) if frame.is_response and frame.id == id)


async def test_every_load_replays_the_same_updates_and_appends_nothing(tmp_path: Path) -> None:
    """Field case R6: three times in one process, and again in processes after it, the last of them killed, too."""
    session = await _crash(tmp_path)
    log = StoredLog(tmp_path, session)
    replays: list[list[bytes]] = []
    stored: list[bytes] = []
    for loads in (3, 1, 1):
        async with start_agent(tmp_path, screenplay=tmp_path / "none.toml") as editor:
            for _ in range(loads):
                since = len(editor.frames)
                await editor.load_session(session, tmp_path)
                replays.append(_replayed(editor, session, since))
                stored.append(log.bytes)
            editor.kill()
            await editor.wait_exit()
        stored.append(log.bytes)
    assert all(replay == replays[0] for replay in replays)
    assert all(data == stored[0] for data in stored)
    kinds = [json.loads(frame)["params"]["update"]["sessionUpdate"] for frame in replays[0]]
    assert kinds.count("user_message_chunk") == 2
    assert set(kinds) >= {"agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update", "plan"}


async def test_a_load_after_a_crash_starts_nothing_and_the_next_turn_begins_with_the_notice(tmp_path: Path) -> None:
    """Field case R2: killed in a long tool, loaded, left alone; then a prompt, which a cancel ends at once."""
    session = await _crash(tmp_path)
    log = StoredLog(tmp_path, session)
    with OpenAIServer([Reply.silence()]) as server:
        async with start_agent(tmp_path, server=server) as editor:
            await editor.load_session(session, tmp_path)
            loaded, frames = log.bytes, len(editor.frames)
            assert list(log.results.items())[-1] == ("c5", "TOOL_OUTCOME_UNKNOWN")
            with pytest.raises(AssertionError, match="0 of 1 chat requests"):
                await server.wait_for_chats(1, timeout=QUIET_S)
            assert (server.requests, descendants(editor.pid)) == ([], [])
            assert (log.bytes, len(editor.frames)) == (loaded, frames)
            turn = editor.start_prompt(session, "Stop. What is the state?")
            request = await server.wait_for_chats(1)
            await editor.cancel(session)
            assert (await turn.result(timeout=2.0)).stop_reason == "cancelled"
        assert prompts(request) == ["Greet me better.", "Run it.", "Stop. What is the state?"]
        assert results(request)["c5"] == OUTCOME_UNKNOWN_TEXT
        await server.wait_for(request.disconnected)
    assert log.endings == ["completed", "interrupted", "aborted"]


async def test_prompts_that_waited_behind_a_killed_turn_are_kept_and_do_not_run_by_themselves(tmp_path: Path) -> None:
    """Field cases R2 and P10: nobody waits for them any more, but nothing a person typed is lost."""
    typed = ["Run it.", "Then test it.", "Then push it."]
    told = {"expect": [*typed, "TOOL_OUTCOME_UNKNOWN", "What is the state?"], "text": "I see."}
    marker = Marker(tmp_path / "marker")
    async with start_agent(tmp_path, screenplay=play(tmp_path, RUN), permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        for words in typed:
            editor.start_prompt(session, words)
        await marker.wait("here")
        log = StoredLog(tmp_path, session)
        await log.wait(lambda log: [len(data["inserted"]) for data in log.of("agent/inbox/spliced")].count(1) == 3)
        editor.kill()
        await editor.wait_exit()
    async with start_agent(tmp_path, screenplay=play(tmp_path, [], [], [], [told])) as editor:
        await editor.load_session(session, tmp_path)
        assert [m.text for m in editor.messages(session) if m.kind == "user_message_chunk"] == typed
        await editor.prompt(session, "What is the state?")
        assert editor.text(session) == "I see."
    assert log.endings == ["interrupted", "completed"]


async def test_loading_a_session_that_runs_a_tool_leaves_the_call_in_progress_and_undisturbed(tmp_path: Path) -> None:
    """Field case R4, its other edge: when the turn is really live, closing its calls is wrong."""
    marker = Marker(tmp_path / "marker")
    command = "printf here > marker; until [ -e go ]; do sleep 0.01; done; printf once >> effects"
    run = {"text": "I run it.", "calls": [call("c1", "run_command", {"command": command})]}
    screenplay = play(tmp_path, [run, text("It ran.")])
    async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Run it.")
        await marker.wait("here")
        for _ in range(2):
            since = len(editor.frames)
            await editor.load_session(session, tmp_path)
            assert editor.text(session, since) == "I run it."
            assert editor.tool_calls(session, since)["c1"].status == "in_progress"
        (tmp_path / "go").touch()
        assert (await turn.result()).stop_reason == "end_turn"
        assert editor.tool_calls(session, since)["c1"].status == "completed"
        assert editor.text(session, since) == "I run it.It ran."
    log = StoredLog(tmp_path, session)
    assert (log.endings, log.results, (tmp_path / "effects").read_text()) == (["completed"], {"c1": "ok"}, "once")


async def test_loading_a_session_that_asks_or_streams_goes_on_without_a_gap_or_a_repeat(tmp_path: Path) -> None:
    """Field case R4: a live question stays open and counts once, a live reply continues where the replay ended."""
    asking = {"calls": [call("c1", "run_command", {"command": "printf once >> effects"})]}
    screenplay = play(tmp_path, [asking, text("One ", "two ", {"wait_for_file": "go"}, "three ", "four")])
    answered = anyio.Event()
    async with start_agent(tmp_path, screenplay=screenplay, permissions=[held(answered, "allow_once")]) as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Count.")
        await editor.wait_for_permission()
        since = len(editor.frames)
        await editor.load_session(session, tmp_path)
        assert editor.tool_calls(session, since)["c1"].status == "pending"
        answered.set()
        await editor.wait_until(lambda: editor.text(session, since) == "One two ")
        since = len(editor.frames)
        await editor.load_session(session, tmp_path)
        assert editor.text(session, since) == "One two "
        (tmp_path / "go").touch()
        assert (await turn.result()).stop_reason == "end_turn"
        assert editor.text(session, since) == "One two three four"
    assert (StoredLog(tmp_path, session).endings, (tmp_path / "effects").read_text()) == (["completed"], "once")


async def test_a_prompt_in_the_same_write_as_the_load_waits_for_its_answer(tmp_path: Path) -> None:
    """Field case R6. Whatever the prompt brings, its own text included, is no part of the replay.

    The history is longer than pipe and buffer together, so the replay is waiting when the prompt is read.
    """
    calls = [call(f"c{number}", "no_such_tool", {}) for number in range(40)]
    long = {"text": "word " * 400_000, "calls": calls}
    screenplay = play(tmp_path, [long, text("No such tool.")], [{"expect": ["Talk.", "Go on."], "text": "Live."}])
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        session = await editor.new_session(tmp_path)
        await editor.prompt(session, "Talk.")
    log = StoredLog(tmp_path, session)
    stored = log.bytes
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        await editor.initialize()
        editor.pause_reading()
        await editor.send_raw(_load(session, tmp_path) + text_prompt("prompt", session, "Go on."))
        with pytest.raises(AssertionError, match="not on disk"):
            await log.wait(lambda log: log.bytes != stored, timeout=QUIET_S)
        editor.resume_reading()
        await editor.wait_for(lambda frame: frame.is_response and frame.id == "prompt")
        answered = _answer(editor.frames, "load")
        assert [update["content"]["text"] for update in editor.updates(session, answered)] == ["Live."]
        assert [m.text for m in editor.messages(session) if m.kind == "user_message_chunk"] == ["Talk."]
    assert log.endings == ["completed", "completed"]


async def test_a_cancel_in_the_same_write_as_load_and_prompt_cancels_that_prompt(tmp_path: Path) -> None:
    """Field cases P6 and R6: read order counts, also while the session is being loaded; a mode set there holds."""
    screenplay = play(tmp_path, [text("This is not said.")])
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        session = await editor.new_session(tmp_path)
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        await editor.initialize()
        mode = request("mode", "session/set_mode", sessionId=session, modeId="read-only")
        prompt = text_prompt("prompt", session, "Go on.")
        cancel = notification("session/cancel", sessionId=session)
        await editor.send_raw(_load(session, tmp_path) + mode + prompt + cancel)
        ids = {"load", "mode", "prompt"}
        await editor.wait_until(lambda: ids <= {frame.id for frame in editor.frames if frame.is_response})
        answers = {frame.id: mapping(frame.message).get("result") for frame in editor.frames if frame.is_response}
        assert (answers["mode"], answers["prompt"]) == ({}, {"stopReason": "cancelled"})
        response = await editor.load_session(session, tmp_path)
        assert response.modes is not None
        assert response.modes.current_mode_id == "read-only"
        assert editor.text(session) == ""
    assert StoredLog(tmp_path, session).of("turn/start") == []


def _load(session: str, folder: Path) -> bytes:
    return request("load", "session/load", sessionId=session, cwd=str(folder), mcpServers=[])

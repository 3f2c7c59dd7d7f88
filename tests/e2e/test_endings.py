"""However the agent is made to end, turns get their real endings on disk, commands go with it, and it is gone soon."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.e2e.asked import prompts
from tests.e2e.plays import call, play
from tests.e2e.relay import RELAY
from tests.e2e.stored import StoredLog
from tests.support.agent import AGENT, start_agent
from tests.support.buffers import Buffers
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.permissions import Answer, PermissionRequest
from tests.support.processes import ProcessRef, descendants, wait_gone
from tests.support.turns import Turn

pytestmark = pytest.mark.anyio

HELD = "# nobody answers"
POLL_S = 0.01  # nothing tells that a background process has started
PLAIN = "printf here > marker; sleep 300; touch late"
STUBBORN = f"trap '' TERM INT HUP; setsid sleep 300 & (sleep 300 &); {PLAIN}"


@dataclass(frozen=True)
class State:
    """What a session is doing when the end comes, and the codes of its call's result that tell the truth about it."""

    reply: Reply
    codes: tuple[str, ...] = ()
    mode: str = "ask"


def command(line: str) -> Reply:
    return Reply.tool("c1", "run_command", {"command": line})


STATES = {
    "idle": State(Reply.text("Bye.")),
    "waiting for the model": State(Reply.silence()),
    "streaming": State(Reply.text("One ", "two ", "three").gate(None, before=2)),
    "in a command": State(command(PLAIN), ("ABORTED",)),
    "in a stubborn command": State(command(STUBBORN), ("ABORTED",)),
    "in a stubborn command without sandbox": State(command(STUBBORN), ("ABORTED",), "full-access"),
    "asking": State(command("true " + HELD), ("ABORTED_BEFORE_DISPATCH",)),
    "reading from the editor": State(Reply.tool("c1", "read_file", {"path": "a"}), ("ABORTED", "error", "ok")),
}
ENDS: dict[str, Callable[[Editor], object]] = {
    "stdin closed": Editor.close_stdin,
    "SIGTERM": partial(Editor.terminate, number=signal.SIGTERM),
    "SIGINT": partial(Editor.terminate, number=signal.SIGINT),
    "SIGHUP": partial(Editor.terminate, number=signal.SIGHUP),
    "all of them at once": lambda editor: [end(editor) for end in list(ENDS.values())[:4]],
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
async def test_turns_end_for_real_and_nothing_is_left(tmp_path: Path, end: Callable[[Editor], object]) -> None:
    """Field cases L1 and L2, issue 2 item 6: in every state a session can be in, all in one process."""
    with OpenAIServer([], fallback=lambda request: STATES[prompts(request)[-1]].reply) as server:
        async with _agent(tmp_path, server, AGENT) as editor:
            sessions, turns = await _busy(editor, server, tmp_path)
            started = descendants(editor.pid)
            end(editor)
            assert await editor.wait_exit() == 0
            await wait_gone(started)
            for turn in turns.values():
                assert (await turn.result()).stop_reason == "cancelled"
            assert editor.stderr == ""
    _check(tmp_path, sessions)


async def test_a_killed_editor_takes_the_agent_and_its_commands_with_it(tmp_path: Path) -> None:
    """Field case L1: the client gets SIGKILL, so input ends and output breaks in one instant."""
    with OpenAIServer([], fallback=lambda request: STATES[prompts(request)[-1]].reply) as server:
        async with _agent(tmp_path, server, [*RELAY, *AGENT]) as editor:
            sessions, _ = await _busy(editor, server, tmp_path)
            started = descendants(editor.pid)
            editor.kill()
            await wait_gone(started)
    _check(tmp_path, sessions)


async def test_no_command_outlives_an_agent_that_is_killed(tmp_path: Path) -> None:
    """Field case T3, design §12: not one that left its session or its parent, or ignores signals, sandbox or not."""
    with OpenAIServer([], fallback=lambda request: STATES[prompts(request)[-1]].reply) as server:
        async with _agent(tmp_path, server, AGENT) as editor:
            await _busy(editor, server, tmp_path)
            started = await _sleeping(editor.pid, 7)
            editor.kill()
            await wait_gone(started)


async def _sleeping(pid: int, count: int) -> list[ProcessRef]:
    """All processes below `pid`, once as many as the commands start have begun to sleep."""
    with anyio.fail_after(5):
        while len([process for process in descendants(pid) if process.argv[:1] == ("sleep",)]) < count:
            await anyio.sleep(POLL_S)
    return descendants(pid)


async def test_an_agent_whose_output_nobody_reads_any_more_ends_when_it_next_writes(tmp_path: Path) -> None:
    """Field case L1: only stdout is closed, while the model streams; stdin stays open."""
    gate = threading.Event()
    replies = {name: state.reply for name, state in STATES.items()}
    replies["streaming"] = Reply.text("One ", "two ", "three").gate(gate, before=2).gate(None, before=3)
    with OpenAIServer([], fallback=lambda request: replies[prompts(request)[-1]]) as server:
        async with _agent(tmp_path, server, AGENT) as editor:
            sessions, _ = await _busy(editor, server, tmp_path)
            started = descendants(editor.pid)
            editor.close_stdout()
            gate.set()
            assert await editor.wait_exit() == 0
            await wait_gone(started)
    _check(tmp_path, sessions)


async def test_an_editor_that_does_not_read_cannot_hold_the_end_up(tmp_path: Path) -> None:
    """Field case L1: pipe and buffer are full of a stream that nobody takes, then stdin is closed."""
    flood = {"text": ["word " * 10_000] * 80}
    async with start_agent(tmp_path, screenplay=play(tmp_path, [flood]), check=False) as editor:
        session = await editor.new_session(tmp_path)
        editor.pause_reading()
        editor.start_prompt(session, "Talk.")
        log = StoredLog(tmp_path, session)
        await log.wait(lambda log: len(log.of("assistant/chunk")) > 20)
        editor.close_stdin()
        assert await editor.wait_exit() == 0
    # A line that nobody takes is given up where it is.
    assert [problem.partition(":")[0] for problem in editor.problems()] == ["stdout ended in the middle of a line"]
    assert (log.endings, log.of("assistant/message")[0]["interrupted"]) == (["aborted"], True)


async def test_an_agent_that_was_never_spoken_to_ends_with_its_input(tmp_path: Path) -> None:
    """Field case L1, before any request: status 0, and nothing was written anywhere."""
    async with start_agent(tmp_path) as editor:
        editor.close_stdin()
        assert await editor.wait_exit() == 0
    assert (editor.frames, editor.stderr, (tmp_path / "state").exists()) == ([], "", False)


async def test_what_ended_for_real_is_not_repaired_by_the_next_load(tmp_path: Path) -> None:
    """Field case L2, read from a new process: the lock is free, nothing is missing, nothing is appended."""
    screenplay = play(tmp_path, [{"calls": [call("c1", "run_command", {"command": PLAIN})]}])
    async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as editor:
        marker = Marker(tmp_path / "marker")
        session = await editor.new_session(tmp_path)
        editor.start_prompt(session, "Run it.")
        await marker.wait("here")
    log = StoredLog(tmp_path, session)
    stored = log.bytes
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        await editor.load_session(session, tmp_path)
        shown = editor.tool_calls(session)["c1"]
        assert (shown.status, "tool call aborted" in shown.text) == ("failed", True)
    assert log.bytes == stored


async def test_closing_a_session_in_a_command_shows_how_it_ended_and_the_session_loads_again(tmp_path: Path) -> None:
    """ACP: session/close. The other session of the process does not notice."""
    screenplay = play(tmp_path, [{"calls": [call("c1", "run_command", {"command": PLAIN})]}])
    async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as editor:
        sessions, turns = {}, {}
        for name in ("closed", "other"):
            folder = tmp_path / name
            folder.mkdir()
            marker = Marker(folder / "marker")
            sessions[name] = await editor.new_session(folder)
            before = descendants(editor.pid)
            turns[name] = editor.start_prompt(sessions[name], "Run it.")
            await marker.wait("here")
        session, log = sessions["closed"], StoredLog(tmp_path, sessions["closed"])
        await editor.agent.close_session(session)
        await wait_gone(before)
        assert (await turns["closed"].result()).stop_reason == "cancelled"
        assert editor.tool_calls(session)["c1"].status == "failed"
        stored = log.bytes
        assert (log.endings, log.results) == (["aborted"], {"c1": "ABORTED"})
        await editor.load_session(session, tmp_path / "closed")
        assert (log.bytes, turns["other"].ended.is_set()) == (stored, False)
        assert editor.tool_calls(sessions["other"])["c1"].status == "in_progress"


def _agent(tmp_path: Path, server: OpenAIServer, argv: list[str]) -> AbstractAsyncContextManager[Editor]:
    buffers = Buffers()
    buffers.read_style = "never"
    return start_agent(tmp_path, server=server, command=argv, permissions=_person, buffers=buffers)


def _person(request: PermissionRequest) -> Answer:
    return "never" if HELD in request.title else "allow_once"


async def _busy(editor: Editor, server: OpenAIServer, tmp_path: Path) -> tuple[dict[str, str], dict[str, Turn]]:
    """A session in each state, by the state's name, and the turns that run; the idle one has had its turn."""
    sessions: dict[str, str] = {}
    turns: dict[str, Turn] = {}
    for number, (name, state) in enumerate(STATES.items(), 1):
        folder = _folder(tmp_path, name)
        folder.mkdir()
        marker = Marker(folder / "marker")
        sessions[name] = await editor.new_session(folder)
        await editor.agent.set_session_mode(sessions[name], state.mode)
        turns[name] = editor.start_prompt(sessions[name], name)
        await server.wait_for_chats(number)
        await _reached(editor, sessions[name], name, marker)
    await turns.pop("idle").result()
    return sessions, turns


async def _reached(editor: Editor, session: str, name: str, marker: Marker) -> None:
    asked = {"asking": "session/request_permission", "reading from the editor": "fs/read_text_file"}
    if name == "streaming":
        await editor.wait_until(lambda: editor.text(session) == "One two ")
    elif "command" in name:
        await marker.wait("here")
    elif name in asked:
        await editor.wait_for(lambda frame: (frame.method, frame.session_id) == (asked[name], session))


def _folder(tmp_path: Path, name: str) -> Path:
    return tmp_path / name.replace(" ", "-")


def _check(tmp_path: Path, sessions: dict[str, str]) -> None:
    for name, session in sessions.items():
        log = StoredLog(tmp_path, session)
        ends = log.of("turn/end")
        assert (name, len(ends), log.events[-1]["type"]) == (name, 1, "turn/end")
        if name == "idle":
            assert log.endings == ["completed"]
            continue
        assert (name, ends[0]["reason"]) == (name, {"kind": "aborted", "reason": {"kind": "disposed"}})
        assert (name, log.events[-2]["type"]) == (name, "step/end")
        codes = STATES[name].codes
        assert (name, [code in codes for code in log.results.values()]) == (name, [True] * bool(codes))
        assert not (_folder(tmp_path, name) / "late").exists()
    kept = StoredLog(tmp_path, sessions["streaming"]).of("assistant/message")
    assert [(message["interrupted"], message["message"]["content"][0]["text"][:8]) for message in kept] == [
        (True, "One two ")
    ]

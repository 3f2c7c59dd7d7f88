"""SIGKILL around tool calls: each call is known to have ended, never started or unknown, and its effect counts once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from acp_bridge.session.repair import NOT_STARTED_TEXT, OUTCOME_UNKNOWN_TEXT
from tests.e2e.asked import calls, prompts, results
from tests.e2e.stopping_agent import STOPPING_AGENT
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.buffers import Buffers
from tests.support.editor import Editor
from tests.support.frames import Frame
from tests.support.markers import Marker
from tests.support.openai_server import Exchange, OpenAIServer, Reply
from tests.support.permissions import Answer, PermissionRequest
from tests.support.processes import descendants, wait_gone

pytestmark = pytest.mark.anyio

OK, UNKNOWN, UNSTARTED = "ok", "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"
TEXTS = {OK: "[exit code: 0]", UNKNOWN: OUTCOME_UNKNOWN_TEXT, UNSTARTED: NOT_STARTED_TEXT}
CALLS = ("c1", "c2", "c3")


def steps(*tools: tuple[str, dict[str, Any]]) -> Reply:
    first, second, third = (Reply.tool(id, name, args) for id, (name, args) in zip(CALLS, tools, strict=True))
    return first + second + third


def commands(*lines: str) -> Reply:
    return steps(*(("run_command", {"command": line}) for line in lines))


ONE, TWO, THREE = (f"printf {number} >> effects" for number in "123")
HERE = "printf here > marker; sleep 300"
HELD = "# nobody answers"
READS = steps(("read_file", {"path": "a"}), ("read_file", {"path": "b"}), ("run_command", {"command": THREE}))


@dataclass(frozen=True)
class Kill:
    """Three calls of one step and the point of the kill, then the fate of each call and what they have done.

    `until` says by what the test knows that the point is reached; for `stop` it is a point of the stopping agent.
    """

    reply: Reply
    fates: tuple[str, str, str]
    effects: str
    until: Literal["marker", "asked", "reading", "requested"] = "marker"
    stop: str = ""


KILLS = {
    "asked about the first": Kill(commands(ONE + HELD, TWO, THREE), (UNSTARTED, UNSTARTED, UNSTARTED), "", "asked"),
    "allowed and recorded": Kill(commands(ONE, TWO, THREE), (UNKNOWN, UNSTARTED, UNSTARTED), "", stop="call c1"),
    "before the first effect": Kill(commands(f"{HERE}; {ONE}", TWO, THREE), (UNKNOWN, UNSTARTED, UNSTARTED), ""),
    "after the second effect": Kill(commands(ONE, f"{TWO}; {HERE}", THREE), (OK, UNKNOWN, UNSTARTED), "12"),
    "after the second body": Kill(commands(ONE, TWO, THREE), (OK, UNKNOWN, UNSTARTED), "12", stop="done c2"),
    "asked about the third": Kill(commands(ONE, TWO, THREE + HELD), (OK, OK, UNSTARTED), "12", "asked"),
    "after the third effect": Kill(commands(ONE, TWO, f"{THREE}; {HERE}"), (OK, OK, UNKNOWN), "123"),
    "before the next step": Kill(commands(ONE, TWO, THREE), (OK, OK, OK), "123", stop="step 2"),
    "before the next request": Kill(commands(ONE, TWO, THREE), (OK, OK, OK), "123", stop="request 2"),
    "in the next request": Kill(commands(ONE, TWO, THREE), (OK, OK, OK), "123", "requested"),
    "in two reads at once": Kill(READS, (UNKNOWN, UNKNOWN, UNSTARTED), "", "reading"),
}


async def test_each_call_of_a_killed_step_has_exactly_the_fate_that_is_known(tmp_path: Path) -> None:
    """Field case R1, contracts §6. Nothing runs again by itself; the model's next request says what is known."""
    folders = {where: tmp_path / where.replace(" ", "-") for where in KILLS}
    sessions = await _killed(tmp_path, folders)
    assert _effects(folders) == {where: kill.effects for where, kill in KILLS.items()}
    with OpenAIServer([], fallback=Reply.text("I see.")) as server:
        async with start_agent(tmp_path, server=server) as editor:
            for where, session in sessions.items():
                await editor.load_session(session, folders[where])
            shown = {where: _shown(editor, session) for where, session in sessions.items()}
            assert shown == {where: _wanted(kill) for where, kill in KILLS.items()}
            assert (server.chats, editor.permissions.requests) == ([], [])
            for session in sessions.values():
                await editor.prompt(session, "Stop. What is the state?")
    for where, request in zip(KILLS, server.chats, strict=True):
        assert prompts(request) == [where, "Stop. What is the state?"]
        assert calls(request) == list(CALLS)
        told = [
            (where, id, TEXTS[fate] in results(request)[id]) for id, fate in zip(CALLS, KILLS[where].fates, strict=True)
        ]
        assert told == [(where, id, True) for id in CALLS]
    for where, session in sessions.items():
        log = StoredLog(tmp_path, session)
        assert (where, tuple(log.results.values())) == (where, KILLS[where].fates)
        assert (where, log.endings) == (where, ["interrupted", "completed"])
    assert _effects(folders) == {where: kill.effects for where, kill in KILLS.items()}


async def _killed(tmp_path: Path, folders: dict[str, Path]) -> dict[str, str]:
    """One session per kill, all at their points, then one SIGKILL. Commands that ran are gone with the agent."""
    sessions: dict[str, str] = {}
    with OpenAIServer([], fallback=_model) as server:
        async with _stopping_agent(tmp_path, server) as editor:
            for where, folder in folders.items():
                folder.mkdir()
                (folder / "stop").write_text(KILLS[where].stop)
                marker = Marker(folder / "marker")
                sessions[where] = await editor.new_session(folder)
                asked = len(server.chats)
                editor.start_prompt(sessions[where], where)
                if KILLS[where].until == "requested":
                    await server.wait_for_chats(asked + 2)
                await _reached(editor, marker, StoredLog(tmp_path, sessions[where]), KILLS[where])
            started = descendants(editor.pid)
            assert len([process for process in started if process.argv[:1] == ("sleep",)]) == 3
            editor.kill()
            await editor.wait_exit()
            await wait_gone(started)
    return sessions


def _stopping_agent(tmp_path: Path, server: OpenAIServer) -> AbstractAsyncContextManager[Editor]:
    buffers = Buffers()
    buffers.read_style = "never"
    return start_agent(tmp_path, server=server, command=STOPPING_AGENT, permissions=_person, buffers=buffers)


def _person(request: PermissionRequest) -> Answer:
    return "never" if HELD in request.tool_call["rawInput"]["command"] else "allow_once"


def _model(request: Exchange) -> Reply:
    return Reply.silence() if results(request) else KILLS[prompts(request)[-1]].reply


async def _reached(editor: Editor, marker: Marker, log: StoredLog, kill: Kill) -> None:
    if kill.until == "marker":
        await marker.wait(kill.stop or "here")
    elif kill.until == "asked":
        # An unanswered question is no barrier: it reaches the disk with the write-behind window.
        await log.wait(lambda log: len(log.of("approval/asked")) > len(log.of("approval/decided")))
    elif kill.until == "reading":
        await editor.wait_until(lambda: len(_reads(editor)) == 2)


def _reads(editor: Editor) -> list[Frame]:
    return [frame for frame in editor.frames if frame.method == "fs/read_text_file"]


def _shown(editor: Editor, session: str) -> list[tuple[str, str]]:
    """Id and status of each call in the editor, with the reason if it is shown."""
    found = []
    for id, call in editor.tool_calls(session).items():
        reasons = [fate for fate, text in TEXTS.items() if fate != OK and text in call.text]
        found.append((id, " ".join([call.status, *reasons])))
    return found


def _wanted(kill: Kill) -> list[tuple[str, str]]:
    fates = ["completed" if fate == OK else f"failed {fate}" for fate in kill.fates]
    return list(zip(CALLS, fates, strict=True))


def _effects(folders: dict[str, Path]) -> dict[str, str]:
    files = {where: folder / "effects" for where, folder in folders.items()}
    return {where: file.read_text() if file.exists() else "" for where, file in files.items()}

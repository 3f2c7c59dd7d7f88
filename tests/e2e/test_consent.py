"""No effect without a logged grant: per tool and mode, whatever a client answers that is no allow (field case A1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_bridge.approval.modes import MODES
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project, snapshot
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.permissions import Answer, PermissionRequest
from tests.support.processes import descendants
from tests.support.transcript import ToolCallView

pytestmark = pytest.mark.anyio

WIDER = {"sandbox_permissions": "danger-full-access", "justification": "It is needed."}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "create": ("write_file", {"path": "new/file", "content": "no\n"}),
    "replace": ("write_file", {"path": "kept", "content": "no\n"}),
    "edit": ("edit_file", {"path": "other", "old_text": "two", "new_text": "twoo"}),
    "run": ("run_command", {"command": "printf no > ran; rm kept"}),
    "run wider": ("run_command", {"command": "printf no > ../outside/ran", **WIDER}),
    "read outside": ("read_file", {"path": "../outside/secret"}),
    "list outside": ("list_files", {"path": "../outside"}),
    "search outside": ("search", {"pattern": "secret", "path": "../outside"}),
    "search everything": ("search", {"pattern": "the secret", "path": "/", "glob": "**/outside/secret"}),
}
OUTSIDE = ("run wider", "read outside", "list outside", "search outside", "search everything")
ASKS = {
    "ask": tuple(CALLS),
    "auto-edit": OUTSIDE,
    "read-only": ("run", *OUTSIDE),
}
# What a client can answer that is no allow, and what the log calls it.
ANSWERS: dict[Answer, str] = {
    "reject_once": "rejected",
    "reject_always": "rejected",
    "error": "unavailable",
    "request_cancelled": "unavailable",
    "no_option": "rejected",
    "unknown_option": "rejected",
    "unknown_outcome": "rejected",
    "null": "rejected",
}
TOLD = {
    "rejected": "Error: The user refused this call. Do not repeat it; ask or find another way.",
    "unavailable": "Error: This call needs the user's permission and nobody could be asked, so it did not run.",
    "cancelled": "Error: tool call aborted before dispatch",
}


def asking(*ids: str) -> dict[str, Any]:
    """One step that makes these calls."""
    return {"calls": [call(id, *CALLS[id]) for id in ids]}


async def _session(editor: Editor, folder: Path, mode: str) -> str:
    session = await editor.new_session(folder)
    await editor.agent.set_session_mode(session, mode)
    return session


def _outcomes(log: StoredLog) -> dict[str, list[str]]:
    """By call id: how each question about it was decided."""
    asked = {data["id"]: data["callId"] for data in log.of("approval/asked")}
    found: dict[str, list[str]] = {call_id: [] for call_id in asked.values()}
    for data in log.of("approval/decided"):
        found[asked[data["id"]]].append(data["outcome"])
    return found


def _started(log: StoredLog) -> list[str]:
    return [data["callId"] for data in log.of("tool/started")]


def _failed_readably(shown: ToolCallView, told: str) -> bool:
    return shown.status == "failed" and told in shown.text and "in_progress" not in shown.statuses


@pytest.mark.parametrize("mode", ASKS)
async def test_every_answer_but_an_allow_refuses_every_call_that_asks_and_the_turn_goes_on(
    tmp_path: Path, mode: str
) -> None:
    """Field case A1; editors rule 17. One session per answer, each with all calls that ask in this mode."""
    answers: dict[str, Answer] = {}
    steps = play(tmp_path, [asking(*ASKS[mode]), text("I see.")], [text("Here I am.")])

    def person(request: PermissionRequest) -> Answer:
        return answers[str(request.frame.session_id)]

    async with start_agent(tmp_path, screenplay=steps, permissions=person) as editor:
        for answer, outcome in ANSWERS.items():
            folder = project(tmp_path, answer)
            before = snapshot(folder.parent)
            session = await _session(editor, folder, mode)
            answers[session] = answer
            assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
            assert editor.text(session) == "I see."
            assert snapshot(folder.parent) == before
            log = StoredLog(tmp_path, session)
            assert (answer, _outcomes(log)) == (answer, {id: [outcome] for id in ASKS[mode]})
            assert (answer, _started(log)) == (answer, [])
            for id, shown in editor.tool_calls(session).items():
                assert _failed_readably(shown, TOLD[outcome]), (answer, id, shown)
            assert (await editor.prompt(session, "Go on.")).stop_reason == "end_turn"
        assert len(editor.permissions.requests) == len(ANSWERS) * len(ASKS[mode])


@pytest.mark.parametrize("mode", ASKS)
async def test_an_allow_is_in_the_log_before_the_call_starts_and_holds_for_that_call_only(
    tmp_path: Path, mode: str
) -> None:
    """Field case A1, the other side: the same calls, allowed, then made again, asked again and refused."""
    ids = [id for id in ASKS[mode] if id != "search everything"]  # allowed, it takes as long as the disk is large
    again = {"calls": [call(f"{id} again", *CALLS[id]) for id in ids]}
    steps = play(tmp_path, [asking(*ids), text("Done.")], [again, text("I see.")])
    folder = project(tmp_path, "one")

    def person(request: PermissionRequest) -> Answer:
        return "reject_once" if request.tool_call["toolCallId"].endswith("again") else "allow_once"

    async with start_agent(tmp_path, screenplay=steps, permissions=person) as editor:
        session = await _session(editor, folder, mode)
        assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
        after = snapshot(folder.parent)
        assert after["outside/ran"] == b"no"
        assert (await editor.prompt(session, "Do it again.")).stop_reason == "end_turn"
        assert snapshot(folder.parent) == after
    log = StoredLog(tmp_path, session)
    wanted = {id: ["allowed-once"] for id in ids} | {f"{id} again": ["rejected"] for id in ids}
    assert _outcomes(log) == wanted
    assert _started(log) == ids
    _granted_before_started(log)


def _granted_before_started(log: StoredLog) -> None:
    asked: dict[str, str] = {}
    granted: set[str] = set()
    for event in log.events:
        data = event["data"]
        if event["type"] == "approval/asked":
            asked[data["id"]] = data["callId"]
        elif event["type"] == "approval/decided" and data["outcome"] == "allowed-once":
            granted.add(asked[data["id"]])
        elif event["type"] == "tool/started":
            assert data["callId"] in granted


async def test_what_runs_without_a_question_runs_by_a_mode_that_the_log_names(tmp_path: Path) -> None:
    """Field case A1: no answer let it through, so the log must tell which rule did; here the mode, set before."""
    steps = play(tmp_path, [asking("create", "run"), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        for mode in ("auto-edit", "full-access"):
            folder = project(tmp_path, mode)
            session = await _session(editor, folder, mode)
            assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
            assert sorted(snapshot(folder)) == ["new/file", "other", "ran"]
            log = StoredLog(tmp_path, session)
            assert [data["preset"] for data in log.of("permission/preset")] == ["ask", mode]
            assert [data["mode"] for data in log.of("sandbox/mode")] == ["workspace-write", MODES[mode].sandbox]
            types = [event["type"] for event in log.events]
            last_mode = len(types) - 1 - types[::-1].index("sandbox/mode")
            assert last_mode < types.index("tool/started")
            assert log.of("approval/asked") == []
    assert editor.permissions.requests == []


async def test_a_question_that_is_never_answered_runs_nothing_and_a_cancel_ends_it(tmp_path: Path) -> None:
    """Field case A1, "never answers": each call in a turn of its own, cancelled while it is asked."""
    steps = play(tmp_path, *([asking(id)] for id in CALLS), [text("Here I am.")])
    folder = project(tmp_path, "one")
    before = snapshot(folder.parent)
    async with start_agent(tmp_path, screenplay=steps, permissions="never") as editor:
        session = await editor.new_session(folder)
        for number, id in enumerate(CALLS, 1):
            turn = editor.start_prompt(session, "Do it.")
            await editor.wait_for_permission(number)
            await editor.cancel(session, answer_pending=False)
            assert (await turn.result()).stop_reason == "cancelled"
            assert _failed_readably(editor.tool_calls(session)[id], TOLD["cancelled"])
        assert (await editor.prompt(session, "Go on.")).stop_reason == "end_turn"
    assert snapshot(folder.parent) == before
    log = StoredLog(tmp_path, session)
    assert _outcomes(log) == {id: ["cancelled"] for id in CALLS}
    assert _started(log) == []


@pytest.mark.parametrize("how", ["end of input", "closed output", "killed"])
async def test_a_client_that_goes_away_with_a_question_open_has_allowed_nothing(tmp_path: Path, how: str) -> None:
    """Field case A1, "closes": one session per call, all waiting at once. What was never answered is no refusal."""
    sessions: dict[str, str] = {}
    folders = {id: project(tmp_path, id.replace(" ", "-")) for id in CALLS}
    before = {id: snapshot(folder.parent) for id, folder in folders.items()}

    def model(request: Any) -> Reply:
        id = request.body["messages"][-2]["content"]
        return Reply.tool(id, *CALLS[id])

    with OpenAIServer([], fallback=model) as server:
        async with start_agent(tmp_path, server=server, permissions="never") as editor:
            for number, (id, folder) in enumerate(folders.items(), 1):
                sessions[id] = await editor.new_session(folder)
                editor.start_prompt(sessions[id], id)
                await editor.wait_for_permission(number)
            await _leave(editor, how)
            await editor.wait_exit()
            assert descendants(editor.pid) == []
    assert {id: snapshot(folder.parent) for id, folder in folders.items()} == before
    for id, session in sessions.items():
        log = StoredLog(tmp_path, session)
        assert _started(log) == []
        if how != "killed":
            assert (id, _outcomes(log)) == (id, {id: ["cancelled"]})
            assert log.results == {id: "ABORTED_BEFORE_DISPATCH"}
            assert log.of("turn/end")[0]["reason"] == {"kind": "aborted", "reason": {"kind": "disposed"}}


async def _leave(editor: Editor, how: str) -> None:
    if how == "killed":
        editor.kill()
    elif how == "end of input":
        editor.close_stdin()
    else:
        editor.close_stdout()
        # Only a write tells an agent that nobody reads any more.
        await editor.send({"jsonrpc": "2.0", "id": "list", "method": "session/list", "params": {}})

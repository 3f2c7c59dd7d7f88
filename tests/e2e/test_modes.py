"""Session modes by their effects: what each allows, asks and refuses; that they are kept; how they are set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.lines import answers_to, code_of, request, text_prompt
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.permissions import held

pytestmark = pytest.mark.anyio

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read_file", {"path": "kept"}),
    "read outside": ("read_file", {"path": "../outside/secret"}),
    "edit": ("edit_file", {"path": "kept", "old_text": "two", "new_text": "2"}),
    "write outside": ("write_file", {"path": "../outside/new", "content": "x"}),
    "run": ("run_command", {"command": "printf x > ran"}),
    "run outside": ("run_command", {"command": "printf x > ../outside/ran"}),
}
# Design §14. `asked`: an editor question, allowed here. `refused`: no question, no effect.
TABLE = {
    "read-only": {
        "read": "free", "read outside": "asked", "edit": "refused", "write outside": "refused",
        "run": "asked, then failed", "run outside": "asked, then failed",
    },
    "ask": {
        "read": "free", "read outside": "asked", "edit": "asked", "write outside": "refused",
        "run": "asked", "run outside": "asked, then failed",
    },
    "auto-edit": {
        "read": "free", "read outside": "asked", "edit": "free", "write outside": "refused",
        "run": "free", "run outside": "failed",
    },
    "full-access": {
        "read": "free", "read outside": "free", "edit": "free", "write outside": "free",
        "run": "free", "run outside": "free",
    },
}  # fmt: skip


@pytest.mark.parametrize("mode", TABLE)
async def test_each_mode_allows_asks_and_refuses_what_its_description_says(tmp_path: Path, mode: str) -> None:
    steps = play(tmp_path, [{"calls": [call(id, *made) for id, made in CALLS.items()]}, text("Done.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.agent.set_session_mode(session, mode)
        assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
        asked = {request.tool_call["toolCallId"] for request in editor.permissions.requests}
        shown = {id: view.status == "completed" for id, view in editor.tool_calls(session).items()}
    assert {id: _seen(id in asked, shown[id]) for id in CALLS} == {
        id: wanted if wanted != "failed" else "refused" for id, wanted in TABLE[mode].items()
    }
    assert (folder / "ran").exists() is shown["run"]
    assert ("2" in (folder / "kept").read_text()) is shown["edit"]
    assert (folder.parent / "outside" / "ran").exists() is shown["run outside"]
    assert (folder.parent / "outside" / "new").exists() is shown["write outside"]


def _seen(asked: bool, completed: bool) -> str:
    if completed:
        return "asked" if asked else "free"
    return "asked, then failed" if asked else "refused"


@pytest.mark.parametrize("mode", TABLE)
async def test_a_mode_is_announced_once_and_outlives_a_kill(tmp_path: Path, mode: str) -> None:
    """Field case A11: never wider, and never another, than at the crash."""
    steps = play(tmp_path, [{"calls": [call("edit", *CALLS["edit"])]}, text("Done.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(folder)
        await editor.agent.set_session_mode(session, mode)
        await _announced(editor, session, [mode] if mode != "ask" else [])
        editor.kill()
        await editor.wait_exit()
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        loaded = await editor.load_session(session, folder)
        assert loaded.modes is not None and loaded.modes.current_mode_id == mode
        assert {known.id for known in loaded.modes.available_modes} == set(TABLE)
        await editor.prompt(session, "Edit.")
        assert (len(editor.permissions.requests) == 1) is (mode == "ask")
    assert ("2" in (folder / "kept").read_text()) is (mode != "read-only")


async def _announced(editor: Editor, session: str, modes: list[str]) -> None:
    """Setting the mode that it has already changes nothing, so nothing is announced."""
    updates = editor.updates(session)
    found = [update["currentModeId"] for update in updates if update["sessionUpdate"] == "current_mode_update"]
    assert found == modes


async def test_an_unknown_mode_is_a_readable_error_and_changes_nothing(tmp_path: Path) -> None:
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")])) as editor:
        session = await editor.new_session(folder)
        for wrong in ("yolo", "", "ASK"):
            answer = await editor.request("session/set_mode", {"sessionId": session, "modeId": wrong})
            assert answer["error"]["code"] == -32602
            assert all(mode in str(answer["error"]) for mode in TABLE)
        loaded = await editor.request("session/set_mode", {"sessionId": "nobody", "modeId": "ask"})
        assert "error" in loaded
        await editor.prompt(session, "Hi.")
    assert [data["preset"] for data in StoredLog(tmp_path, session).of("permission/preset")] == ["ask"]


async def test_a_mode_that_is_set_while_a_question_is_open_counts_from_the_next_call(tmp_path: Path) -> None:
    """The open question stays the person's to answer; the call behind it is judged by the new mode."""
    second = ("edit_file", {"path": "other", "old_text": "two", "new_text": "2"})
    steps = play(tmp_path, [{"calls": [call("first", *CALLS["edit"]), call("second", *second)]}, text("Done.")])
    folder = project(tmp_path, "one")
    set_now = anyio.Event()
    async with start_agent(tmp_path, screenplay=steps, permissions=[held(set_now, "reject_once")]) as editor:
        session = await editor.new_session(folder)
        turn = editor.start_prompt(session, "Edit both.")
        await editor.wait_for_permission()
        await editor.send_raw(request("mode", "session/set_mode", sessionId=session, modeId="auto-edit"))
        await editor.wait_for(answers_to("mode"))
        set_now.set()
        assert (await turn.result()).stop_reason == "end_turn"
        assert len(editor.permissions.requests) == 1
    assert (folder / "kept").read_text() == "one\ntwo\n"
    assert (folder / "other").read_text() == "one\n2\n"


@pytest.mark.parametrize("killed", [False, True])
async def test_a_mode_that_is_set_while_a_command_runs_binds_the_call_behind_it_and_the_model_is_told(
    tmp_path: Path, killed: bool
) -> None:
    """What runs goes on as it was allowed. Field case A11 if the agent dies meanwhile."""
    running = call("running", "run_command", {"command": "printf here > marker; until [ -e go ]; do sleep 0.01; done"})
    later = {"calls": [call("run", *CALLS["run"])], "expect": ["Session mode: read-only."]}
    first = {"calls": [running, call("edit", *CALLS["edit"])]}
    steps = play(tmp_path, [first, later, text("I see.")], [later, text("I see.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.agent.set_session_mode(session, "full-access")
        turn = editor.start_prompt(session, "Do it.")
        await Marker(folder / "marker").wait("here")
        await editor.agent.set_session_mode(session, "read-only")
        await _announced(editor, session, ["full-access", "read-only"])
        if killed:
            editor.kill()
            await editor.wait_exit()
        else:
            (folder / "go").touch()
            assert (await turn.result()).stop_reason == "end_turn"
            _read_only(editor, session, {"running": "completed", "edit": "failed", "run": "failed"})
    if killed:
        async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
            loaded = await editor.load_session(session, folder)
            assert loaded.modes is not None and loaded.modes.current_mode_id == "read-only"
            assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
            _read_only(editor, session, {"running": "failed", "edit": "failed", "run": "failed"})
    assert (folder / "kept").read_text() == "one\ntwo\n"
    assert not (folder / "ran").exists()


def _read_only(editor: Editor, session: str, statuses: dict[str, str]) -> None:
    """The command was asked about, since it could run without write access; the edit was not."""
    assert [request.tool_call["toolCallId"] for request in editor.permissions.requests] == ["run"]
    assert {id: view.status for id, view in editor.tool_calls(session).items()} == statuses


async def test_a_prompt_sent_behind_a_mode_in_the_same_write_runs_in_that_mode(tmp_path: Path) -> None:
    """The answer to set_mode waits for the disk, the mode does not; of several the last one counts."""
    steps = play(tmp_path, [{"calls": [call(id, *CALLS[id]) for id in ("edit", "run outside")]}, text("Done.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_once"]) as editor:
        session = await editor.new_session(folder)
        modes = ("full-access", "ask", "read-only")
        wanted = [request(mode, "session/set_mode", sessionId=session, modeId=mode) for mode in modes]
        await editor.send_raw(b"".join(wanted) + text_prompt("p", session, "Do it."))
        for id in (*modes, "p"):
            await editor.wait_for(answers_to(id))
            assert code_of(editor.frames, id) is None
        await _announced(editor, session, list(modes))
        shown = editor.tool_calls(session)
        assert {id: view.status for id, view in shown.items()} == {"edit": "failed", "run outside": "failed"}
    assert (folder / "kept").read_text() == "one\ntwo\n"
    assert not (folder.parent / "outside" / "ran").exists()


async def test_each_session_has_its_own_mode_in_one_process_and_in_the_next(tmp_path: Path) -> None:
    steps = play(tmp_path, *([{"calls": [call(f"edit {n}", *CALLS["edit"])]}, text("Done.")] for n in (1, 2)))
    sessions: dict[str, str] = {}
    for process in (1, 2):
        async with start_agent(tmp_path, screenplay=steps, permissions="reject_once") as editor:
            for mode in TABLE:
                if process == 1:
                    sessions[mode] = await editor.new_session(project(tmp_path, mode))
                    await editor.agent.set_session_mode(sessions[mode], mode)
                else:
                    loaded = await editor.load_session(sessions[mode], tmp_path / mode / "project")
                    assert loaded.modes is not None and loaded.modes.current_mode_id == mode
            for mode, session in sessions.items():
                kept = tmp_path / mode / "project" / "kept"
                kept.write_text("one\ntwo\n")
                await editor.prompt(session, "Edit.")
                assert ("2" in kept.read_text()) is (TABLE[mode]["edit"] == "free"), mode
            assert [request.frame.session_id for request in editor.permissions.requests] == [sessions["ask"]]
            editor.kill()
            await editor.wait_exit()

"""A wider sandbox for one command: asked for with its reason, granted to that call alone, never without a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project, snapshot
from tests.support.agent import start_agent
from tests.support.permissions import Answer, PermissionRequest

pytestmark = pytest.mark.anyio

WIDER = {"sandbox_permissions": "danger-full-access", "justification": "It is needed."}
# By mode: the wider sandbox, and what a command gets from it that it does not get without.
WIDENED = {
    "read-only": ("workspace-write", "printf x >> ran", "project/ran"),
    "ask": ("danger-full-access", "printf x >> ../outside/ran", "outside/ran"),
    "auto-edit": ("danger-full-access", "printf x >> ../outside/ran", "outside/ran"),
}


@pytest.mark.parametrize("mode", WIDENED)
async def test_a_wider_sandbox_is_asked_for_each_time_and_leaves_nothing_behind_not_even_after_a_kill(
    tmp_path: Path, mode: str
) -> None:
    """Design §12: escalation is a question of its own; the same line without it is confined as before."""
    wider, command, effect = WIDENED[mode]
    more = {"sandbox_permissions": wider, "justification": "It is needed."}

    def both(number: int) -> dict[str, Any]:
        wide = call(f"wide {number}", "run_command", {"command": command, **more})
        return {"calls": [wide, call(f"narrow {number}", "run_command", {"command": command})]}

    steps = play(tmp_path, [both(1), text("Done.")], [both(2), text("I see.")])
    folder = project(tmp_path, "one")
    narrow = [] if mode == "auto-edit" else ["narrow"]

    def person(request: PermissionRequest) -> Answer:
        return "reject_once" if request.tool_call["toolCallId"] == "wide 2" else "allow_once"

    for number in (1, 2):
        async with start_agent(tmp_path, screenplay=steps, permissions=person) as editor:
            if number == 1:
                session = await editor.new_session(folder)
                await editor.agent.set_session_mode(session, mode)
            else:
                await editor.load_session(session, folder)
            assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
            asked = [request.tool_call["toolCallId"] for request in editor.permissions.requests]
            assert asked == [f"{kind} {number}" for kind in ("wide", *narrow)]
            question = str(editor.permissions.requests[0].tool_call["content"])
            assert wider in question and "It is needed." in question
            shown = {id: view.status for id, view in editor.tool_calls(session).items()}
            assert shown == {"wide 1": "completed", "narrow 1": "failed"} | (
                {} if number == 1 else {"wide 2": "failed", "narrow 2": "failed"}
            )
            assert snapshot(folder.parent)[effect] == b"x"
            editor.kill()
            await editor.wait_exit()


async def test_a_wider_sandbox_that_is_not_wider_or_has_no_reason_is_not_even_asked_for(tmp_path: Path) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "the same": {**WIDER, "sandbox_permissions": "workspace-write"},
        "narrower": {**WIDER, "sandbox_permissions": "read-only"},
        "unknown": {**WIDER, "sandbox_permissions": "all"},
        "no reason": {"sandbox_permissions": "danger-full-access"},
        "blank reason": {**WIDER, "justification": " \n"},
        "reason alone": {"justification": "It is needed."},
    }
    calls = [call(id, "run_command", {"command": "printf x > ran", **more}) for id, more in wrong.items()]
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=play(tmp_path, [{"calls": calls}, text("I see.")])) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
    assert StoredLog(tmp_path, session).results == dict.fromkeys(wrong, "INVALID_ARGS")
    assert not (folder / "ran").exists()

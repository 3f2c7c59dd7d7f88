"""A refusal is an answer to the model, not the end of the turn; "always" is kept in the log (field case A10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project, snapshot
from tests.support.agent import start_agent

pytestmark = pytest.mark.anyio

REFUSED = "The user refused this call."
EDIT = ("edit_file", {"path": "kept", "old_text": "two", "new_text": "2"})
RUN = ("run_command", {"command": "printf x >> effects"})
OTHER_RUN = ("run_command", {"command": "printf y >> effects"})


def calling(id: str, made: tuple[str, dict[str, Any]], **step: Any) -> dict[str, Any]:
    return {"calls": [call(id, *made)], **step}


async def test_after_a_refused_edit_the_model_is_told_and_can_correct_itself_in_the_same_turn(tmp_path: Path) -> None:
    better = ("edit_file", {"path": "kept", "old_text": "two", "new_text": "zwei"})
    told = {"expect": [REFUSED]}
    steps = play(tmp_path, [calling("bad", EDIT), calling("better", better, **told), text("Better so.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_once", "allow_once"]) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Translate.")).stop_reason == "end_turn"
        shown = editor.tool_calls(session)
        assert {id: view.status for id, view in shown.items()} == {"bad": "failed", "better": "completed"}
        assert REFUSED in shown["bad"].text
        assert editor.text(session) == "Better so."
    assert (folder / "kept").read_text() == "one\nzwei\n"


async def test_refused_for_ever_is_not_asked_again_even_after_a_kill_and_another_call_is(tmp_path: Path) -> None:
    again = {"calls": [call("same", *RUN), call("other", *OTHER_RUN)]}
    later = {"calls": [call("same later", *RUN), call("other later", *OTHER_RUN)]}
    steps = play(tmp_path, [calling("first", RUN), again, text("I see.")], [later, text("Still so.")])
    folder = project(tmp_path, "one")
    answers = ["reject_always", "allow_once"]
    async with start_agent(tmp_path, screenplay=steps, permissions=answers) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        assert [request.tool_call["toolCallId"] for request in editor.permissions.requests] == ["first", "other"]
        editor.kill()
        await editor.wait_exit()
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_once"]) as editor:
        await editor.load_session(session, folder)
        assert editor.permissions.requests == []
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        assert [request.tool_call["toolCallId"] for request in editor.permissions.requests] == ["other later"]
        told = "The user refused this very call for the rest of the session."
        assert told in editor.tool_calls(session)["same later"].text
    assert (folder / "effects").read_text() == "y"
    assert [data["callId"] for data in StoredLog(tmp_path, session).of("tool/started")] == ["other"]


async def test_a_rule_of_one_session_binds_no_other(tmp_path: Path) -> None:
    steps = play(tmp_path, [calling("c", RUN), text("I see.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_always", "allow_once"]) as editor:
        for _ in range(2):
            session = await editor.new_session(folder)
            assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
    assert (folder / "effects").read_text() == "x"


async def test_the_outcome_cancelled_without_a_session_cancel_ends_the_turn(tmp_path: Path) -> None:
    """The calls behind it are not asked about, and do not run."""
    both = {"calls": [call("asked", *EDIT), call("behind", *RUN)]}
    steps = play(tmp_path, [both, text("Never said.")], [{"expect": ["aborted before dispatch"], "text": "Here I am."}])
    folder = project(tmp_path, "one")
    before = snapshot(folder)
    async with start_agent(tmp_path, screenplay=steps, permissions=["cancelled"]) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Do both.")).stop_reason == "cancelled"
        assert editor.text(session) == ""
        assert {view.status for view in editor.tool_calls(session).values()} == {"failed"}
        assert snapshot(folder) == before
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
    assert StoredLog(tmp_path, session).results == dict.fromkeys(("asked", "behind"), "ABORTED_BEFORE_DISPATCH")


async def test_a_wider_sandbox_that_was_allowed_is_wider_for_that_one_call(tmp_path: Path) -> None:
    """Design §12: widening is asked for with its reason, and the next command is confined again."""
    wider = {"sandbox_permissions": "danger-full-access", "justification": "The outside needs it."}
    line = "printf x >> ../outside/effects"
    wide, narrow = ("run_command", {"command": line, **wider}), ("run_command", {"command": line})
    steps = play(tmp_path, [calling("wide", wide), calling("narrow", narrow), text("Done.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Write outside.")
        shown = editor.tool_calls(session)
        assert (shown["wide"].status, shown["narrow"].status) == ("completed", "failed")
        asked = [str(request.tool_call["content"]) for request in editor.permissions.requests]
        assert "run with sandbox danger-full-access: The outside needs it." in asked[0]
        assert "workspace-write" in asked[1]
    assert (folder.parent / "outside" / "effects").read_text() == "x"

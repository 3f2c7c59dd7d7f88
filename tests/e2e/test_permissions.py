"""Permission questions: how long an answer holds, for which call, and which answer it is (field cases A2, A10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lines import line, notification
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project, snapshot
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.permissions import Answer, PermissionRequest

pytestmark = pytest.mark.anyio

REFUSED = "The user refused this call."
REFUSED_FOR_GOOD = "The user refused this very call for the rest of the session."
WIDER = {"sandbox_permissions": "danger-full-access", "justification": "It is needed."}
# Each call, and one like it that is another call.
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "edit": ("edit_file", {"path": "kept", "old_text": "two", "new_text": "2"}, {"path": "other"}),
    "write": ("write_file", {"path": "new", "content": "\u00e9 / x\n"}, {"content": "\u00e9 / x"}),
    "run": ("run_command", {"command": "printf x >> ran"}, {"timeout_s": 7}),
    "wider": ("run_command", {"command": "printf x >> ../outside/ran", **WIDER}, {"justification": "Please."}),
    "read": ("read_file", {"path": "../outside/secret"}, {"limit": 1}),
}


def same(suffix: str, *ids: str, spelled: Any = dict) -> list[dict[str, Any]]:
    return [call(f"{id} {suffix}", KINDS[id][0], spelled(KINDS[id][1])) for id in ids or KINDS]


def alike(*ids: str) -> list[dict[str, Any]]:
    return [call(f"{id} alike", KINDS[id][0], {**KINDS[id][1], **KINDS[id][2]}) for id in ids or KINDS]


def _respelled(arguments: dict[str, Any]) -> str:
    """The same arguments, in another order and with other blanks and escapes."""
    return json.dumps(dict(reversed(arguments.items())), indent=2, ensure_ascii=True).replace("/", "\\/")


async def test_refused_for_good_holds_for_the_same_call_however_it_is_spelled_in_every_mode_and_after_a_kill(
    tmp_path: Path,
) -> None:
    """Field case A10, "reject_always, then the same call again": by tool; a call that differs in one thing is asked."""
    free = [id for id in KINDS if id != "wider"]  # nothing is wider than full access
    steps = play(
        tmp_path,
        [{"calls": same("first")}, {"calls": [*same("again"), *same("respelled", spelled=_respelled)]}, text("I see.")],
        [{"calls": [*same("in auto-edit"), *alike()]}, text("I see.")],
        [{"calls": [*same("in full-access", *free), *alike("edit")]}, text("I see.")],
    )
    folder = project(tmp_path, "one")
    before = snapshot(folder.parent)

    def person(request: PermissionRequest) -> Answer:
        return "reject_once" if request.tool_call["toolCallId"].endswith("alike") else "reject_always"

    async with start_agent(tmp_path, screenplay=steps, permissions=person) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Do it.")).stop_reason == "end_turn"
        assert _asked(editor) == [f"{id} first" for id in KINDS]
        for id in KINDS:
            assert REFUSED in _said(editor, session, f"{id} first")
            for suffix in ("again", "respelled"):
                assert REFUSED_FOR_GOOD in _said(editor, session, f"{id} {suffix}"), (id, suffix)
        editor.kill()
        await editor.wait_exit()
    assert snapshot(folder.parent) == before
    async with start_agent(tmp_path, screenplay=steps, permissions=person) as editor:
        await editor.load_session(session, folder)
        await editor.agent.set_session_mode(session, "auto-edit")
        await editor.prompt(session, "And now?")
        assert _asked(editor) == ["wider alike", "read alike"]
        await editor.agent.set_session_mode(session, "full-access")
        await editor.prompt(session, "And now?")
        for id in KINDS:
            assert REFUSED_FOR_GOOD in _said(editor, session, f"{id} in auto-edit")
        for id in free:
            assert REFUSED_FOR_GOOD in _said(editor, session, f"{id} in full-access")
    assert [data["callId"] for data in StoredLog(tmp_path, session).of("tool/started")] == [
        "edit alike", "write alike", "run alike",
    ]  # fmt: skip
    after = {"project/other": b"one\n2\n", "project/new": "\u00e9 / x".encode(), "project/ran": b"x"}
    assert snapshot(folder.parent) == before | after


def _asked(editor: Editor) -> list[str]:
    return [request.tool_call["toolCallId"] for request in editor.permissions.requests]


def _said(editor: Editor, session: str, id: str) -> str:
    shown = editor.tool_calls(session)[id]
    assert shown.status == "failed", id
    return shown.text


async def test_a_refusal_for_good_is_kept_though_the_agent_dies_in_the_middle_of_its_turn(tmp_path: Path) -> None:
    """Field case A10 with P1: the turn never ends, the next question of the same reply is open."""
    steps = play(
        tmp_path,
        [{"calls": [*same("first", "run"), *same("open", "edit")]}],
        [{"calls": [*same("later", "run"), *same("later", "edit")]}, text("I see.")],
    )
    folder = project(tmp_path, "one")
    before = snapshot(folder)
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_always", "never"]) as editor:
        session = await editor.new_session(folder)
        editor.start_prompt(session, "Do it.")
        await editor.wait_for_permission(2)
        await StoredLog(tmp_path, session).wait(lambda log: log.of("approval/rule"))
        editor.kill()
        await editor.wait_exit()
    async with start_agent(tmp_path, screenplay=steps, permissions=["reject_once"]) as editor:
        await editor.load_session(session, folder)
        assert editor.permissions.requests == []
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        assert _asked(editor) == ["edit later"]
        assert REFUSED_FOR_GOOD in _said(editor, session, "run later")
    assert snapshot(folder) == before


def _selected(option: Any, **more: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option, **more}}


# What else stands in an answer, or is nearly an answer. Only `allowed...` may run.
RESULTS: dict[str, Any] = {
    "refused with a text": {**_selected("reject-once"), "_meta": {"text": "Use another name."}},
    "refused with a text inside": _selected("reject-once", _meta={"feedback": "No."}, feedback="No."),
    "allowed with more": {**_selected("allow-once", _meta=None, more=[1]), "_meta": {"a": {}}},
    "allowed": _selected("allow-once"),
    "the kind for the id": _selected("allow_once"),
    "upper case": _selected("ALLOW-ONCE"),
    "with a blank": _selected("allow-once "),
    "always": _selected("allow-always"),
    "a list": _selected(["allow-once"]),
    "true": _selected(True),
    "a number": _selected(0),
    "flat": {"outcome": "selected", "optionId": "allow-once"},
    "no outcome": {"outcome": {"optionId": "allow-once"}},
    "another outcome": {"outcome": {"outcome": "allowed", "optionId": "allow-once"}},
    "empty": {},
    "text": "allow-once",
    "list": [_selected("allow-once")],
}


async def test_only_an_explicit_allow_runs_whatever_else_stands_in_the_answer(tmp_path: Path) -> None:
    """Field cases A1 and A10, "with and without text in `_meta`": one reply, one call per answer."""
    calls = [call(name, "write_file", {"path": name, "content": "x"}) for name in RESULTS]
    steps = play(tmp_path, [{"calls": calls}, {"expect": [REFUSED], "text": "I see."}])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions="never") as editor:
        session = await editor.new_session(folder)
        turn = editor.start_prompt(session, "Write them.")
        for number, (name, result) in enumerate(RESULTS.items(), 1):
            asked = await editor.wait_for_permission(number)
            assert asked.tool_call["toolCallId"] == name
            await editor.send({"jsonrpc": "2.0", "id": asked.frame.id, "result": result})
        assert (await turn.result()).stop_reason == "end_turn"
        assert editor.text(session) == "I see."
        for name in RESULTS:
            assert name.startswith("allowed") or REFUSED in _said(editor, session, name)
    assert sorted(set(snapshot(folder)) - {"kept", "other"}) == ["allowed", "allowed with more"]


async def test_the_first_answer_to_a_question_counts_and_answers_to_other_questions_are_none(tmp_path: Path) -> None:
    calls = [call(name, "write_file", {"path": name, "content": "x"}) for name in ("no", "yes")]
    steps = play(tmp_path, [{"calls": calls}, text("I see.")])
    folder = project(tmp_path, "one")
    async with start_agent(tmp_path, screenplay=steps, permissions="never") as editor:
        session = await editor.new_session(folder)
        turn = editor.start_prompt(session, "Write them.")
        first = await editor.wait_for_permission(1)
        for id in (str(first.frame.id), [first.frame.id], None, 10**6, True):
            await editor.send_raw(_answer(id, "allow-once"))
        await editor.send_raw(_answer(first.frame.id, "reject-once") + _answer(first.frame.id, "allow-once"))
        second = await editor.wait_for_permission(2)
        await editor.send_raw(_answer(first.frame.id, "reject-once") + _answer(second.frame.id, "allow-once"))
        assert (await turn.result()).stop_reason == "end_turn"
    assert sorted(snapshot(folder)) == ["kept", "other", "yes"]


def _answer(id: Any, option: str) -> bytes:
    return line({"jsonrpc": "2.0", "id": id, "result": _selected(option)})


@pytest.mark.parametrize("id", ["run", "edit", "wider"])
async def test_an_allow_that_comes_after_the_cancel_runs_nothing_and_answers_no_later_question(
    tmp_path: Path, id: str
) -> None:
    """Field case A2 (c): in the same write as the cancel, after the turn's end, and while the next turn asks."""
    calls = [{"calls": same(str(number), id)} for number in range(3)]
    steps = play(tmp_path, *([step, text("Never said.")] for step in calls[:2]), [calls[2], text("I see.")])
    folder = project(tmp_path, "one")
    before = snapshot(folder.parent)
    async with start_agent(tmp_path, screenplay=steps, permissions="never") as editor:
        session = await editor.new_session(folder)
        cancel = notification("session/cancel", sessionId=session)
        turn = editor.start_prompt(session, "Do it.")
        first = await editor.wait_for_permission(1)
        await editor.send_raw(cancel + _answer(first.frame.id, "allow-once"))
        assert (await turn.result()).stop_reason == "cancelled"
        turn = editor.start_prompt(session, "Do it.")
        second = await editor.wait_for_permission(2)
        await editor.send_raw(cancel)
        assert (await turn.result()).stop_reason == "cancelled"
        await editor.send_raw(_answer(second.frame.id, "allow-once"))
        turn = editor.start_prompt(session, "Do it.")
        third = await editor.wait_for_permission(3)
        late = _answer(first.frame.id, "allow-once") + _answer(second.frame.id, "reject-always")
        await editor.send_raw(late + _answer(third.frame.id, "reject-once"))
        assert (await turn.result()).stop_reason == "end_turn"
        assert editor.text(session) == "I see."
        assert REFUSED in _said(editor, session, f"{id} 2")
    assert snapshot(folder.parent) == before
    log = StoredLog(tmp_path, session)
    assert [data["outcome"] for data in log.of("approval/decided")] == ["cancelled", "cancelled", "rejected"]
    assert (log.of("tool/started"), log.of("approval/rule")) == ([], [])


async def test_an_allow_just_before_the_cancel_leaves_an_effect_only_if_the_log_says_that_it_started(
    tmp_path: Path,
) -> None:
    """Field case A2, the other order in one write: the turn ends as cancelled all the same."""
    steps = play(tmp_path, [{"calls": same("1", "edit")}, text("Never said.")])
    folder = project(tmp_path, "one")
    before = snapshot(folder)
    async with start_agent(tmp_path, screenplay=steps, permissions="never") as editor:
        session = await editor.new_session(folder)
        turn = editor.start_prompt(session, "Do it.")
        asked = await editor.wait_for_permission(1)
        cancel = notification("session/cancel", sessionId=session)
        await editor.send_raw(_answer(asked.frame.id, "allow-once") + cancel)
        assert (await turn.result()).stop_reason == "cancelled"
        completed = editor.tool_calls(session)["edit 1"].status == "completed"
    log = StoredLog(tmp_path, session)
    assert (snapshot(folder) != before) is completed is (log.results == {"edit 1": "ok"})
    assert not completed or log.of("tool/started")

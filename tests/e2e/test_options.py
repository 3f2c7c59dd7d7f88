"""Config options: the mode and model of a session, kept in its log and in step with the config (editors rule 18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import play, text
from tests.e2e.stored import StoredLog
from tests.e2e.test_hot_reload import Config
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.editor import Editor

pytestmark = pytest.mark.anyio


def models(tmp_path: Path, *names: str) -> dict[str, str]:
    """By name: the route of a screenplay whose every answer is that name."""
    turns = {name: [[text(name)] for _ in range(6)] for name in names}
    return {name: f"scripted/{play(tmp_path, *turns[name], name=f'{name}.json')}" for name in names}


def config(*routes: str) -> str:
    return f'model = "{routes[0]}"\nmodels = [{", ".join(f"{route!r}" for route in routes[1:])}]\n'


def option(options: list[dict[str, Any]], id: str) -> tuple[str, list[str]]:
    (found,) = [one for one in options if one["id"] == id]
    return found["currentValue"], [value["value"] for value in found["options"]]


async def _opened(editor: Editor, folder: Path, session: str | None = None) -> tuple[str, list[dict[str, Any]]]:
    await editor.initialize()
    params: dict[str, Any] = {"cwd": str(folder), "mcpServers": []}
    if session is None:
        result = (await editor.request("session/new", params))["result"]
        return result["sessionId"], result["configOptions"]
    result = (await editor.request("session/load", {**params, "sessionId": session}))["result"]
    return session, result["configOptions"]


async def _set(editor: Editor, session: str, id: str, value: Any) -> dict[str, Any]:
    params = {"sessionId": session, "configId": id, "value": value}
    return await editor.request("session/set_config_option", params)


async def _answer(editor: Editor, session: str) -> str:
    since = len(editor.frames)
    await editor.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Who?"}]})
    return editor.text(session, since)


async def test_a_chosen_model_answers_from_the_next_prompt_on_and_after_a_kill(tmp_path: Path) -> None:
    routes = models(tmp_path, "one", "two")
    settings = Config(tmp_path)
    settings.write(config(*routes.values()))
    folder = project(tmp_path, "p")
    async with start_agent(tmp_path, env=settings.env) as editor:
        session, options = await _opened(editor, folder)
        assert option(options, "model") == (routes["one"], list(routes.values()))
        assert await _answer(editor, session) == "one"
        options = (await _set(editor, session, "model", routes["two"]))["result"]["configOptions"]
        assert option(options, "model")[0] == routes["two"]
        editor.kill()
        await editor.wait_exit()
    async with start_agent(tmp_path, env=settings.env) as editor:
        _, options = await _opened(editor, folder, session)
        assert option(options, "model")[0] == routes["two"]
        assert await _answer(editor, session) == "two"
        other, options = await _opened(editor, folder)
        assert option(options, "model")[0] == routes["one"]
        assert await _answer(editor, other) == "one"


async def test_a_model_added_to_the_config_can_be_chosen_without_a_restart_and_one_that_went_falls_back(
    tmp_path: Path,
) -> None:
    routes = models(tmp_path, "one", "two")
    settings = Config(tmp_path)
    settings.write(config(routes["one"]))
    async with start_agent(tmp_path, env=settings.env) as editor:
        session, options = await _opened(editor, project(tmp_path, "p"))
        assert option(options, "model")[1] == [routes["one"]]
        assert await _answer(editor, session) == "one"
        settings.write(config(*routes.values()))
        await editor.wait_until(lambda: _offered(editor, session) == list(routes.values()), timeout=20)
        await _set(editor, session, "model", routes["two"])
        assert await _answer(editor, session) == "two"
        settings.write(config(routes["one"]))
        await editor.wait_until(lambda: _offered(editor, session) == [routes["one"]], timeout=20)
        assert option(_told(editor, session), "model")[0] == routes["one"]
        assert await _answer(editor, session) == "one"


def _offered(editor: Editor, session: str) -> list[str]:
    told = _told(editor, session)
    return option(told, "model")[1] if told else []


def _told(editor: Editor, session: str) -> list[dict[str, Any]]:
    updates = [one for one in editor.updates(session) if one["sessionUpdate"] == "config_option_update"]
    found: list[dict[str, Any]] = updates[-1]["configOptions"] if updates else []
    return found


async def test_the_mode_is_one_whichever_way_it_is_set(tmp_path: Path) -> None:
    """Some editors know only modes, some only options; both are told."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")])) as editor:
        session, options = await _opened(editor, project(tmp_path, "p"))
        assert option(options, "mode")[0] == "ask"
        await editor.request("session/set_mode", {"sessionId": session, "modeId": "auto-edit"})
        assert option(_told(editor, session), "mode")[0] == "auto-edit"
        options = (await _set(editor, session, "mode", "read-only"))["result"]["configOptions"]
        assert option(options, "mode")[0] == "read-only"
        modes = [one for one in editor.updates(session) if one["sessionUpdate"] == "current_mode_update"]
        assert [one["currentModeId"] for one in modes] == ["auto-edit", "read-only"]
    assert [data["preset"] for data in StoredLog(tmp_path, session).of("permission/preset")][-1] == "read-only"


@pytest.mark.parametrize(
    ("id", "value"),
    [("model", "scripted/nobody"), ("mode", "yolo"), ("thought", "deep"), ("mode", True), ("model", None)],
)
async def test_what_is_not_offered_is_refused_and_changes_nothing(tmp_path: Path, id: str, value: Any) -> None:
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")])) as editor:
        session, _ = await _opened(editor, project(tmp_path, "p"))
        assert (await _set(editor, session, id, value))["error"]["code"] == -32602
        assert await _answer(editor, session) == "Hi."
    log = StoredLog(tmp_path, session)
    assert log.of("session/model") == [] and len(log.of("permission/preset")) == 1

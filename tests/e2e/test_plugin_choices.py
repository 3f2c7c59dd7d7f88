"""What config.toml says of plugins, seen from the editor: tools come and go, and a mistake is told, not swallowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from acp import RequestError

from tests.e2e.plays import call, play, text
from tests.e2e.worlds import project
from tests.support.agent import start_agent

pytestmark = pytest.mark.anyio


def configured(tmp_path: Path, config: str) -> dict[str, str]:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.toml").write_text(config)
    return {"ACP_BRIDGE_CONFIG_DIR": str(folder)}


async def test_a_tool_whose_plugin_is_off_does_not_exist_and_the_others_do(tmp_path: Path) -> None:
    env = configured(tmp_path, "[plugins.tools_search]\nenabled = false\n")
    calls = [call("search", "search", {"pattern": "x"}), call("read", "read_file", {"path": "kept"})]
    steps = play(tmp_path, [{"calls": calls}, text("So.")])
    async with start_agent(tmp_path, screenplay=steps, env=env) as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        await editor.prompt(session, "Look.")
        shown = editor.tool_calls(session)
    assert (shown["search"].status, shown["read"].status) == ("failed", "completed")
    assert "there is no tool 'search'" in shown["search"].text


async def test_a_setting_of_a_plugin_reaches_it(tmp_path: Path) -> None:
    env = configured(tmp_path, "[plugins.tools_shell.settings]\ndefault_timeout_seconds = 1\n")
    steps = play(tmp_path, [{"calls": [call("run", "run_command", {"command": "sleep 300"})]}, text("So.")])
    async with start_agent(tmp_path, screenplay=steps, env=env, permissions="allow_once") as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        await editor.prompt(session, "Wait.")
        assert "for at most 1 s" in editor.tool_calls(session)["run"].text


MISTAKES = {
    "[plugins.permission_modes]\nenabled = false\n": "cannot be turned off",
    "[plugins.nobody]\n": "no plugin 'nobody'",
    "[plugins.tools_shell.settings]\nnetwork = 3\n": "plugins.tools_shell.settings.network",
}


@pytest.mark.parametrize("config", MISTAKES)
async def test_a_mistake_keeps_sessions_from_starting_and_says_where_it_is(tmp_path: Path, config: str) -> None:
    """Fail closed: rather no session than one without what the user asked for."""
    env = configured(tmp_path, config)
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")]), env=env) as editor:
        with pytest.raises(RequestError, match=r"config\.toml") as refused:
            await editor.new_session(project(tmp_path, "one"))
    assert MISTAKES[config] in str(refused.value)

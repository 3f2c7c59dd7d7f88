"""config.toml is followed while the agent runs: between turns, whole or not at all (design §4; contracts §10.7)."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.permissions import held

pytestmark = pytest.mark.anyio

SEARCH_OFF = "[plugins.tools_search]\nenabled = false\n"
FOLLOWED, NOT_FOLLOWED = "the changed settings are followed", "The changed settings are not followed"

WAITS = "The settings were changed. They count once no turn runs."


class Config:
    """The user's config.toml, and what the agent's diagnostics say of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "config" / "acp-bridge"
        self._log = tmp_path / "state" / "logs" / "agent.log"
        self.env = {"ACP_BRIDGE_CONFIG_DIR": str(self.folder)}

    def write(self, content: str) -> None:
        """As editors save: beside it, then in its place."""
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / "config.toml~"
        beside.write_text(content)
        os.replace(beside, self.folder / "config.toml")

    def said(self, what: str) -> int:
        return self._log.read_text().count(what) if self._log.exists() else 0

    async def wait(self, what: str, count: int = 1) -> None:
        with anyio.fail_after(20):
            while self.said(what) < count:
                await anyio.sleep(0.01)


def searching(id: str) -> list[dict[str, object]]:
    return [{"calls": [call(id, "search", {"pattern": "two"})]}, text("So.")]


async def _found(editor: Editor, session: str, id: str) -> bool:
    await editor.prompt(session, "Search.")
    return editor.tool_calls(session)[id].status == "completed"


async def test_a_tool_goes_and_comes_back_with_the_file_and_the_session_lives_on(tmp_path: Path) -> None:
    """The config directory does not even exist at first."""
    config = Config(tmp_path)
    steps = play(tmp_path, *(searching(f"s{number}") for number in range(4)))
    async with start_agent(tmp_path, screenplay=steps, env=config.env) as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        assert await _found(editor, session, "s0")
        config.write(SEARCH_OFF)
        await config.wait(FOLLOWED)
        assert not await _found(editor, session, "s1")
        config.write("")
        await config.wait(FOLLOWED, 2)
        assert await _found(editor, session, "s2")
        config.write(SEARCH_OFF)
        await config.wait(FOLLOWED, 3)
        os.unlink(config.folder / "config.toml")
        await config.wait(FOLLOWED, 4)
        assert await _found(editor, session, "s3")


@pytest.mark.parametrize("bad", ["[plugins.nobody]\n", "half = [", "[plugins.permission_modes]\nenabled = false\n"])
async def test_a_bad_file_changes_nothing_and_says_why_and_a_good_one_after_it_counts(tmp_path: Path, bad: str) -> None:
    config = Config(tmp_path)
    config.write(SEARCH_OFF)
    steps = play(tmp_path, *(searching(f"s{number}") for number in range(3)))
    async with start_agent(tmp_path, screenplay=steps, env=config.env) as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        assert not await _found(editor, session, "s0")
        config.write(bad)
        await config.wait(NOT_FOLLOWED)
        before = len(editor.frames)
        assert not await _found(editor, session, "s1")
        assert editor.text(session, before).startswith(f"*{NOT_FOLLOWED}: ")
        config.write("")
        await config.wait(FOLLOWED)
        before = len(editor.frames)
        assert await _found(editor, session, "s2")
        assert NOT_FOLLOWED not in editor.text(session, before)


async def test_a_mistake_at_the_start_is_mended_without_a_restart(tmp_path: Path) -> None:
    config = Config(tmp_path)
    config.write("[plugins.nobody]\n")
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")]), env=config.env) as editor:
        await editor.initialize()
        refused = await editor.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "no plugin 'nobody'" in refused["error"]["message"]
        config.write("")
        await config.wait(FOLLOWED)
        session = await editor.new_session(project(tmp_path, "one"))
        assert (await editor.prompt(session, "Hi.")).stop_reason == "end_turn"


async def test_a_running_turn_and_its_open_question_are_left_alone_until_they_end(tmp_path: Path) -> None:
    config = Config(tmp_path)
    run = call("run", "run_command", {"command": "printf here > marker; while [ ! -e go ]; do sleep 0.01; done"})
    edit = call("edit", "edit_file", {"path": "kept", "old_text": "two", "new_text": "2"})
    steps = play(tmp_path, [{"calls": [run, edit]}, text("Done.")], searching("s"))
    folder = project(tmp_path, "one")
    answered = anyio.Event()
    people = ["allow_once", held(answered, "allow_once")]
    async with start_agent(tmp_path, screenplay=steps, env=config.env, permissions=people) as editor:
        session = await editor.new_session(folder)
        turn = editor.start_prompt(session, "Both.")
        await Marker(folder / "marker").wait("here")
        config.write("[plugins.tools_shell]\nenabled = false\n[plugins.tools_files]\nenabled = false\n")
        await config.wait(WAITS)
        (folder / "go").touch()
        await editor.wait_for_permission(2)
        assert config.said(FOLLOWED) == 0
        answered.set()
        assert (await turn.result()).stop_reason == "end_turn"
        assert {view.status for view in editor.tool_calls(session).values()} == {"completed"}
        assert f"*{WAITS}*" in editor.text(session)
        await config.wait(FOLLOWED)
        assert await _found(editor, session, "s")
    assert (folder / "kept").read_text() == "one\n2\n"
    assert StoredLog(tmp_path, session).endings == ["completed", "completed"]


async def test_what_the_composite_is_made_of_counts_from_the_next_start(tmp_path: Path) -> None:
    config = Config(tmp_path)
    steps = play(tmp_path, [text("Hi.")], [text("Still here.")])
    async with start_agent(tmp_path, screenplay=steps, env=config.env) as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        await editor.prompt(session, "Hi.")
        config.write("[plugins.persistence_jsonl]\nenabled = false\n")
        await config.wait(NOT_FOLLOWED)
        assert (await editor.prompt(session, "Hi.")).stop_reason == "end_turn"


async def test_a_mistake_that_was_corrected_before_the_next_prompt_is_not_told(tmp_path: Path) -> None:
    config = Config(tmp_path)
    steps = play(tmp_path, [text("Hi.")], [text("Still here.")])
    async with start_agent(tmp_path, screenplay=steps, env=config.env) as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        await editor.prompt(session, "Hi.")
        config.write("half = [")
        await config.wait(NOT_FOLLOWED)
        config.write("")
        await config.wait(FOLLOWED)
        await editor.prompt(session, "Hi.")
        assert editor.text(session) == "Hi.Still here."


async def test_what_was_told_is_replayed(tmp_path: Path) -> None:
    config = Config(tmp_path)
    folder, steps = project(tmp_path, "one"), play(tmp_path, [text("Hi.")], [text("Still here.")])
    async with start_agent(tmp_path, screenplay=steps, env=config.env) as editor:
        session = await editor.new_session(folder)
        await editor.prompt(session, "Hi.")
        config.write("half = [")
        await config.wait(NOT_FOLLOWED)
        await editor.prompt(session, "Hi.")
        shown = editor.text(session)
        assert NOT_FOLLOWED in shown
    async with start_agent(tmp_path, screenplay=steps, env=config.env) as editor:
        await editor.load_session(session, folder)
        assert editor.text(session) == shown


@pytest.mark.parametrize("touch", [True, False])
async def test_the_end_does_not_wait_for_the_watch(tmp_path: Path, touch: bool) -> None:
    config = Config(tmp_path)
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Hi.")]), env=config.env) as editor:
        session = await editor.new_session(project(tmp_path, "one"))
        await editor.prompt(session, "Hi.")
        if touch:
            config.write(SEARCH_OFF)
            await config.wait(FOLLOWED)
        editor.close_stdin()
        assert await editor.wait_exit(2) == 0

"""The agent inside a program: what a prompt gives back, who is asked, and that every way out leaves a true log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.errors import (
    AuthRequired,
    InvalidParams,
    SessionAlreadyOwned,
    SessionClosed,
    SessionNotFound,
    SettingsError,
    UndoTimedOut,
)
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.session.check import check_log
from acp_bridge.session.codec import Vocabulary
from acp_bridge.session.events import ApprovalDecided, Event, PresetSet, TurnEnd
from acp_bridge_composition import order
from acp_bridge_composition.embedded import (
    EmbeddedAgent,
    Permission,
    Question,
    Result,
    Text,
    Thought,
    Told,
    ToolCall,
    open_agent,
)
from acp_bridge_composition.order import Entry
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog
from tests.e2e.plays import call, play, text
from tests.support.agent import agent_env
from tests.support.examples import blocks

pytestmark = pytest.mark.anyio

WRITE = call("w1", "write_file", {"path": "new.txt", "content": "hello\n"})


class World:
    """A project, a screenplay and a state directory of one test."""

    def __init__(self, folder: Path, *turns: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.state = folder / "state"
        self.told: list[Told] = []
        self.steps = play(folder, *turns)

    def open(self, **options: Any) -> AbstractAsyncContextManager[EmbeddedAgent]:
        chosen = {"cwd": self.project, "model": f"scripted/{self.steps}", "state_dir": self.state}
        environ = {"ACP_BRIDGE_CONFIG_DIR": str(self.folder / "config")}
        return open_agent(**{**chosen, "on_event": self.told.append, "environ": environ, **options})

    def log(self, session_id: str, state: Path | None = None) -> list[Event]:
        """What is on disk, checked."""
        _, events = Catalog((state or self.state) / "sessions", Vocabulary(), Silent()).read(session_id)
        assert check_log(events) == []
        return events

    def endings(self, session_id: str) -> list[str]:
        return [event.data.reason.kind for event in self.log(session_id) if isinstance(event.data, TurnEnd)]

    def decisions(self, session_id: str) -> list[str]:
        return [event.data.outcome for event in self.log(session_id) if isinstance(event.data, ApprovalDecided)]


async def yes(question: Question) -> bool:
    return True


async def test_a_prompt_gives_back_text_calls_and_session_and_streams_the_same(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [{"reasoning": "Hm.", "text": ["I write ", "it."], "calls": [WRITE]}, text("Done.")],
        [text("Again.")],
    )
    questions: list[Question] = []

    async def answer(question: Question) -> bool:
        questions.append(question)
        return True

    async with world.open(answer=answer) as agent:
        result = await agent.prompt("Write new.txt.")
        second = await agent.prompt("And again.")
        assert agent.mode == "ask"
        assert agent.cwd == str(world.project)
    assert (world.project / "new.txt").read_text() == "hello\n"
    (written,) = result.tool_calls
    assert result == Result(agent.session_id, "completed", "I write it.\n\nDone.", (written,))
    assert (written.call_id, written.name, written.status, written.code) == ("w1", "write_file", "completed", None)
    assert json.loads(written.arguments) == {"path": "new.txt", "content": "hello\n"}
    assert second == Result(agent.session_id, "completed", "Again.")
    (question,) = questions
    assert (question.session_id, question.tool) == (agent.session_id, "write_file")
    assert [(diff.path, diff.new_text) for diff in question.diffs] == [(f"{world.project}/new.txt", "hello\n")]
    told = world.told
    assert [piece.text for piece in told if isinstance(piece, Text)] == ["I write ", "it.", "Done.", "Again."]
    assert [piece.text for piece in told if isinstance(piece, Thought)] == ["Hm."]
    assert [piece.status for piece in told if isinstance(piece, ToolCall)] == ["pending", "in_progress", "completed"]
    assert [piece for piece in told if isinstance(piece, ToolCall)][-1] == written
    assert Permission("w1", "write_file", "allowed-once") in told
    assert world.endings(agent.session_id) == ["completed", "completed"]


async def test_without_anybody_to_ask_the_call_is_refused_and_the_log_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, [{"calls": [WRITE]}, text("I could not.")])
    async with world.open() as agent:
        result = await agent.prompt("Write.")
    assert (result.stop_reason, result.text) == ("completed", "I could not.")
    assert [(done.status, done.code) for done in result.tool_calls] == [("failed", None)]
    assert "nobody could be asked" in (result.tool_calls[0].text or "")
    assert list(world.project.iterdir()) == []
    assert world.decisions(agent.session_id) == ["unavailable"]


@pytest.mark.parametrize(("answered", "outcome"), [(False, "rejected"), ("yes", "rejected"), (1, "rejected")])
async def test_only_true_is_a_yes(tmp_path: Path, answered: Any, outcome: str) -> None:
    world = World(tmp_path, [{"calls": [WRITE]}, text("I see.")])

    async def answer(question: Question) -> bool:
        return answered  # type: ignore[no-any-return]  # what a careless program returns

    async with world.open(answer=answer) as agent:
        await agent.prompt("Write.")
    assert list(world.project.iterdir()) == []
    assert world.decisions(agent.session_id) == [outcome]


async def test_an_answerer_that_fails_is_a_no_and_the_turn_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, [{"calls": [WRITE]}, text("I see.")])

    async def answer(question: Question) -> bool:
        raise LookupError("no such person")

    async with world.open(answer=answer) as agent:
        assert (await agent.prompt("Write.")).stop_reason == "completed"
    assert list(world.project.iterdir()) == []
    assert world.decisions(agent.session_id) == ["unavailable"]


async def test_a_listener_that_fails_ends_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, [text("Fine.")])

    def on_event(told: Told) -> None:
        raise LookupError("a bug")

    async with world.open(on_event=on_event) as agent:
        assert (await agent.prompt("Go.")).text == "Fine."


async def test_a_resumed_session_goes_on_in_its_folder_and_its_mode(tmp_path: Path) -> None:
    world = World(tmp_path, [text("One.")], [{"expect": "One.", "calls": [WRITE]}, text("Two.")])
    async with world.open(mode="auto-edit") as agent:
        await agent.prompt("First.")
    async with world.open(resume=agent.session_id, cwd=None) as resumed:
        assert (resumed.session_id, resumed.cwd, resumed.mode) == (agent.session_id, str(world.project), "auto-edit")
        assert (await resumed.prompt("Second.")).text == "Two."
    assert (world.project / "new.txt").exists()
    async with world.open(resume=agent.session_id, mode="read-only") as narrower:
        assert narrower.mode == "read-only"
    presets = [event.data.preset for event in world.log(agent.session_id) if isinstance(event.data, PresetSet)]
    assert presets == ["auto-edit", "read-only"]


async def test_a_session_whose_process_was_killed_is_repaired_before_it_goes_on(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [{"calls": [WRITE]}, {"wait_for_file": "never", "text": "x"}],
        [{"expect": "You were gone.", "text": "So I was."}],
    )
    crashed = tmp_path / "crashed"
    asked = anyio.Event()

    async def answer(question: Question) -> bool:
        # What a process that is killed here leaves on disk: the call is logged, its question is open.
        shutil.copytree(world.state, crashed)
        asked.set()
        return False

    async with world.open(answer=answer) as agent, anyio.create_task_group() as tasks:
        tasks.start_soon(agent.prompt, "Write.")
        with anyio.fail_after(5):
            await asked.wait()
        tasks.cancel_scope.cancel()
    async with world.open(resume=agent.session_id, state_dir=crashed) as resumed:
        assert [event.data.reason.kind for event in _turn_ends(world, agent.session_id, crashed)] == ["interrupted"]
        result = await resumed.prompt("You were gone.")
    assert (result.stop_reason, result.text, result.tool_calls) == ("completed", "So I was.", ())
    assert list(world.project.iterdir()) == []


def _turn_ends(world: World, session_id: str, state: Path) -> list[Event]:
    return [event for event in world.log(session_id, state) if isinstance(event.data, TurnEnd)]


async def test_leaving_the_block_in_the_middle_of_a_turn_stores_its_real_ending(tmp_path: Path) -> None:
    world = World(tmp_path, [text("Half ", {"wait_for_file": "never"}, "whole.")])
    results: list[Result] = []
    started = anyio.Event()

    async def prompting(agent: EmbeddedAgent) -> None:
        results.append(await agent.prompt("Go."))

    async with anyio.create_task_group() as tasks, world.open(on_event=lambda told: started.set()) as agent:
        tasks.start_soon(prompting, agent)
        with anyio.fail_after(5):
            await started.wait()
    assert [(result.stop_reason, result.text) for result in results] == [("cancelled", "Half ")]
    assert world.endings(agent.session_id) == ["aborted"]
    with pytest.raises(SessionClosed):
        await agent.prompt("Still there?")


async def test_cancelling_the_caller_or_the_agent_ends_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    never = text("Half ", {"wait_for_file": "never"})
    world = World(tmp_path, [never], [never], [text("Here I am.")])
    scope = anyio.CancelScope()
    async with world.open(on_event=lambda told: scope.cancel()) as agent:
        with scope:
            await agent.prompt("One.")
        assert scope.cancelled_caught
        assert world.endings(agent.session_id) == ["aborted"]
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(5):
                tasks.start_soon(agent.prompt, "Two.")
                await anyio.wait_all_tasks_blocked()
            agent.cancel()
        assert (await agent.prompt("Three.")).text == "Here I am."
    assert world.endings(agent.session_id) == ["aborted", "aborted", "completed"]


async def test_a_failed_turn_is_a_result_and_a_cut_off_one_says_so(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [{"text": "I ", "failure": {"message": "The server is on fire.", "code": "SERVER"}}],
        [{"text": "Long", "finish": "max-tokens"}],
        [{"text": "No.", "finish": "refusal"}],
    )
    async with world.open() as agent:
        failed = await agent.prompt("One.")
        assert (failed.stop_reason, failed.error, failed.code) == ("error", "The server is on fire.", "SERVER")
        assert [(await agent.prompt(words)).stop_reason for words in ("Two.", "Three.")] == ["max-tokens", "refusal"]


async def test_two_prompts_at_once_run_one_after_the_other_and_each_gets_its_own_result(tmp_path: Path) -> None:
    world = World(tmp_path, [text("One.")], [text("Two.")])
    found: dict[str, str] = {}

    async def ask(agent: EmbeddedAgent, words: str) -> None:
        found[words] = (await agent.prompt(words)).text

    async with world.open() as agent, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, agent, "first")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask, agent, "second")
    assert found == {"first": "One.", "second": "Two."}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"model": None}, AuthRequired, "No model is configured"),
        ({"model": "gpt"}, SettingsError, "expected provider/model"),
        ({"model": "nobody/x"}, AuthRequired, "No adapter serves the provider 'nobody'"),
        ({"mode": "yolo"}, InvalidParams, "There is no mode 'yolo'"),
        ({"cwd": "/no/such/folder"}, InvalidParams, "not an existing directory"),
        ({"resume": "no-such-session"}, SessionNotFound, "no-such-session"),
    ],
)
async def test_what_cannot_be_opened_raises_its_reason_and_leaves_nothing(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    world = World(tmp_path, [text("Never.")])
    with pytest.raises(error, match=words):
        async with world.open(**options):
            raise AssertionError("it opened")
    assert not list(world.state.glob("sessions/*/*/session.v*"))


async def test_a_session_in_use_is_refused_and_its_owner_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, [text("One.")], [text("Two.")])
    async with world.open() as agent:
        await agent.prompt("First.")
        with pytest.raises(SessionAlreadyOwned):
            async with world.open(resume=agent.session_id):
                raise AssertionError("it opened")
        assert (await agent.prompt("Second.")).text == "Two."


async def test_an_empty_prompt_is_refused_before_anything_is_logged(tmp_path: Path) -> None:
    world = World(tmp_path, [text("Never.")])
    async with world.open() as agent:
        with pytest.raises(InvalidParams, match="empty"):
            await agent.prompt(" \n")


async def test_what_the_block_raises_comes_out_as_it_is(tmp_path: Path) -> None:
    world = World(tmp_path, [text("One.")])
    session: list[str] = []

    async def failing() -> None:
        async with world.open() as agent:
            session.append((await agent.prompt("First.")).session_id)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await failing()
    assert world.endings(session[0]) == ["completed"]


def test_the_example_of_the_page_works_as_shown(tmp_path: Path) -> None:
    write = call("w1", "write_file", {"path": "hello.txt", "content": "Hi.\n"})
    first = [{"text": "I write the file.", "calls": [write]}, text("Done.")]
    steps = play(tmp_path, first, [text("I wrote hello.txt.")])
    project = tmp_path / "project"
    project.mkdir()
    (program,), (shown,) = blocks("embedding.md", "python"), blocks("embedding.md", "text")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=agent_env(tmp_path, ACP_BRIDGE_MODEL=f"scripted/{steps}"),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (shown, "", 0)
    assert (project / "hello.txt").read_text() == "Hi.\n"


class Stubborn:
    """Its undo ends only when it is cut off."""

    name = "stubborn"
    needs: tuple[ServiceKey[Any], ...] = ()

    async def mount(self, context: Context) -> None:
        await context.effect("hold", self._holding())

    @asynccontextmanager
    async def _holding(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await anyio.sleep_forever()


async def test_a_plugin_that_hangs_at_the_end_is_cut_off_after_what_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Entry("stubborn", "hangs", lambda shop, own: Stubborn())
    monkeypatch.setattr(order, "PLUGINS", (*order.PLUGINS, hanging))
    world = World(tmp_path, [text("Hi.")])
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("undo_seconds = 1.0\n")
    with pytest.raises(BaseExceptionGroup) as raised:
        async with world.open() as agent:
            await agent.prompt("Hi.")
    late = raised.value.subgroup(UndoTimedOut)
    assert late is not None
    assert "0.8" in str(_first(late))
    assert world.endings(agent.session_id) == ["completed"]


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner

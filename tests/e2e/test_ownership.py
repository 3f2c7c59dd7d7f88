"""One writer per session across processes: the loser is told who has it, and what is left behind is free at once."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from acp import RequestError

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.processes import descendants, fds

pytestmark = pytest.mark.anyio

RUN = [{"calls": [call("c1", "run_command", {"command": "printf here > marker; sleep 300"})]}]


async def _in_a_command(editor: Editor, folder: Path) -> str:
    marker = Marker(folder / "marker")
    session = await editor.new_session(folder)
    editor.start_prompt(session, "Run it.")
    await marker.wait("here")
    return session


async def _refusal(editor: Editor, session: str, folder: Path) -> str:
    since = len(editor.frames)
    with pytest.raises(RequestError) as caught:
        await editor.load_session(session, folder)
    assert editor.updates(session, since) == []
    return str(caught.value)


async def test_a_session_in_use_is_refused_at_load_and_its_owner_does_not_notice(tmp_path: Path) -> None:
    """Field case D6: the old process lives on headless. Who holds it is said at load, not at the next prompt."""
    async with (
        start_agent(tmp_path, screenplay=play(tmp_path, RUN), permissions="allow_once") as owner,
        start_agent(tmp_path, screenplay=play(tmp_path, [text("Yours.")], name="other.json")) as other,
    ):
        session = await _in_a_command(owner, tmp_path)
        stored, frames = StoredLog(tmp_path, session).bytes, len(owner.frames)
        refusal = await _refusal(other, session, tmp_path)
        assert f"is in use by process {owner.pid} for test-editor since 20" in refusal
        listed = await other.agent.list_sessions()
        assert [info.session_id for info in listed.sessions] == [session]
        assert (await other.prompt(await other.new_session(tmp_path), "Yours?")).stop_reason == "end_turn"
        assert (StoredLog(tmp_path, session).bytes, len(owner.frames)) == (stored, frames)
        assert owner.tool_calls(session)["c1"].status == "in_progress"


async def test_a_killed_owner_leaves_its_session_free_at_once(tmp_path: Path) -> None:
    """Field case D6, last sentence. No child of the owner holds the lock on."""
    told = [{"expect": ["TOOL_OUTCOME_UNKNOWN", "What is the state?"], "text": "I see."}]
    screenplay = play(tmp_path, RUN, told)
    async with start_agent(tmp_path, screenplay=screenplay) as other:
        await other.initialize()
        async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as owner:
            session = await _in_a_command(owner, tmp_path)
            lock = str(StoredLog(tmp_path, session).path.with_name("session.lock"))
            assert lock in fds(owner.pid).values()
            assert not [child for child in descendants(owner.pid) if lock in fds(child.pid).values()]
            owner.kill()
            await owner.wait_exit()
            await other.load_session(session, tmp_path)
        await other.prompt(session, "What is the state?")
    assert StoredLog(tmp_path, session).endings == ["interrupted", "completed"]


async def test_an_owner_that_ends_writes_its_ending_before_anybody_else_can_write(tmp_path: Path) -> None:
    """Field case D5: two agents overlap, the old one gets SIGTERM late. No sequence number is given twice."""
    screenplay = play(tmp_path, RUN, [text("I see.")])
    async with start_agent(tmp_path, screenplay=screenplay) as other:
        await other.initialize()
        async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as owner:
            session = await _in_a_command(owner, tmp_path)
            assert "is in use by process" in await _refusal(other, session, tmp_path)
            owner.terminate()
            await _loaded_when_free(other, session, tmp_path)
            assert await owner.wait_exit() == 0
        await other.prompt(session, "What is the state?")
    log = StoredLog(tmp_path, session)
    assert (log.endings, log.results) == (["aborted", "completed"], {"c1": "ABORTED"})
    assert [event["seq"] for event in log.events] == list(range(len(log.events)))


async def _loaded_when_free(editor: Editor, session: str, folder: Path) -> None:
    """Ask again and again, so that a load meets the owner at any moment of its end."""
    with anyio.fail_after(5):
        while True:
            try:
                await editor.load_session(session, folder)
            except RequestError as error:
                if "is in use by" not in str(error):
                    raise
            else:
                return


async def test_closing_a_session_gives_it_free_while_the_process_lives_on(tmp_path: Path) -> None:
    """ACP: session/close. A session that holds nothing yet leaves no trace and is unknown elsewhere."""
    screenplay = play(tmp_path, [text("Mine.")])
    async with (
        start_agent(tmp_path, screenplay=screenplay) as owner,
        start_agent(tmp_path, screenplay=screenplay) as other,
    ):
        session = await owner.new_session(tmp_path)
        assert "Session not found" in await _refusal(other, session, tmp_path)
        await owner.prompt(session, "Hello?")
        assert f"process {owner.pid}" in await _refusal(other, session, tmp_path)
        await owner.agent.close_session(session)
        await other.load_session(session, tmp_path)
        assert other.text(session) == "Mine."
        assert f"process {other.pid}" in await _refusal(owner, session, tmp_path)

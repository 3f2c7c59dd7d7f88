"""Field case D8: a disk that takes no more stops what would run ahead of the log, says so, and loses nothing."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from acp import RequestError

from tests.e2e.asked import prompts
from tests.e2e.disks import Disk, disk_below
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply

pytestmark = pytest.mark.anyio

USER = "user_message_chunk"
RAN = {"command": "touch ran"}
CALL, PLAIN = "Say something and run it.", "Say something."


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    with disk_below(tmp_path / "state", request.param) as disk:
        yield disk


def bulky(text: str) -> str:
    """More than any half full page still takes, and not to be compressed."""
    return f"{text} {secrets.token_hex(10_000)}"


async def _refused(editor: Editor, session: str, text: str, disk: Disk, so: str) -> None:
    """The prompt fails in words that a person understands without knowing the agent."""
    with pytest.raises(RequestError) as caught:
        await editor.prompt(session, text)
    sentence = f"The session log could not be written ({disk.reason}), so {so}. "
    assert (caught.value.code, str(caught.value)[: len(sentence)]) == (-32603, sentence)
    assert caught.value.data == {"details": str(caught.value)}


@pytest.mark.parametrize("disk", ["tmpfs", "limit"], indirect=True)
async def test_a_full_disk_stops_request_and_tool_and_the_session_goes_on_when_there_is_space(
    tmp_path: Path, disk: Disk
) -> None:
    """At each barrier: before a model request, before a tool, and at the end of a turn. Then a kill, and no gap."""
    with OpenAIServer([Reply.text("One.")]) as server:
        async with start_agent(tmp_path, server=server, permissions="allow_once") as editor:
            session = await editor.new_session(tmp_path)
            await editor.prompt(session, "One?")
            two = await _full_before_the_request(editor, session, server, disk)
            await _full_while_streaming(editor, session, server, disk, Reply.tool("c1", "run_command", RAN))
            assert not (tmp_path / "ran").exists()
            assert editor.tool_calls(session)["c1"].status == "failed"
            await _full_while_streaming(editor, session, server, disk, Reply())
            server.add(Reply.text("Last."))
            await editor.prompt(session, "Last?")
            seen = editor.messages(session)
            editor.kill()
            await editor.wait_exit()
        log = StoredLog(tmp_path, session)
        stored = log.bytes
        assert [event["seq"] for event in log.events] == list(range(len(log.events)))
        assert log.endings == ["completed", "error", "completed", "error", "completed", "completed"]
        async with start_agent(tmp_path, server=server) as editor:
            await editor.load_session(session, tmp_path)
            shown = editor.messages(session)
            assert [m.text for m in shown if m.kind == USER] == ["One?", two, "Three?", CALL, PLAIN, "Last?"]
            assert [m for m in shown if m.kind != USER] == seen
            assert editor.tool_calls(session)["c1"].status == "failed"
        assert log.bytes == stored


async def _full_before_the_request(editor: Editor, session: str, server: OpenAIServer, disk: Disk) -> str:
    """The refused prompt's text; the model hears it with the next."""
    disk.fill(editor)
    text = bulky("Two?")
    await _refused(editor, session, text, disk, "nothing was started")
    assert len(server.chats) == 1
    disk.free(editor)
    server.add(Reply.text("Three."))
    await editor.prompt(session, "Three?")
    assert prompts(server.chats[1]) == ["One?", text, "Three?"]
    return text


async def _full_while_streaming(editor: Editor, session: str, server: OpenAIServer, disk: Disk, call: Reply) -> None:
    """The disk is full when the reply ends, with a call or without."""
    gate, asked = threading.Event(), len(server.chats)
    server.add((Reply.text(bulky("Reply."), "end") + call).gate(gate, before=0))

    async def fill() -> None:
        await server.wait_for_chats(asked + 1)
        disk.fill(editor)
        gate.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fill)
        text, so = (CALL, "nothing was started") if call.parts else (PLAIN, "the end of this turn is not saved yet")
        await _refused(editor, session, text, disk, so)
    assert len(server.chats) == asked + 1
    disk.free(editor)


@pytest.mark.parametrize("disk", ["tmpfs", "read-only", "limit"], indirect=True)
async def test_a_session_whose_first_prompt_found_no_space_is_stored_whole_by_the_next(
    tmp_path: Path, disk: Disk
) -> None:
    """Nothing half published lies in the way, and the refused prompt is not forgotten."""
    with OpenAIServer([Reply.text("Here.")]) as server:
        async with start_agent(tmp_path, server=server) as editor:
            session = await editor.new_session(tmp_path)
            disk.fill(editor)
            first = bulky("Hello?")
            await _refused(editor, session, first, disk, "nothing was started")
            assert (server.requests, StoredLog(tmp_path, session).events) == ([], [])
            disk.free(editor)
            await editor.prompt(session, "Hello again?")
            assert prompts(server.chats[0]) == [first, "Hello again?"]
            editor.kill()
            await editor.wait_exit()
    assert StoredLog(tmp_path, session).endings == ["error", "completed"]


@pytest.mark.parametrize("disk", ["read-only", "limit"], indirect=True)
async def test_a_crashed_session_is_not_loaded_while_its_closing_events_cannot_be_stored(
    tmp_path: Path, disk: Disk
) -> None:
    """Shown and then lost would be a lie; the load says what is wrong, and works when there is space."""
    marker = Marker(tmp_path / "marker")
    run = call("c1", "run_command", {"command": "printf here > marker; sleep 300"})
    screenplay = play(tmp_path, [{"calls": [run]}])
    async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        editor.start_prompt(session, "Run it.")
        await marker.wait("here")
        editor.kill()
        await editor.wait_exit()
    log = StoredLog(tmp_path, session)
    killed = log.bytes
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        await editor.initialize()
        disk.fill(editor)
        with pytest.raises(RequestError) as caught:
            await editor.load_session(session, tmp_path)
        assert f"could not be written ({disk.reason}), so it was not loaded" in str(caught.value)
        assert (editor.updates(session), log.bytes) == ([], killed)
        disk.free(editor)
        await editor.load_session(session, tmp_path)
        assert (log.results, log.endings) == ({"c1": "TOOL_OUTCOME_UNKNOWN"}, ["interrupted"])


async def test_a_deleted_session_directory_stops_that_session_and_no_other(tmp_path: Path) -> None:
    """Field case D8, last of its tries. What was deleted does not come back as a half log."""
    screenplay = play(tmp_path, [text("One.")], [text("This is not said.")])
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        session, other = await editor.new_session(tmp_path), await editor.new_session(tmp_path)
        await editor.prompt(session, "One?")
        folder = StoredLog(tmp_path, session).path.parent
        shutil.rmtree(folder)
        for _ in range(2):
            with pytest.raises(RequestError, match="deleted or moved"):
                await editor.prompt(session, "Go on.")
        await editor.prompt(other, "One?")
        assert (editor.text(session), editor.text(other), folder.exists()) == ("One.", "One.", False)
        # What cannot be saved any more makes an end by itself a failed one, as it should; that is not tested here.
        editor.kill()
        await editor.wait_exit()
    assert StoredLog(tmp_path, other).endings == ["completed"]

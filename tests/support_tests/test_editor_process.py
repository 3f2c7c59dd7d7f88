"""The editor against an agent that breaks rules, dies or stays: everything is found, nothing outlives the test."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import editor as editor_module
from tests.support.buffers import Buffers
from tests.support.editor import Editor, client_capabilities
from tests.support.permissions import held
from tests.support.processes import descendants, find, wait_gone

pytestmark = pytest.mark.anyio

RAW_AGENT = [sys.executable, "-S", "-E", str(Path(__file__).with_name("raw_agent.py"))]
Start = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def start(env: dict[str, str] | None = None, **options: Any) -> AbstractAsyncContextManager[Editor]:
        return Editor.start(RAW_AGENT, env={"PATH": os.environ["PATH"]} | (env or {}), cwd=tmp_path, **options)

    return start


async def drive(opened: AbstractAsyncContextManager[Editor], word: str, cwd: Path) -> None:
    """One prompt that must be answered, and everything the agent says after it until the next answer."""
    async with opened as editor:
        session = await editor.new_session(cwd)
        await editor.prompt(session, word)
        if word != "stay":
            await editor.prompt(session, "again")


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("late", "rule 3: agent_message_chunk outside a turn"),
        ("print", "rule 4: stdout carried a line that is not a JSON object"),
        ("leak", "stdout stayed open after the agent had ended: a child holds it"),
        ("stay", "the agent was still there 0.2 s after stdin was closed"),
    ],
)
async def test_what_an_agent_must_not_do_fails_the_test(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, problem: str
) -> None:
    monkeypatch.setattr(editor_module, "EXIT_S", 0.2 if word == "stay" else 5.0)
    with pytest.raises(AssertionError, match=problem):
        await drive(start(), word, tmp_path)


async def test_a_status_other_than_0_after_stdin_was_closed_fails_the_test(start: Start, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with status 7"):
        await drive(start(env={"EXIT_STATUS": "7"}), "hello", tmp_path)


async def test_a_line_cut_short_is_a_problem_unless_the_agent_was_killed(start: Start, tmp_path: Path) -> None:
    async with start(check=False) as editor:
        turn = editor.start_prompt(await editor.new_session(tmp_path), "torn")
        with pytest.raises(ConnectionError):
            await turn.result()
        await editor.wait_exit()
        assert "stdout ended in the middle of a line" in editor.problems()[0]


async def test_a_read_that_was_not_offered_is_a_problem(start: Start, tmp_path: Path) -> None:
    async with start(check=False, capabilities=client_capabilities(read=False)) as editor:
        await editor.new_session(tmp_path)
        await editor.send({"jsonrpc": "2.0", "method": "_read", "params": {"path": str(tmp_path)}})
        await editor.wait_for(lambda frame: frame.method == "fs/read_text_file")
        assert "rule 7: fs/read_text_file was called" in editor.problems()[0]


async def test_odd_clients_can_be_played_down_to_a_null_result(start: Start, tmp_path: Path) -> None:
    buffers = Buffers()
    buffers.read_style = "null"
    async with start(buffers=buffers) as editor:
        await editor.new_session(tmp_path)
        await editor.send({"jsonrpc": "2.0", "method": "_read", "params": {"path": str(tmp_path)}})
        answer = await editor.wait_until(
            lambda: next((frame for frame in editor.frames if frame.sender == "client" and frame.is_response), None)
        )
        assert answer.message == {"jsonrpc": "2.0", "id": 0, "result": None}


async def test_a_withdrawn_question_is_answered_with_the_error_that_good_clients_send(
    start: Start, tmp_path: Path
) -> None:
    options = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
    call = {"toolCallId": "t1", "title": "Edit"}
    async with start(check=False, permissions=held(anyio.Event(), "allow_once")) as editor:
        session = await editor.new_session(tmp_path)
        params = {"sessionId": session, "toolCall": call, "options": options}
        await editor.send({"jsonrpc": "2.0", "method": "_ask", "params": params})
        answer = await editor.wait_until(
            lambda: next((frame for frame in editor.frames if frame.sender == "client" and frame.is_response), None)
        )
        assert (answer.message or {})["error"]["code"] == -32800


async def test_a_killed_agent_ends_its_turn_with_a_connection_error(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        turn = editor.start_prompt(await editor.new_session(tmp_path), "never")
        await editor.wait_for(lambda frame: frame.kind == "agent_message_chunk")
        editor.kill()
        assert await editor.wait_exit() == -signal.SIGKILL
        with pytest.raises(ConnectionError):
            await turn.result()


async def test_a_signal_is_no_reason_to_expect_status_0(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        await editor.new_session(tmp_path)
        editor.terminate()
        assert await editor.wait_exit() == -signal.SIGTERM


async def test_waiting_for_what_cannot_come_any_more_fails_at_once_with_the_last_words(
    start: Start, tmp_path: Path
) -> None:
    async with start(check=False) as editor:
        editor.start_prompt(await editor.new_session(tmp_path), "leave")
        with anyio.fail_after(5), pytest.raises(AssertionError, match="last words"):
            await editor.wait_for(lambda frame: frame.method == "never", timeout=60)
        assert await editor.wait_exit() == 3


async def test_waiting_in_vain_is_bounded_and_shows_the_last_frames(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        await editor.new_session(tmp_path)
        with pytest.raises(AssertionError, match="session/new"):
            await editor.wait_for(lambda frame: frame.method == "never", timeout=0.05)


async def test_the_bodys_own_failure_comes_out_bare_with_the_evidence_as_a_note(start: Start, tmp_path: Path) -> None:
    async def fail() -> None:
        async with start() as editor:
            await editor.prompt(await editor.new_session(tmp_path), "late")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await fail()
    assert "rule 3: agent_message_chunk outside a turn" in caught.value.__notes__[0]


async def test_what_the_agent_started_is_gone_after_the_test(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        await editor.prompt(await editor.new_session(tmp_path), "fork")
        (left,) = descendants(editor.pid)
        assert left == find(left.pid)
        assert left.argv == ("sleep", "60")
    await wait_gone([left])


async def test_a_paused_reader_fills_the_pipe_and_gets_everything_once_it_reads_again(
    start: Start, tmp_path: Path
) -> None:
    async with start() as editor:
        session = await editor.new_session(tmp_path)
        editor.pause_reading()
        turn = editor.start_prompt(session, "flood")
        with anyio.move_on_after(0.2):
            await turn.ended.wait()
        assert not turn.ended.is_set()
        editor.resume_reading()
        await turn.result()
        assert len(editor.text(session)) == 1_000_000


async def test_a_request_written_byte_by_byte_is_recorded_as_one_line(start: Start, tmp_path: Path) -> None:
    async with start() as editor:
        for byte in b'{"jsonrpc":"2.0","id":"x","method":"initialize","params":{}}\n':
            await editor.send_raw(bytes([byte]))
        answer = await editor.wait_for(lambda frame: frame.id == "x")
        assert answer.message == {"jsonrpc": "2.0", "id": "x", "result": {"protocolVersion": 1}}
        assert len(editor.frames) == 2


async def test_a_closed_stdout_gives_the_agent_a_broken_pipe(start: Start, tmp_path: Path) -> None:
    async with start(check=False) as editor:
        session = await editor.new_session(tmp_path)
        editor.close_stdout()
        turn = editor.start_prompt(session, "hello")
        assert await editor.wait_exit() != 0
        with pytest.raises(ConnectionError):
            await turn.result()
        assert "BrokenPipeError" in editor.stderr

"""Lines of any size up to the cap, in any pieces; over the cap only that one request fails (field case P1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.wire.jsonrpc import LINE_CAP
from tests.e2e.lines import answers_to, code_of, request, text_prompt
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.buffers import Buffers
from tests.support.editor import Editor
from tests.support.processes import rss_bytes
from tests.support.schema import mapping

pytestmark = pytest.mark.anyio

END = "the end of it"
PARSE = -32700
MEMORY_BYTES = 120 * 1024 * 1024  # after the line is gone; the line itself has half of that


def padded(data: bytes, size: int) -> bytes:
    """The JSON object in `data`, made `size` bytes long without its newline by a member that nobody reads."""
    head = data.rstrip(b"\n").removesuffix(b"}") + b',"padding":"'
    return head + b"x" * (size - len(head) - 2) + b'"}'


def _line_of(size: int, session: str) -> bytes:
    """A prompt of exactly `size` bytes that ends in END."""
    short = len(text_prompt("p", session, END)) - 1
    return text_prompt("p", session, "x" * (size - short) + END)


async def _answer(editor: Editor, id: str, since: int) -> dict[str, Any]:
    frame = await editor.wait_for(answers_to(id), since=since)
    return mapping(frame.message)


async def test_a_reply_to_a_file_read_of_2_mb_is_one_line_like_any_other(tmp_path: Path) -> None:
    """Field case P1, where it began: a reader stopped at 64 KiB. The text is unsaved, so only the reply has it."""
    lines = [f"line {number} {'x' * 60}\n" for number in range(30_000)]
    (tmp_path / "big.txt").write_text("saved\n")
    buffers = Buffers({str(tmp_path / "big.txt"): "".join(lines) + END})
    reads = {"calls": [call("c1", "read_file", {"path": "big.txt", "line": 30_001})]}
    steps = play(tmp_path, [reads, {"expect": END, "text": "Read."}], [text("Still here.")])
    async with start_agent(tmp_path, screenplay=steps, buffers=buffers) as editor:
        session = await editor.new_session(tmp_path)
        assert (await editor.prompt(session, "Read it.")).stop_reason == "end_turn"
        assert max(len(frame.raw) for frame in editor.frames if frame.sender == "client") > 2_000_000
        assert editor.text(session) == "Read."
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"


async def test_prompts_around_64_kib_arrive_whole(tmp_path: Path) -> None:
    """Field case P1: 65,535, 65,536 and 65,537 bytes, with and without counting the newline."""
    sizes = (65_534, 65_535, 65_536, 65_537)
    steps = play(tmp_path, *([{"expect": END, "text": "Got it."}] for _ in sizes))
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        for size in sizes:
            data = _line_of(size, session)
            assert len(data) == size + 1
            since = len(editor.frames)
            await editor.send_raw(data)
            assert (await _answer(editor, "p", since))["result"] == {"stopReason": "end_turn"}
        assert editor.text(session) == "Got it." * len(sizes)


async def test_a_line_may_arrive_byte_by_byte_and_two_lines_in_one_write(tmp_path: Path) -> None:
    """Field case P1: a slow sender, also one that stops in the middle of a character."""
    steps = play(tmp_path, [{"expect": "Grüße 🦀", "text": "Hello."}], [text("Again.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        block = [{"type": "text", "text": "Grüße 🦀"}]
        message = {"jsonrpc": "2.0", "id": "p", "method": "session/prompt"}
        params = {"sessionId": session, "prompt": block}
        data = json.dumps(message | {"params": params}, ensure_ascii=False).encode() + b"\n"
        for byte in data:
            await editor.send_raw(bytes([byte]))
        assert (await _answer(editor, "p", 0))["result"] == {"stopReason": "end_turn"}
        since = len(editor.frames)
        await editor.send_raw(request("a", "session/list") + request("b", "session/list"))
        assert "result" in await _answer(editor, "a", since)
        assert "result" in await _answer(editor, "b", since)
        assert editor.text(session) == "Hello."


async def test_a_resource_of_20_mb_reaches_the_model_whole_and_is_kept(tmp_path: Path) -> None:
    """Field case P1: an embedded resource, which three editors send without being asked whether it is welcome."""
    steps = play(tmp_path, [{"expect": END, "text": "A long one."}])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        resource = {"uri": f"file://{tmp_path}/long.txt", "text": "wörter " * 3_000_000 + END}
        prompt = [{"type": "text", "text": "What is it?"}, {"type": "resource", "resource": resource}]
        response = await editor.request("session/prompt", {"sessionId": session, "prompt": prompt})
        assert response["result"] == {"stopReason": "end_turn"}
        assert editor.text(session) == "A long one."
    kept = [message["content"][0]["text"] for message in StoredLog(tmp_path, session).of("user/message")]
    assert any(resource["text"] in text for text in kept)


async def test_over_64_mib_only_that_request_fails(tmp_path: Path) -> None:
    """Field case P1 and bad input: the cap is exact, a turn that runs meanwhile goes on, memory is freed."""
    steps = play(tmp_path, [text("One ", {"wait_for_file": "go"}, "two.")], [text("Again.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(tmp_path)
        turn = editor.start_prompt(session, "Count.")
        await editor.wait_until(lambda: editor.text(session) == "One ")
        await editor.send_raw(padded(request("fits", "session/list"), LINE_CAP) + b"\n")
        over = padded(text_prompt("over", session, "Too long."), LINE_CAP + 1024 * 1024)
        await editor.send_raw(over + b"\n" + request("next", "session/list"))
        assert "result" in await _answer(editor, "next", 0)
        assert code_of(editor.frames, "fits") is None
        assert code_of(editor.frames, "over") == PARSE
        assert f"{LINE_CAP} bytes" in (await _answer(editor, "over", 0))["error"]["message"]
        (tmp_path / "go").touch()
        assert (await turn.result()).stop_reason == "end_turn"
        assert (await editor.prompt(session, "Again?")).stop_reason == "end_turn"
        assert editor.text(session) == "One two.Again."
        assert rss_bytes(editor.pid) < MEMORY_BYTES

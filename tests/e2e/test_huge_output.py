"""Field case T1: whatever a call prints, what is sent, logged, told to the model and held in memory is capped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.bridge.show import SHOWN_CHARACTERS
from acp_bridge_plugins.tools_shell.output import LIMIT
from tests.e2e import asked
from tests.e2e.huge import BESIDES, ESCAPED, MIB, WIRE, check_readable, check_size, results, warm
from tests.e2e.plays import call, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.processes import descendants, wait_for_descendant, wait_gone

pytestmark = pytest.mark.anyio

# A tenth of the characters may be unreadable (tools_shell/output.py); each is shown as one character of three bytes.
COMMAND_RESULT = LIMIT * 5 // 4
# Two pipes are read in blocks of 1 MiB (tools_shell/process.py); the rest is the interpreter's own coming and going.
COMMAND_PEAK = 6 * MIB


@dataclass(frozen=True)
class Output:
    """A command and what the model must see of it, among others: the start, what is left out, the end.

    Of those the first and the last must be seen in the editor, too.
    """

    command: str
    parts: tuple[str, ...]


LINES = ("1\n2\n3\n", " bytes left out]\n", "\n499999\n500000\n[exit code: 0]")
OUTPUTS = {
    "half a million lines": Output("seq 500000", LINES),
    "one line of 50 MB": Output(
        "printf start; head -c 50000000 /dev/zero | tr '\\0' x; printf stop",
        ("startxxx", "xxx\n[", " bytes left out]\nxxx", "xxxstop\n[exit code: 0]"),
    ),
    "on stderr only": Output("seq 500000 >&2", ("[stderr]\n1\n2\n3\n", *LINES[1:])),
    "on both": Output(
        "seq 500000 >&2 & seq 500000; wait", ("1\n2\n3\n", " bytes left out]\n", "\n500000\n[stderr]\n1\n2\n", LINES[2])
    ),
    "beside a background process that never stops": Output(
        "mkfifo go; yes | { head -c 5000000; echo > go; exec cat; } & read < go; seq 500000 >&2",
        ("y\ny\n", " bytes left out]\ny\n", "\n[stderr]\n1\n2\n", *LINES[1:]),
    ),
    "characters of four bytes": Output(
        "yes 🦀 | head -n 500000 | tr -d '\\n'", ("🦀🦀🦀\n[", " bytes left out]\n🦀🦀🦀", "🦀🦀🦀\n[exit code: 0]")
    ),
    "every byte": Output("cat bytes", ("[10240000 bytes that are not text]\n[exit code: 0]",)),
    "every byte between words": Output("cat mixed", ("word 1: <", " bytes left out]\n", "word 99999: <", "[exit code")),
    "an escape sequence that never ends": Output(
        "printf 'Title: \\033]0;title\\n'; seq 500000", ("Title: \n1\n2\n", *LINES[1:])
    ),
    "a progress display": Output(
        "for i in {1..30000}; do printf '\\r\\033[2K\\033[32m%d\\033[0m of 30000' $i; done; echo; echo Done.",
        (" bytes left out]\n30000 of 30000\nDone.\n[exit code: 0]",),
    ),
}

MIXED = b"word %d: <%c> \x1b[31mand so on, and so on\x1b[0m\n"
# `cat` goes on with what the first 20 MB have left over.
FOR_EVER = "yes | { head -c 20000000; printf here > marker; exec cat; }"


def run(id: str, line: str, **more: Any) -> dict[str, Any]:
    return {"calls": [call(id, "run_command", {"command": line, **more})]}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS.keys())
async def test_the_output_of_a_command_is_capped_everywhere_and_says_so(tmp_path: Path, output: Output) -> None:
    """Field case T1: bytes sent, log, the next request and memory; both ends are there and what is cut is said."""
    told = {"expect": list(output.parts), "text": "Seen."}
    async with warm(tmp_path, run("c1", output.command), told) as (editor, session, before):
        folder = tmp_path / "one" / "project"
        (folder / "bytes").write_bytes(bytes(range(256)) * 40_000)
        (folder / "mixed").write_bytes(b"".join(MIXED % (number, number % 256) for number in range(1, 100_000)))
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        assert editor.text(session, before.frames) == "Seen."
        view, result = editor.tool_calls(session)["c1"], results(tmp_path, session)["c1"]
        assert view.status == "completed"
        assert ("characters not shown" in view.text) == (len(result) > SHOWN_CHARACTERS)
        for shown in (view.text, result):
            check_readable(shown)
            assert (output.parts[0] in shown, output.parts[-1] in shown) == (True, True)
        check_size(editor, tmp_path, session, before, result=COMMAND_RESULT, peak=COMMAND_PEAK)


async def test_the_next_request_to_a_real_endpoint_carries_the_capped_result_once(tmp_path: Path) -> None:
    """Field case T1, on the wire to the provider: bytes as they arrive there, and the request after it adds nothing."""
    command = json.dumps({"command": "seq 500000"})
    script = [Reply.tool("c1", "run_command", command), Reply.text("Seen."), Reply.text("Here I am.")]
    with OpenAIServer(script) as server:
        async with start_agent(tmp_path, server=server, permissions="allow_once") as editor:
            session = await editor.new_session(project(tmp_path, "one"))
            for prompt in ("Run it.", "And now?"):
                assert (await editor.prompt(session, prompt)).stop_reason == "end_turn"
        sizes = [len(json.dumps(chat.body, ensure_ascii=False).encode()) for chat in server.chats]
        assert LIMIT < sizes[1] - sizes[0] <= ESCAPED * COMMAND_RESULT + BESIDES
        assert sizes[2] - sizes[1] <= BESIDES
        assert asked.results(server.chats[1]) == results(tmp_path, session)


@pytest.mark.parametrize("reading", [True, False], ids=["an editor that reads", "an editor that does not read"])
async def test_a_command_that_prints_for_ever_is_cancelled(tmp_path: Path, reading: bool) -> None:
    """Field case T1 and its "cancel still works": after 20 MB, in full flow; the tree ends before anybody reads."""
    expected = ("tool call aborted", "y\ny\n", " bytes left out]\ny\n", "y\n[killed by signal", "And now?")
    async with warm(tmp_path, run("c1", FOR_EVER), last=expected) as (editor, session, before):
        marker = Marker(tmp_path / "one" / "project" / "marker")
        if not reading:
            editor.pause_reading()
        turn = editor.start_prompt(session, "Run it.")
        await marker.wait("here")
        started = descendants(editor.pid)
        assert any(process.argv[:1] == ("yes",) for process in started)
        await editor.cancel(session)
        await wait_gone(started)
        editor.resume_reading()
        assert (await turn.result()).stop_reason == "cancelled"
        assert editor.tool_calls(session)["c1"].status == "failed"
        assert StoredLog(tmp_path, session).results["c1"] == "ABORTED"
        check_size(editor, tmp_path, session, before, result=COMMAND_RESULT, peak=COMMAND_PEAK)


async def test_a_command_that_prints_for_ever_runs_out_of_its_own_time(tmp_path: Path) -> None:
    """Field case T1: the model learns that, with both ends, and the turn goes on."""
    told = {"expect": ["y\ny\n", " bytes left out]\ny\n", "y\n[timed out after 1 s]\n", "[exit code: "], "text": "So."}
    async with warm(tmp_path, run("c1", FOR_EVER, timeout_s=1), told) as (editor, session, before):
        turn = editor.start_prompt(session, "Run it.")
        await wait_for_descendant(editor.pid, lambda process: process.argv == ("yes",))
        started = descendants(editor.pid)
        assert (await turn.result()).stop_reason == "end_turn"
        await wait_gone(started)
        assert editor.text(session, before.frames) == "So."
        assert StoredLog(tmp_path, session).results["c1"] == "TOOL_TIMEOUT"
        check_size(editor, tmp_path, session, before, result=COMMAND_RESULT, peak=COMMAND_PEAK)


async def test_commands_print_to_their_end_for_an_editor_that_does_not_read_until_later(tmp_path: Path) -> None:
    """Field case T1: twelve results wait, far more than the pipe holds; they come whole, in order, once it reads."""
    ids = [f"c{number}" for number in range(1, 13)]
    line = "seq 500000; printf %s {} >> marker"
    steps = [run(id, line.format(id)) for id in ids]
    async with warm(tmp_path, *steps, text("Done.")) as (editor, session, before):
        marker = Marker(tmp_path / "one" / "project" / "marker")
        editor.pause_reading()
        turn = editor.start_prompt(session, "Run them.")
        await marker.wait("".join(ids))
        await StoredLog(tmp_path, session).wait(lambda log: len(log.endings) == 2)
        assert len(editor.tool_calls(session, before.frames)) < len(ids)
        editor.resume_reading()
        assert (await turn.result()).stop_reason == "end_turn"
        views = editor.tool_calls(session, before.frames)
        assert list(views) == ids
        for view in views.values():
            assert (view.status, LINES[0] in view.text, LINES[-1] in view.text) == ("completed", True, True)
        check_size(editor, tmp_path, session, before, result=COMMAND_RESULT, peak=COMMAND_PEAK + len(ids) * WIRE)

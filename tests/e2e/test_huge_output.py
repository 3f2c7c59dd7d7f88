"""Field case T1: whatever a call prints, what is sent, logged, told to the model and held in memory is capped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.processes import descendants
from tests.support.transcript import ToolCallView

pytestmark = pytest.mark.anyio

# Bytes and MB, several times what a call of each tool may show (the largest cap is read_file's 256 KiB): they tell
# capped from linear, not one cap from another.
WIRE = 1_500_000
LOG = 1_500_000
PEAK_MB = 120

COMMANDS = {
    "half a million lines": "seq 1 500000",
    "one line of 50 MB": "head -c 50000000 /dev/zero | tr '\\0' x",
    "binary": "head -c 5000000 /dev/urandom; printf '\\0\\033[2J\\033]0;title\\007\\r\\n'",
    "on stderr": "seq 1 500000 >&2",
    "redrawn progress": "for i in $(seq 1 60000); do printf '\\r\\033[K%d%%' $i; done",
}
HEAD_AND_TAIL = {"half a million lines": ("1\n2\n", "500000\n"), "on stderr": ("1\n2\n", "500000\n")}


def peak_mb(pid: int) -> float:
    """VmHWM: the most that the process itself has held, children excluded."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1000


def sent(editor: Editor) -> int:
    return sum(len(str(frame.message)) for frame in editor.frames if frame.sender == "agent")


async def _is_capped(editor: Editor, tmp_path: Path, session: str) -> None:
    assert sent(editor) < WIRE
    log = StoredLog(tmp_path, session)
    assert len(log.bytes) < LOG
    assert sum(len(str(event)) for event in log.events) < LOG
    assert peak_mb(editor.pid) < PEAK_MB
    assert descendants(editor.pid) == []


def _run(line: str, **more: Any) -> dict[str, Any]:
    return {"calls": [call("c", "run_command", {"command": line, **more})]}


def _readable(view: ToolCallView) -> None:
    assert not set(map(chr, (0, 7, 27))) & set(view.text)


@pytest.mark.parametrize("what", COMMANDS)
async def test_the_output_of_a_command_is_capped_everywhere_and_says_so(tmp_path: Path, what: str) -> None:
    folder = project(tmp_path, "one")
    steps = play(tmp_path, [_run(COMMANDS[what]), text("Done.")], [text("Here I am.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Run it.", timeout=60)).stop_reason == "end_turn"
        view = editor.tool_calls(session)["c"]
        assert view.status == "completed"
        _readable(view)
        assert re.search(r"\d[\d,]* (bytes|lines|characters|KiB|MiB)", view.text) or "left out" in view.text, view.text[
            :300
        ]
        for part in HEAD_AND_TAIL.get(what, ()):
            assert part in view.text
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        await _is_capped(editor, tmp_path, session)


@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_command_that_prints_for_ever_can_be_ended(tmp_path: Path, how: str) -> None:
    folder = project(tmp_path, "one")
    line = "yes | tee >(head -c 20000000 >/dev/null; printf here > marker)"
    steps = play(
        tmp_path, [_run(line, timeout_s=1 if how == "out of time" else 100), text("So.")], [text("Here I am.")]
    )
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        turn = editor.start_prompt(session, "Run it.")
        if how == "cancelled":
            await Marker(folder / "marker").wait("here")
            await editor.cancel(session)
        assert (await turn.result(timeout=20)).stop_reason == ("cancelled" if how == "cancelled" else "end_turn")
        assert editor.tool_calls(session)["c"].status == "failed"
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        await _is_capped(editor, tmp_path, session)


async def test_an_editor_that_does_not_read_meanwhile_costs_no_memory(tmp_path: Path) -> None:
    """The command ends by itself although nobody reads; what was held back comes when somebody does."""
    folder = project(tmp_path, "one")
    line = "seq 1 500000; printf here > marker"
    steps = play(tmp_path, [_run(line), text("Done.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.agent.set_session_mode(session, "auto-edit")
        editor.pause_reading()
        turn = editor.start_prompt(session, "Run it.")
        await Marker(folder / "marker").wait("here")
        editor.resume_reading()
        assert (await turn.result()).stop_reason == "end_turn"
        await _is_capped(editor, tmp_path, session)


async def test_huge_files_and_searches_are_capped_too(tmp_path: Path) -> None:
    folder = project(tmp_path, "one")
    (folder / "many").write_text("needle\n" * 100_000)
    (folder / "long").write_text("x" * 7_000_000 + "\n")
    (folder / "huge").write_text("x" * 60_000_000 + "\n")
    calls = {
        "many": ("read_file", {"path": "many"}),
        "long": ("read_file", {"path": "long"}),
        "huge": ("read_file", {"path": "huge"}),
        "edit": ("edit_file", {"path": "huge", "old_text": "x", "new_text": "y"}),
        "search": ("search", {"pattern": "needle"}),
        "search huge": ("search", {"pattern": "x+", "path": "huge"}),
    }
    steps = play(tmp_path, [{"calls": [call(id, *made) for id, made in calls.items()]}, text("Done.")])
    async with start_agent(tmp_path, screenplay=steps) as editor:
        session = await editor.new_session(folder)
        assert (await editor.prompt(session, "Read.", timeout=60)).stop_reason == "end_turn"
        views = editor.tool_calls(session)
        assert {id for id, view in views.items() if view.status == "failed"} == {"huge", "edit"}
        assert "larger than 8 MiB; use search" in views["huge"].text
        await _is_capped(editor, tmp_path, session)

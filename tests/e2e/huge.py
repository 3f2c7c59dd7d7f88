"""Field case T1 in numbers: what a turn with a huge call may cost on the wire, in the log and in memory.

Owns: an agent that is warm, the look at it before and after, and the caps that hold for every tool. Knows no tool's
own caps: tests bring those along, from the product, with the reason for what they add.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp_bridge.bridge.show import SHOWN_CHARACTERS
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.e2e.worlds import project
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.processes import descendants

__all__ = ["BESIDES", "ESCAPED", "MIB", "WIRE", "Before", "check_readable", "check_size", "results", "warm"]

MIB = 1 << 20
# What a call sends and logs besides its result: its announcement, its states, the model's reply, the turn's bounds.
BESIDES = 16 * 1024
# JSON writes a line end or a quote as two bytes.
ESCAPED = 2
# What the editor is sent of any result, bridge/show.py.
WIRE = SHOWN_CHARACTERS * ESCAPED + BESIDES

SMALL = {
    "s1": ("run_command", {"command": "echo small; echo small >&2"}),
    "s2": ("read_file", {"path": "kept"}),
    "s3": ("search", {"pattern": "two", "path": "kept"}),
}


@dataclass(frozen=True)
class Before:
    """What there was before a call."""

    frames: int
    events: int
    stored: int
    peak: int


def peak_bytes(pid: int) -> int:
    """VmHWM: the most that the process itself has held, children excluded."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


@asynccontextmanager
async def warm(
    tmp_path: Path, *steps: dict[str, Any], last: Sequence[str] = ()
) -> AsyncIterator[tuple[Editor, str, Before]]:
    """An agent whose session has had a turn with a small call of every tool, so that all modules are loaded.

    The block is one turn of `steps`. After it the session must take a next prompt, whose request must hold the texts
    of `last`, and nothing of what was started may be alive.
    """
    folder = project(tmp_path, "one")
    small = {"calls": [call(id, *made) for id, made in SMALL.items()]}
    ending = {"expect": list(last), "text": "Here I am."}
    screenplay = play(tmp_path, [small, text("Ready.")], list(steps), [ending])
    async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as editor:
        session = await editor.new_session(folder)
        await editor.agent.set_session_mode(session, "auto-edit")
        await editor.prompt(session, "Warm up.")
        log = StoredLog(tmp_path, session)
        yield editor, session, Before(len(editor.frames), len(log.events), len(log.bytes), peak_bytes(editor.pid))
        since = len(editor.frames)
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        assert editor.text(session, since) == "Here I am."
        assert descendants(editor.pid) == []
        assert editor.stderr == ""


def results(tmp_path: Path, session: str) -> dict[str, str]:
    """What the log says that the model is told, by call id, without the calls of the first turn."""
    blocks = [data["message"]["content"][0] for data in StoredLog(tmp_path, session).of("tool/result")]
    found = {block["toolCallId"]: "".join(part["text"] for part in block["content"]) for block in blocks}
    return {id: result for id, result in found.items() if id not in SMALL}


def check_size(editor: Editor, tmp_path: Path, session: str, before: Before, *, result: int, peak: int) -> None:
    """`result` is the cap of one result in bytes, `peak` that of the growth in memory."""
    frames = editor.frames[before.frames :]
    calls = len(editor.tool_calls(session, before.frames))
    wire = sum(len(frame.raw) for frame in frames if frame.sender == "agent")
    log = StoredLog(tmp_path, session)
    plain = sum(len(json.dumps(event, ensure_ascii=False).encode()) for event in log.events[before.events :])
    told = max(len(text.encode()) for text in results(tmp_path, session).values())
    assert wire <= calls * WIRE
    assert told <= result
    # Once in the log, whatever the compression makes of it.
    assert plain <= calls * (ESCAPED * result + BESIDES)
    assert len(log.bytes) - before.stored <= plain + BESIDES
    assert peak_bytes(editor.pid) - before.peak <= peak


def check_readable(shown: str) -> None:
    """No control characters but line ends and tabs."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)

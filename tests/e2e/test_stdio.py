"""The agent's standard streams are the protocol's alone: nothing else gets onto the wire, nobody else reads from it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.e2e.lines import request
from tests.e2e.noisy_agent import NOISY_AGENT, WORDS
from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.markers import Marker
from tests.support.processes import descendants, fds

pytestmark = pytest.mark.anyio

# The words are put together by the shell: the command itself is shown as well.
SHOUT = """
w=to
echo $w-1 ; echo $w-2 >&2 ; echo $w-dev > /dev/stdout ; echo $w-fd > /dev/fd/1 ; echo $w-proc > /proc/self/fd/1
for fd in 3 4 5 6 7 8 9; do echo $w-leak >&$fd; done 2>/dev/null
echo $w-err > /dev/stderr
""".strip()
READ = "cat ; echo cat $? ; read line ; echo read $? ; printf here > marker ; sleep 300"
MODES = pytest.mark.parametrize("mode", ["ask", "full-access"])


async def test_the_first_start_in_an_empty_home_says_nothing_but_frames(tmp_path: Path) -> None:
    """Field case P2: no state, no configuration, every Python warning shown; a whole turn with a question."""
    steps = play(tmp_path, [{"calls": [call("c1", "run_command", {"command": "true"})]}, text("Done.")])
    loud = {"PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"}
    async with start_agent(tmp_path, screenplay=steps, env=loud, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        assert (await editor.prompt(session, "Run it.")).stop_reason == "end_turn"
        assert editor.text(session) == "Done."
        assert await editor.request("session/close", {"sessionId": session})
    assert editor.stderr == ""
    assert editor.problems() == []


async def test_prints_warnings_tracebacks_and_children_of_the_agent_end_up_on_stderr(tmp_path: Path) -> None:
    """Field case P2: from the first import on, through an observer that also raises; the turn goes on."""
    async with start_agent(tmp_path, screenplay=play(tmp_path, [text("Done.")]), command=NOISY_AGENT) as editor:
        session = await editor.new_session(tmp_path)
        assert (await editor.prompt(session, "Make noise.")).stop_reason == "end_turn"
        assert editor.text(session) == "Done."
    assert editor.returncode == 0
    assert editor.problems() == []
    for word in WORDS:
        for where in ("at construction", "at mounting", "at turn/start", "at turn/end"):
            assert f"{word} {where}" in editor.stderr
    log = (tmp_path / "state" / "logs" / "agent.log").read_text()
    assert "RuntimeError: raised at turn/start" in log
    assert StoredLog(tmp_path, session).endings == ["completed"]


@MODES
async def test_what_a_command_writes_anywhere_is_its_output_and_never_on_the_wire(tmp_path: Path, mode: str) -> None:
    """Field case P2: /dev/stdout, /proc/self/fd/1, /dev/fd/1, and every descriptor it might have inherited."""
    words = ["to-1", "to-2", "to-dev", "to-fd", "to-proc", "to-err"]
    shout = {"calls": [call("c1", "run_command", {"command": SHOUT})]}
    steps = play(tmp_path, [shout, {"expect": words, "text": "Loud."}])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        await editor.request("session/set_mode", {"sessionId": session, "modeId": mode})
        assert (await editor.prompt(session, "Shout.")).stop_reason == "end_turn"
        shown = editor.tool_calls(session)["c1"].text
        assert editor.stderr == ""
    assert "to-leak" not in shown
    assert [word for word in words if word not in shown] == []


@MODES
async def test_a_command_that_reads_sees_the_end_while_every_client_message_is_served(
    tmp_path: Path, mode: str
) -> None:
    """Field case P3: `cat` and `read` get no byte of the client's; a cancel and the next prompt come through."""
    marker = Marker(tmp_path / "marker")
    read = {"calls": [call("c1", "run_command", {"command": READ})]}
    steps = play(tmp_path, [read], [text("Served.")])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session, other = await editor.new_session(tmp_path), await editor.new_session(tmp_path)
        await editor.request("session/set_mode", {"sessionId": session, "modeId": mode})
        turn = editor.start_prompt(session, "Read.")
        await marker.wait("here")
        lines = [request(f"list-{number}", "session/list") for number in range(50)]
        await editor.send_raw(b"".join(lines))
        await editor.request("session/set_mode", {"sessionId": other, "modeId": "read-only"})
        await editor.wait_until(lambda: sum(frame.id == "list-49" and frame.is_response for frame in editor.frames))
        await editor.cancel(session)
        assert (await turn.result()).stop_reason == "cancelled"
        assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        shown = editor.tool_calls(session)["c1"].text
        assert editor.text(session) == "Served."
    assert "cat 0\nread 1\n" in shown
    assert "jsonrpc" not in shown


@MODES
async def test_a_command_holds_no_descriptor_of_the_agent(tmp_path: Path, mode: str) -> None:
    """Field case P3: the wire, the log and the lock stay with the agent; checked in /proc for the whole tree."""
    marker = Marker(tmp_path / "marker")
    steps = play(tmp_path, [{"calls": [call("c1", "run_command", {"command": READ})]}])
    async with start_agent(tmp_path, screenplay=steps, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        await editor.request("session/set_mode", {"sessionId": session, "modeId": mode})
        wire = set(fds(editor.pid).values()) - {"/dev/null"}
        assert len([name for name in wire if name.startswith("pipe:")]) >= 3
        editor.start_prompt(session, "Read.")
        await marker.wait("here")
        tree = {process.argv: fds(process.pid) for process in descendants(editor.pid)}
        assert any(argv[:1] == ("sleep",) for argv in tree)
        with anyio.fail_after(5):
            await editor.cancel(session)
    for argv, held in tree.items():
        state = [name for name in held.values() if str(tmp_path / "state") in name]
        assert (argv, wire & set(held.values()), state) == (argv, set(), [])

"""`acp-bridge run`: the real process, headless and on a terminal, by every way it can end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from tests.e2e.plays import call, play, text
from tests.e2e.stored import StoredLog
from tests.support.agent import AGENT, agent_env
from tests.support.examples import blocks, console
from tests.support.processes import descendants
from tests.support.terminal import END_OF_INPUT, INTERRUPT, Terminal

pytestmark = pytest.mark.anyio

WRITE = call("w1", "write_file", {"path": "new.txt", "content": "hello\n"})
HALF = text("Half ", {"wait_for_file": "never"}, "whole.")


def environment(tmp_path: Path, steps: Path | None) -> dict[str, str]:
    return agent_env(tmp_path, **({"ACP_BRIDGE_MODEL": f"scripted/{steps}"} if steps else {}))


def run(
    tmp_path: Path, steps: Path | None, *arguments: str, stdin: bytes = b""
) -> tuple[subprocess.CompletedProcess[bytes], Path]:
    """The command on pipes in the project, to its end."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    done = subprocess.run(
        [*AGENT, "run", *arguments],
        input=stdin,
        env=environment(tmp_path, steps),
        cwd=project,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return done, project


@asynccontextmanager
async def running(tmp_path: Path, steps: Path, *arguments: str) -> AsyncIterator[Process]:
    """The command on pipes, while it runs; killed when the block is left before its end."""
    process = await anyio.open_process(
        [*AGENT, "run", *arguments], env=environment(tmp_path, steps), cwd=tmp_path, stdin=subprocess.DEVNULL
    )
    try:
        with anyio.fail_after(15):
            yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


async def received(process: Process, words: bytes) -> bytes:
    """What stdout brings until it holds `words`."""
    assert process.stdout is not None
    data = b""
    while words not in data:
        data += await process.stdout.receive()
    return data


async def rest(process: Process) -> bytes:
    assert process.stdout is not None
    return b"".join([piece async for piece in process.stdout])


def lines(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def log(tmp_path: Path) -> StoredLog:
    """The log of the only session there is."""
    (folder,) = (tmp_path / "state").glob("sessions/*/*")
    return StoredLog(tmp_path, folder.name)


def test_the_reply_is_all_that_is_on_stdout(tmp_path: Path) -> None:
    steps = play(tmp_path, [{"reasoning": "Hm.", "text": "I write.", "calls": [WRITE]}, text("Done.")])
    done, project = run(tmp_path, steps, "--mode", "auto-edit", "Write.")
    assert (done.returncode, done.stdout) == (0, b"I write.\nDone.\n")
    assert (project / "new.txt").read_text() == "hello\n"
    notes = done.stderr.decode()
    assert "mode auto-edit" in notes
    assert "✓ Write new.txt" in notes
    assert log(tmp_path).endings == ["completed"]


def test_json_lines_begin_with_the_session_end_with_the_ending_and_hold_every_piece(tmp_path: Path) -> None:
    steps = play(tmp_path, [{"reasoning": "Hm.", "text": ["I ", "write."], "calls": [WRITE]}, text("Done.")])
    done, project = run(tmp_path, steps, "--json", "--mode", "auto-edit", "Write.")
    told = lines(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    kinds = [line["type"] for line in told]
    assert kinds == ["session", "thought", "text", "text", "tool", "tool", "tool", "text", "end"]
    session, end = told[0], told[-1]
    assert session == {
        "type": "session", "session_id": session["session_id"], "cwd": str(project), "mode": "auto-edit",
        "model": f"scripted/{steps}", "resumed": False,
    }  # fmt: skip
    assert end == {
        "type": "end", "session_id": session["session_id"], "stop_reason": "completed", "exit_status": 0,
        "text": "I write.\n\nDone.", "error": None, "code": None,
    }  # fmt: skip
    assert [line["status"] for line in told if line["type"] == "tool"] == ["pending", "in_progress", "completed"]


def test_without_a_terminal_a_question_is_a_no_that_the_status_tells(tmp_path: Path) -> None:
    steps = play(tmp_path, [{"calls": [WRITE]}, text("I could not.")])
    done, project = run(tmp_path, steps, "Write.", stdin=b"y\ny\n")
    assert (done.returncode, done.stdout) == (3, b"I could not.\n")
    assert b"refused, because nobody could be asked: Write new.txt" in done.stderr
    assert list(project.iterdir()) == []
    assert [data["outcome"] for data in log(tmp_path).of("approval/decided")] == ["unavailable"]
    again, _ = run(tmp_path, steps, "--json", "Write.")
    assert {"type": "permission", "call_id": "w1", "tool": "write_file", "outcome": "unavailable"} in lines(
        again.stdout
    )
    assert lines(again.stdout)[-1]["exit_status"] == 3


@pytest.mark.parametrize(
    ("step", "status", "reason"),
    [
        ({"text": "x", "finish": "refusal"}, 3, "refusal"),
        ({"text": "x", "finish": "max-tokens"}, 4, "max-tokens"),
        ({"text": "x", "failure": {"message": "The server is on fire."}}, 1, "error"),
    ],
)
def test_the_status_tells_how_the_turn_ended(tmp_path: Path, step: dict[str, Any], status: int, reason: str) -> None:
    done, _ = run(tmp_path, play(tmp_path, [step]), "--json", "Go.")
    end = lines(done.stdout)[-1]
    assert (done.returncode, end["exit_status"], end["stop_reason"]) == (status, status, reason)
    assert end["error"] == ("The server is on fire." if status == 1 else None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume", "no-such-session", "Go."], "Session not found: no-such-session"),
        (["--cwd", "no-such-folder", "Go."], "not an existing directory"),
    ],
)
def test_what_cannot_start_ends_with_1_and_a_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    steps = play(tmp_path, [text("Never.")])
    done, _ = run(tmp_path, steps, *arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    told, _ = run(tmp_path, steps, "--json", *arguments)
    (end,) = lines(told.stdout)
    assert (end["type"], end["session_id"], end["exit_status"]) == ("end", None, 1)
    assert words in end["error"]


def test_without_a_model_it_says_what_to_set(tmp_path: Path) -> None:
    done, _ = run(tmp_path, None, "Go.")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"No model is configured. Set ACP_BRIDGE_MODEL" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ([], b""),
        (["a", "b"], b""),
        (["--mode", "yolo", "a"], b""),
        (["--mod", "ask", "a"], b""),
        ([""], b""),
        (["-"], b" \n"),
        (["-"], b"\xff\n"),
    ],
)
def test_what_is_not_understood_ends_with_2_and_the_usage(tmp_path: Path, arguments: list[str], stdin: bytes) -> None:
    done, _ = run(tmp_path, play(tmp_path, [text("Never.")]), *arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: acp-bridge run")
    assert not (tmp_path / "state").exists()


def test_a_prompt_may_come_from_stdin_and_may_begin_with_a_dash(tmp_path: Path) -> None:
    steps = play(tmp_path, [{"expect": "--dashing", "text": "I see."}])
    for arguments, stdin in ((["-"], b"--dashing \xc3\xa4\n"), (["--", "--dashing"], b"")):
        done, _ = run(tmp_path, steps, *arguments, stdin=stdin)
        assert (done.returncode, done.stdout) == (0, b"I see.\n")


async def test_control_c_cancels_the_turn_and_its_real_ending_is_stored_and_resumable(tmp_path: Path) -> None:
    steps = play(tmp_path, [HALF], [{"expect": "Half ", "text": "Here I am."}])
    async with running(tmp_path, steps, "--json", "Go.") as process:
        output = await received(process, b"Half ")
        process.send_signal(signal.SIGINT)
        told = lines(output + await rest(process))
        assert await process.wait() == 130
    assert (told[-1]["stop_reason"], told[-1]["exit_status"], told[-1]["text"]) == ("cancelled", 130, "Half ")
    stored = log(tmp_path)
    assert stored.endings == ["aborted"]
    done, _ = run(tmp_path, steps, "--resume", told[0]["session_id"], "Still there?")
    assert (done.returncode, done.stdout) == (0, b"Here I am.\n")
    assert stored.endings == ["aborted", "completed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_other_signals_tear_down_and_are_in_the_status(tmp_path: Path, number: signal.Signals) -> None:
    async with running(tmp_path, play(tmp_path, [HALF]), "--json", "Go.") as process:
        output = await received(process, b"Half ")
        process.send_signal(number)
        end = lines(output + await rest(process))[-1]
        assert await process.wait() == 128 + number
    assert (end["stop_reason"], end["exit_status"]) == ("cancelled", 128 + number)
    assert log(tmp_path).endings == ["aborted"]


async def test_control_c_ends_a_running_command_with_all_it_started(tmp_path: Path) -> None:
    command = call("c1", "run_command", {"command": "echo begun > begun; sleep 600"})
    steps = play(tmp_path, [{"calls": [command]}, text("Never.")])
    async with running(tmp_path, steps, "--json", "--mode", "full-access", "Go.") as process:
        output = await received(process, b'"in_progress"')
        with anyio.fail_after(10):
            while not (tmp_path / "begun").exists():
                await anyio.sleep(0.01)
        started = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        assert lines(output + await rest(process))[-1]["stop_reason"] == "cancelled"
        assert await process.wait() == 130
    assert started
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert log(tmp_path).endings == ["aborted"]


async def test_a_second_control_c_does_not_lose_the_ending(tmp_path: Path) -> None:
    command = call("c1", "run_command", {"command": "trap '' TERM INT; echo > begun; while :; do sleep 1; done"})
    steps = play(tmp_path, [{"calls": [command]}, text("Never.")])
    async with running(tmp_path, steps, "--json", "--mode", "full-access", "Go.") as process:
        output = await received(process, b'"in_progress"')
        while not (tmp_path / "begun").exists():
            await anyio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        end = lines(output + await rest(process))[-1]
        assert await process.wait() == end["exit_status"] > 128
    assert (end["type"], end["stop_reason"]) == ("end", "cancelled")
    assert log(tmp_path).endings == ["aborted"]
    assert log(tmp_path).results == {"c1": "ABORTED"}


async def test_a_reader_that_stopped_reading_holds_the_run_only_until_control_c(tmp_path: Path) -> None:
    steps = play(tmp_path, [text("x" * 300_000)])
    async with running(tmp_path, steps, "Go.") as process:
        with anyio.fail_after(10):
            while not (list((tmp_path / "state").glob("sessions/*/*/*.zstd")) and log(tmp_path).endings):
                await anyio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert log(tmp_path).endings == ["completed"]


def test_a_log_that_cannot_be_written_is_an_error_and_nothing_is_started(tmp_path: Path) -> None:
    steps = play(tmp_path, [text("Never.")])
    (tmp_path / "state").write_text("a file where a folder must be")
    done, _ = run(tmp_path, steps, "--json", "Go.")
    end = lines(done.stdout)[-1]
    assert (done.returncode, end["exit_status"], end["text"]) == (1, 1, "")
    assert "could not be written" in end["error"]
    assert "nothing was started" in end["error"]


def test_a_reader_that_goes_away_ends_the_run_with_a_true_log(tmp_path: Path) -> None:
    steps = play(tmp_path, [text("Half ", {"wait_for_file": "go"}, "more ", {"wait_for_file": "never"})])
    # head is gone after five characters, and says so; what the agent writes then has no reader.
    shell = f"('{AGENT[0]}' run Go.; echo $? > status) | (head -c 5; echo > go)"
    done = subprocess.run(
        ["sh", "-c", shell], env=environment(tmp_path, steps), cwd=tmp_path, capture_output=True, timeout=20, check=True
    )
    assert done.stdout == b"Half "
    assert (tmp_path / "status").read_text() == "141\n"
    assert log(tmp_path).endings == ["aborted"]


@asynccontextmanager
async def at_terminal(tmp_path: Path, steps: Path, *arguments: str) -> AsyncIterator[tuple[Terminal, Path]]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    env: Mapping[str, str] = environment(tmp_path, steps)
    async with Terminal.open([*AGENT, "run", *arguments], env=env, cwd=project) as terminal:
        yield terminal, project


TYPED = {"y\n": True, "yes\n": True, "\n": False, "n\n": False, "yo\n": False, END_OF_INPUT: False}


@pytest.mark.parametrize(("typed", "runs"), TYPED.items())
async def test_a_terminal_is_shown_the_whole_change_and_only_y_is_a_yes(tmp_path: Path, typed: str, runs: bool) -> None:
    content = "one\ntwo\x1b[2K\u202e\n"
    steps = play(
        tmp_path, [{"calls": [call("w1", "write_file", {"path": "new.txt", "content": content})]}, text("I see.")]
    )
    async with at_terminal(tmp_path, steps, "Write.") as (terminal, project):
        await terminal.expect("acp-bridge asks: Write new.txt")
        await terminal.expect("  | +one\n  | +two\\x1b[2K\\u202e\n")
        await terminal.expect("Allow this once? [y/N] ")
        terminal.type(typed)
        await terminal.expect("I see.")
        assert await terminal.status() == 0
    assert "\x1b" not in terminal.shown
    assert (project / "new.txt").exists() == runs
    decided = [data["outcome"] for data in log(tmp_path).of("approval/decided")]
    assert decided == ["allowed-once" if runs else "rejected"]


async def test_a_terminal_is_shown_the_whole_command(tmp_path: Path) -> None:
    command = "echo one\n" + "echo hidden\x08\x08; " * 40 + "\necho last"
    steps = play(tmp_path, [{"calls": [call("c1", "run_command", {"command": command})]}, text("I see.")])
    async with at_terminal(tmp_path, steps, "Run.") as (terminal, _):
        await terminal.expect("  | echo one\n")
        await terminal.expect("echo hidden\\x08\\x08; " * 40)
        await terminal.expect("  | echo last\n")
        await terminal.expect("Allow this once? [y/N] ")
        terminal.type("n\n")
        await terminal.expect("I see.")
        assert await terminal.status() == 0


async def test_what_was_typed_before_a_question_is_no_answer_to_it(tmp_path: Path) -> None:
    step = {**text("Wait ", {"wait_for_file": "go"}), "calls": [WRITE]}
    steps = play(tmp_path, [step, text("I see.")])
    async with at_terminal(tmp_path, steps, "Write.") as (terminal, project):
        await terminal.expect("Wait ")
        terminal.type("y\n")
        (tmp_path / "go").write_text("")
        await terminal.expect("Allow this once? [y/N] ")
        terminal.type("\n")
        await terminal.expect("I see.")
        assert await terminal.status() == 0
    assert not (project / "new.txt").exists()


async def test_control_c_at_a_question_is_no_yes_and_ends_the_turn(tmp_path: Path) -> None:
    steps = play(tmp_path, [{"calls": [WRITE]}, text("Never.")])
    async with at_terminal(tmp_path, steps, "Write.") as (terminal, project):
        await terminal.expect("Allow this once? [y/N] ")
        terminal.type(INTERRUPT)
        await terminal.expect("the turn ended early: cancelled")
        assert await terminal.status() == 130
    assert list(project.iterdir()) == []
    assert log(tmp_path).endings == ["aborted"]
    assert [data["outcome"] for data in log(tmp_path).of("approval/decided")] == ["cancelled"]


async def test_with_stdout_in_a_file_the_question_is_still_on_the_terminal(tmp_path: Path) -> None:
    steps = play(tmp_path, [{"text": "I write.\x07", "calls": [WRITE]}, text("Done.")])
    project = tmp_path / "project"
    project.mkdir()
    shell = ["sh", "-c", f"'{AGENT[0]}' run Write. > ../out; echo ended $?"]
    async with Terminal.open(shell, env=environment(tmp_path, steps), cwd=project) as terminal:
        await terminal.expect("Allow this once? [y/N] ")
        terminal.type("y\n")
        await terminal.expect("ended 0")
    assert (tmp_path / "out").read_bytes() == b"I write.\x07\nDone.\n"
    assert (project / "new.txt").exists()


@pytest.mark.parametrize("block", blocks("run.md", "console"))
def test_the_examples_of_the_page_work_as_shown(tmp_path: Path, block: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    play(project, [text("Hello.")], [{"expect": "Hello.", "text": "I said hello."}])
    environ = environment(tmp_path, Path("play.json"))
    environ["PATH"] = f"{Path(AGENT[0]).parent}{os.pathsep}{environ['PATH']}"
    script, shown = console(block)
    done = subprocess.run(
        ["sh", "-c", script], env=environ, cwd=project, capture_output=True, text=True, timeout=30, check=True
    )
    output = re.sub(r'"session_id":"[^"]*"', '"session_id":"ID"', done.stdout)
    assert output.replace(json.dumps(str(project)), '"DIR"') == shown

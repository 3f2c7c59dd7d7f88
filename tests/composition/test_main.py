"""The command line: what each form does, its exit status, and that a terminal gets words instead of silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from acp_bridge_composition.main import USAGE
from tests.support.agent import AGENT, agent_env
from tests.support.terminal import Terminal

pytestmark = pytest.mark.anyio


def run(tmp_path: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command on pipes; it must not need the terminal, nor wait."""
    return subprocess.run(
        [*AGENT, *arguments],
        input=stdin,
        env=agent_env(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_help_says_what_there_is(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", USAGE)


@pytest.mark.parametrize("arguments", [["no-such-command"], ["--no-such-option"], [""], ["agent"], ["--verbose", "x"]])
def test_what_is_not_understood_is_told_with_status_2(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", USAGE)


@pytest.mark.parametrize(
    "arguments",
    [
        ["login", "x"],
        ["run"],
        ["run", "a", "b"],
        ["sessions"],
        ["sessions", "x"],
        ["sessions", "show"],
        ["sessions", "show", "a", "b"],
        ["sessions", "list", "x"],
    ],
)
def test_a_command_with_wrong_arguments_shows_its_own_usage(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: acp-bridge {arguments[0]}")


def test_the_version_is_on_stdout_and_every_command_is_in_the_usage(tmp_path: Path) -> None:
    for option in ("--version", "-V"):
        done = run(tmp_path, option)
        assert (done.returncode, done.stderr) == (0, "")
        name, version = done.stdout.split()
        assert name == "acp-bridge"
        assert version.count(".") == 2
    for command in (
        "acp-bridge run PROMPT",
        "acp-bridge demo",
        "acp-bridge login",
        "acp-bridge sessions list",
        "acp-bridge sessions show ID",
    ):
        assert command in USAGE


def test_a_login_without_a_terminal_asks_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "login", stdin="http://x/v1\nm\nk\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "run it in a terminal" in done.stderr
    assert list((tmp_path / "home").iterdir()) == []


def test_sessions_that_are_not_there_end_with_1_and_none_at_all_with_0(tmp_path: Path) -> None:
    assert (run(tmp_path, "sessions", "list").stdout, run(tmp_path, "sessions", "list").returncode) == ("", 0)
    done = run(tmp_path, "sessions", "show", "no-such-session")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "acp-bridge: Session not found: no-such-session\n"


@pytest.mark.parametrize("arguments", [[], ["--verbose"]])
def test_the_agent_ends_with_0_at_the_end_of_its_input(tmp_path: Path, arguments: list[str]) -> None:
    request = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    done = run(tmp_path, *arguments, stdin=request)
    assert done.returncode == 0
    assert done.stdout.startswith('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,')
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [[], ["--verbose"]])
async def test_on_a_terminal_the_agent_explains_itself_instead_of_waiting(tmp_path: Path, arguments: list[str]) -> None:
    """Design §14."""
    async with Terminal.open([*AGENT, *arguments], env=agent_env(tmp_path), cwd=tmp_path) as terminal:
        await terminal.expect("an agent that code editors start over the Agent Client Protocol")
        assert await terminal.status() == 2
        assert terminal.shown == USAGE


async def test_with_its_input_on_a_terminal_stdout_stays_clean(tmp_path: Path) -> None:
    """`acp-bridge > file` by hand must not leave words where frames belong."""
    shell = ["sh", "-c", f"'{AGENT[0]}' > out; echo ended $?"]
    async with Terminal.open(shell, env=agent_env(tmp_path), cwd=tmp_path) as terminal:
        await terminal.expect("ended 2")
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize(
    "command", [AGENT, [sys.executable, "-m", "acp_bridge_composition"], [f"{Path(AGENT[0]).parent}/acp-editor-bridge"]]
)
def test_every_way_to_start_it_is_the_same_command(tmp_path: Path, command: list[str]) -> None:
    """uvx runs the script that is named like the distribution."""
    done = subprocess.run(
        [*command, "--version"], env=agent_env(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("acp-bridge ")

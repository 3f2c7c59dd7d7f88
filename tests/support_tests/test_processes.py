"""Process and marker helpers on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.support.agent import AGENT, agent_env
from tests.support.markers import Marker
from tests.support.processes import alive, descendants, fds, find, rss_bytes, wait_for_descendant, wait_gone

pytestmark = pytest.mark.anyio


@pytest.fixture
def shell() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with a child, in a process group of its own."""
    script = "sleep 60 & sleep 61 & wait"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, start_new_session=True) as process:
        yield process
        os.killpg(process.pid, 9)


async def test_descendants_are_found_down_to_grandchildren(shell: subprocess.Popen[bytes]) -> None:
    await wait_for_descendant(shell.pid, lambda process: process.argv == ("sleep", "61"))
    below = descendants(os.getpid())
    assert shell.pid in {process.pid for process in below}
    assert {("sleep", "60"), ("sleep", "61")} <= {process.argv for process in below}


async def test_wait_gone_returns_once_a_process_has_ended_even_as_a_zombie(shell: subprocess.Popen[bytes]) -> None:
    process = find(shell.pid)
    assert process is not None and alive(process)
    child = await wait_for_descendant(shell.pid, lambda process: process.argv == ("sleep", "60"))
    os.killpg(shell.pid, 9)
    await wait_gone([process, child])
    assert not alive(process)


async def test_wait_gone_names_who_is_still_there(shell: subprocess.Popen[bytes]) -> None:
    process = find(shell.pid)
    assert process is not None
    with pytest.raises(AssertionError, match=str(shell.pid)):
        await wait_gone([process], timeout=0.05)


async def test_a_descendant_that_never_comes_is_reported(shell: subprocess.Popen[bytes]) -> None:
    with pytest.raises(AssertionError, match="no such process"):
        await wait_for_descendant(shell.pid, lambda process: False, timeout=0.05)


def test_descriptors_and_memory_of_a_process_can_be_seen(shell: subprocess.Popen[bytes]) -> None:
    assert fds(shell.pid)[0] == "/dev/null"
    assert rss_bytes(shell.pid) > 100_000


async def test_a_marker_waits_through_a_prefix_for_the_exact_content(tmp_path: Path) -> None:
    marker = Marker(tmp_path / "marker")
    async with anyio.create_task_group() as writing:
        writing.start_soon(marker.wait, "in the tool")
        marker.path.write_text("in the")
        await anyio.lowlevel.checkpoint()
        marker.path.write_text("in the tool")


@pytest.mark.parametrize(
    ("written", "alive", "problem"),
    [
        ("in the model", True, "holds 'in the model' instead"),
        ("in", False, "ended with 'in'"),
        ("in", True, "after 0.05"),
    ],
)
async def test_a_marker_with_other_content_or_without_writer_fails(
    tmp_path: Path, written: str, alive: bool, problem: str
) -> None:
    marker = Marker(tmp_path / "marker")
    marker.path.write_text(written)
    with pytest.raises(AssertionError, match=problem):
        await marker.wait("in the tool", timeout=0.05, alive=lambda: alive)


def test_the_agents_environment_holds_nothing_of_the_machine_but_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    env = agent_env(tmp_path, ACP_BRIDGE_MODEL="openai/x")
    assert env.keys() == {"PATH", "HOME", "ACP_BRIDGE_STATE_DIR", "ACP_BRIDGE_MODEL"}
    assert list(Path(env["HOME"]).iterdir()) == []
    assert env == agent_env(tmp_path, ACP_BRIDGE_MODEL="openai/x")
    assert Path(AGENT[0]).parent == Path(sys.executable).parent

"""How commands start and end: descriptors, environment, signals, and that nothing is left alive (P3, T3, L1 to L3)."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.session.events import AbortReason
from acp_bridge.session.signal import Signal
from acp_bridge.tools.tool import ToolOutcome
from acp_bridge_plugins.tools_shell import supervisor
from acp_bridge_plugins.tools_shell.settings import ShellSettings
from tests.sandbox.calls import Shell
from tests.support.markers import Marker
from tests.support.processes import ProcessRef, alive, descendants, find, wait_for_descendant, wait_gone

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bubblewrap")]

MODES: list[SandboxMode] = ["read-only", "workspace-write", "danger-full-access"]
WRITING: list[SandboxMode] = MODES[1:]

# Fractions of a second that no other process on the machine sleeps for.
OURS = f".{os.getpid()}"
A, B, C = (f"{seconds}{OURS}" for seconds in (3001, 3002, 3003))
# A child in a session of its own, one that ignores SIGTERM as well, and the command itself, which ignores it too.
STUBBORN = (
    f"setsid sleep {A} & (trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep {B}; sleep {B}') & "
    f"trap '' TERM; echo -n up > marker; sleep {C}; sleep {C}"
)


def sleepers() -> list[ProcessRef]:
    """Wherever they are: who was given to init is no descendant any more."""
    everyone = (find(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [
        process for process in everyone if process and process.argv[:1] == ("sleep",) and process.argv[1].endswith(OURS)
    ]


async def tree(marker: Marker) -> list[ProcessRef]:
    """The processes of STUBBORN, once all of them are there."""
    await marker.wait("up")
    for seconds in (A, B, C):
        await wait_for_descendant(os.getpid(), partial(_sleeps, seconds))
    return sleepers()


def _sleeps(seconds: str, process: ProcessRef) -> bool:
    return process.argv == ("sleep", seconds)


@pytest.mark.parametrize("mode", MODES)
async def test_a_command_that_reads_sees_the_end_of_its_input(root: Path, mode: SandboxMode) -> None:
    with anyio.fail_after(10):
        assert await Shell(root, mode).output("cat; read x; echo read: $?; readlink /proc/self/fd/0") == (
            "read: 1\n/dev/null"
        )


@pytest.mark.parametrize("mode", MODES)
async def test_no_descriptor_but_its_own_three_reaches_a_command(root: Path, mode: SandboxMode) -> None:
    """An inheritable one, as a careless library would leave it, stays with the agent as well."""
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        shown = await Shell(root, mode).output("for fd in /proc/$$/fd/*; do readlink $fd; done; true")
    finally:
        os.close(leak)
    assert [line.partition(":")[0] for line in shown.splitlines()[:3]] == ["/dev/null", "pipe", "pipe"]
    assert len(shown.splitlines()) == 3


@pytest.mark.parametrize("mode", MODES)
async def test_the_environment_is_the_least_and_holds_no_key(
    root: Path, mode: SandboxMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("EDITOR_INTERNAL", "x")
    settings = ShellSettings(environment=("OPENAI_API_KEY", "NAMED"))
    monkeypatch.setenv("NAMED", "yes")
    shown = await Shell(root, mode, settings=settings).output("env; cat /proc/self/environ | tr '\\0' '\\n'")
    assert "sk-secret" not in shown
    names = {line.partition("=")[0] for line in shown.splitlines()}
    assert names == {
        *("PATH", "HOME", "USER", "SHELL", "LANG", "LC_MESSAGES", "TERM", "NO_COLOR", "PAGER", "GIT_PAGER", "TMPDIR"),
        *("NAMED", "PWD", "SHLVL", "_"),
    }


async def aborted(shell: Shell, marker: Marker, kind: str) -> tuple[ToolOutcome, list[ProcessRef]]:
    stop, outcomes = Signal(), []

    async def call() -> None:
        outcomes.append(await shell.run(STUBBORN, stop))

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            processes = await tree(marker)
            stop.abort(AbortReason(kind))  # type: ignore[arg-type]  # a parameter of the test
    return outcomes[0], processes


@pytest.mark.parametrize("mode", WRITING)
async def test_an_abort_leaves_nothing_of_the_tree_alive(root: Path, mode: SandboxMode) -> None:
    outcome, processes = await aborted(Shell(root, mode), Marker(root / "marker"), "user")
    await wait_gone(processes)
    assert outcome.text.startswith("Error: tool call aborted")
    assert outcome.error is not None
    assert (outcome.error.name, outcome.error.code) == ("AbortError", "ABORTED")
    assert "[killed by signal: SIGKILL]" in outcome.text
    assert outcome.text.endswith("[exit code: 137]")


@pytest.mark.parametrize("mode", WRITING)
async def test_teardown_takes_less_than_two_seconds(root: Path, mode: SandboxMode) -> None:
    outcome, processes = await aborted(Shell(root, mode), Marker(root / "marker"), "disposed")
    await wait_gone(processes)
    assert outcome.meta is not None
    assert not any(map(alive, processes))


@pytest.mark.parametrize("mode", WRITING)
async def test_a_cancelled_task_leaves_nothing_of_the_tree_alive(root: Path, mode: SandboxMode) -> None:
    marker = Marker(root / "marker")
    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Shell(root, mode).run, STUBBORN)
            processes = await tree(marker)
            began = anyio.current_time()
            tasks.cancel_scope.cancel()
    assert anyio.current_time() - began < 2
    await wait_gone(processes)


@pytest.mark.parametrize("mode", WRITING)
async def test_a_time_limit_ends_the_tree_and_the_result_says_so(root: Path, mode: SandboxMode) -> None:
    Marker(root / "marker")
    with anyio.fail_after(15):
        outcome = await Shell(root, mode).run(f"echo early; {STUBBORN}", timeout_s=1)
    await wait_gone(sleepers())
    assert outcome.is_error
    assert outcome.text == ("early\n[timed out after 1 s]\n[killed by signal: SIGKILL]\n[exit code: 137]")


@pytest.mark.parametrize("mode", WRITING)
async def test_a_command_is_asked_before_it_is_killed(root: Path, mode: SandboxMode) -> None:
    with anyio.fail_after(15):
        outcome = await Shell(root, mode).run(f"trap 'echo cleaned up; exit 7' TERM; sleep {C} & wait", timeout_s=1)
    assert outcome.text == "cleaned up\n[timed out after 1 s]\n[exit code: 7]"
    await wait_gone(sleepers())


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_command_leaves_in_the_background_ends_with_it(root: Path, mode: SandboxMode) -> None:
    with anyio.fail_after(10):
        outcome = await Shell(root, mode).run(f"setsid sleep {A} & (setsid sleep {B} &) ; echo done")
    assert outcome.text == "done\n[exit code: 0]"
    await wait_gone(sleepers())


@pytest.mark.parametrize("mode", WRITING)
async def test_a_tree_that_keeps_forking_is_ended(root: Path, mode: SandboxMode) -> None:
    script = f"f() {{ while :; do (sleep {A} &) ; (sleep 0.01); done; }}; trap '' TERM; f & f & f & wait"
    with anyio.fail_after(20):
        outcome = await Shell(root, mode).run(script, timeout_s=1)
    assert "[timed out after 1 s]" in outcome.text
    await wait_gone(sleepers())


AGENT = """
import sys, anyio
from pathlib import Path
from tests.sandbox.calls import Shell

async def main():
    await Shell(Path(sys.argv[1]), sys.argv[2]).run(sys.argv[3])

anyio.run(main)
"""


@pytest.mark.parametrize("mode", WRITING)
async def test_nothing_outlives_an_agent_that_is_killed(root: Path, mode: SandboxMode) -> None:
    """SIGKILL leaves the agent no time for anything: the kernel and the lifeline do it."""
    marker = Marker(root / "marker")
    argv = [sys.executable, "-c", AGENT, str(root), mode, STUBBORN]
    async with await anyio.open_process(argv, env={**os.environ, "PYTHONPATH": os.getcwd()}) as agent:
        try:
            processes = await tree(marker)
        finally:
            os.kill(agent.pid, signal.SIGKILL)
        await agent.wait()
        await wait_gone(processes)


async def test_two_sessions_run_commands_at_the_same_time(root: Path) -> None:
    """Each waits for the other, so one after the other would never end."""
    os.mkfifo(root / "there")
    os.mkfifo(root / "back")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Shell(root).output, "echo x > there; cat back")
            tasks.start_soon(Shell(root).output, "cat there; echo x > back")


def test_descendants_are_found_by_parent_and_names_with_brackets_do_not_confuse_them() -> None:
    assert set(supervisor.descendants(os.getpid())) >= {process.pid for process in descendants(os.getpid())}
    assert os.getpid() in supervisor.descendants(os.getppid())


async def test_a_shell_that_is_missing_is_said_by_the_supervisor(tmp_path: Path) -> None:
    missing = tmp_path / "no-shell"
    argv = [sys.executable, "-I", "-S", supervisor.__file__, str(missing)]
    lifeline, held = os.pipe()
    try:
        done = await anyio.run_process(argv, stdin=lifeline, check=False)
    finally:
        os.close(lifeline)
        os.close(held)
    assert done.returncode == 127
    assert done.stderr.decode() == f"{missing}: No such file or directory\n"

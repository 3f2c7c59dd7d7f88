"""No sandbox, no command (field case S1). Each time a marker file shows that nothing ran."""

import os
from pathlib import Path

import pytest

from acp_bridge import hookspecs
from acp_bridge.errors import SandboxUnavailable
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.sandbox.sandbox import SANDBOX
from acp_bridge_plugins.sandbox_local.local import LocalSandbox
from acp_bridge_plugins.sandbox_local.plugin import SandboxLocal
from acp_bridge_plugins.sandbox_local.probe import Prober, find_runner
from tests.sandbox.calls import Shell
from tests.support.processes import find, wait_gone

pytestmark = pytest.mark.anyio


def fake_bwrap(directory: Path, script: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "bwrap").chmod(0o755)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory that comes first on PATH."""
    path = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    return path


async def refused(shell: Shell) -> str:
    with pytest.raises(SandboxUnavailable) as failure:
        await shell.run("touch ran")
    assert os.listdir(shell.root) == []
    assert failure.value.code == "SANDBOX_UNAVAILABLE"
    return str(failure.value)


async def test_without_bubblewrap_the_refusal_names_what_to_install(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Install bubblewrap" in await refused(Shell(root))


async def test_a_bubblewrap_that_cannot_make_namespaces_is_found_out_by_running_it(root: Path, fakes: Path) -> None:
    fake_bwrap(fakes, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    reason = await refused(Shell(root))
    assert "setting up uid map: Permission denied" in reason
    assert "user namespaces" in reason


async def test_a_bubblewrap_that_hangs_is_given_up_with_its_children(root: Path, fakes: Path) -> None:
    fake_bwrap(fakes, "sleep 300 & echo $! > $(dirname $0)/child; wait")
    reason = await refused(Shell(root, sandbox=LocalSandbox(0.5, ())))
    assert "did not end within 0.5 s" in reason
    child = find(int((fakes / "child").read_text()))
    await wait_gone([child] if child else [])


async def test_a_runner_that_reports_success_without_running_anything_is_not_believed(root: Path, fakes: Path) -> None:
    fake_bwrap(fakes, "exit 0")
    assert "never ran" in await refused(Shell(root))


@pytest.mark.usefixtures("bubblewrap")
async def test_a_sandbox_that_stops_working_is_probed_again(bubblewrap: str, root: Path, fakes: Path) -> None:
    broken = fakes / "broken"
    fake_bwrap(fakes, f"test -e {broken} && {{ echo 'bwrap: no permissions' >&2; exit 1; }}\nexec {bubblewrap} \"$@\"")
    shell = Shell(root)
    assert await shell.output("echo works") == "works"
    broken.touch()
    assert "the command never ran: bwrap: no permissions" in await refused(shell)
    assert "cannot make its namespaces" in await refused(shell)


@pytest.mark.usefixtures("bubblewrap")
async def test_a_runners_words_from_a_command_that_ran_are_its_own_output(root: Path) -> None:
    outcome = await Shell(root).run("touch ran; echo 'bwrap: no permissions' >&2; exit 1")
    assert os.listdir(root) == ["ran"]
    assert "bwrap: no permissions" in outcome.text
    assert outcome.text.endswith("[exit code: 1]")


async def test_a_working_sandbox_is_probed_once_and_a_broken_one_again_after_a_while(tmp_path: Path) -> None:
    count, now = tmp_path / "count", [0.0]
    argv = ("/bin/sh", "-c", f"echo >> {count}; test -e {tmp_path}/works")
    prober = Prober(lambda: now[0])
    for seconds, probes in ((0, 1), (29, 1), (31, 2)):
        now[0] = seconds
        assert await prober.reason(argv, 5) is not None
        assert len(count.read_text()) == probes
    (tmp_path / "works").touch()
    for seconds, probes in ((70, 3), (10_000, 3)):
        now[0] = seconds
        assert await prober.reason(argv, 5) is None
        assert len(count.read_text()) == probes
    prober.forget()
    assert await prober.reason(argv, 5) is None
    assert len(count.read_text()) == 4


async def test_a_bubblewrap_that_lies_in_the_workspace_or_in_a_relative_place_is_not_run(
    root: Path, fakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command could put it there for the next one."""
    fake_bwrap(root, "exit 0")
    fake_bwrap(fakes, "exit 0")
    monkeypatch.chdir(root)
    assert find_runner((str(root),), f"{root}:.:{fakes}") == str(fakes / "bwrap")


async def test_a_provider_that_is_missing_means_no(root: Path) -> None:
    shell = Shell(root)
    shell.sandbox = None
    assert "no sandbox" in await refused(shell)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_probe_without_a_real_timeout_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        SandboxLocal(probe_timeout_seconds=seconds)


async def test_the_plugin_provides_the_sandbox_without_probing_and_takes_it_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel = Kernel(hookspecs, Silent())
    async with kernel.mounted(SandboxLocal()):
        assert kernel.get(SANDBOX) is not None
    assert kernel.get(SANDBOX) is None

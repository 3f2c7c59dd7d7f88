"""What the model reads of a command (contracts §8.4, §8.6), and in which sandbox it ran."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from acp_bridge.sandbox.policy import SandboxMode, SandboxPolicy
from acp_bridge.sandbox.sandbox import Confined
from acp_bridge.session.events import AbortReason
from acp_bridge.session.signal import Signal
from acp_bridge_plugins.sandbox_local.local import LocalSandbox
from tests.sandbox.calls import Shell, execution

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bubblewrap")]

MODES: list[SandboxMode] = ["workspace-write", "danger-full-access"]


class Recording:
    """The real sandbox, and what it was asked."""

    def __init__(self) -> None:
        self.policies: list[SandboxPolicy] = []
        self.settled: list[bool] = []
        self._real = LocalSandbox(5.0, ())

    async def confine(self, argv: Sequence[str], policy: SandboxPolicy, cwd: str) -> Confined:
        self.policies.append(policy)
        confined = await self._real.confine(argv, policy, cwd)
        settled = confined.settled

        def both(ran: bool) -> None:
            self.settled.append(ran)
            assert settled is not None
            settled(ran)

        return Confined(
            confined.argv, confined.provider, confined.enforcement, confined.runner_failure, confined.denial, both
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("command", "text", "failed"),
    [
        ("true", "(no output)\n[exit code: 0]", False),
        ("echo out; echo err >&2", "out\n[stderr]\nerr\n[exit code: 0]", False),
        ("echo err >&2; exit 3", "[stderr]\nerr\n[exit code: 3]", True),
        ("kill -SEGV $$", "(no output)\n[128 + 11: probably killed by signal SIGSEGV]\n[exit code: 139]", True),
        ("exit 129", "(no output)\n[exit code: 129]", True),
        ("printf 'a\\0b'; exit 0", "[3 bytes that are not text]\n[exit code: 0]", False),
        ("yes | head -1", "y\n[exit code: 0]", False),
    ],
)
async def test_output_comes_first_and_the_exit_code_last(
    root: Path, mode: SandboxMode, command: str, text: str, failed: bool
) -> None:
    outcome = await Shell(root, mode).run(command)
    assert outcome.text == text
    assert outcome.is_error is failed


@pytest.mark.parametrize("mode", MODES)
async def test_facts_go_to_meta(root: Path, mode: SandboxMode) -> None:
    outcome = await Shell(root, mode).run("exit 4")
    assert outcome.meta is not None
    assert isinstance(outcome.meta.pop("durationMs"), int)
    confined = mode != "danger-full-access"
    assert outcome.meta == {
        "exitCode": 4,
        "signal": None,
        "sandbox": {
            "mode": mode,
            "provider": "bubblewrap" if confined else None,
            "enforcement": "full" if confined else None,
            "denied": False,
        },
    }


@pytest.mark.parametrize("mode", MODES)
async def test_the_bytes_that_run_are_the_bytes_that_were_shown(root: Path, mode: SandboxMode) -> None:
    """A NUL cannot pass, everything else must: the script reads its own command line."""
    command = "tr '\\0' '\\n' < /proc/$$/cmdline; : \u202e é \x07 \\ $(echo `echo x`) \"'\"\n  "
    # bash would replace itself by the last command; the colon keeps it.
    outcome = await Shell(root, mode).run(command)
    assert outcome.text.rstrip().startswith(f"/bin/bash\n-c\n{command}".rstrip().replace("\x07", "�"))


@pytest.mark.parametrize("mode", MODES)
async def test_commands_start_in_the_directory_they_ask_for(root: Path, mode: SandboxMode) -> None:
    (root / "deep").mkdir()
    assert await Shell(root, mode).output("pwd", cwd="deep") == str(root / "deep")
    assert await Shell(root, mode).output("pwd") == str(root)


@pytest.mark.parametrize("mode", MODES)
async def test_a_folder_that_vanished_after_it_was_approved_runs_nothing(root: Path, mode: SandboxMode) -> None:
    from acp_bridge.errors import ToolFailed

    (root / "gone").mkdir()
    shell = Shell(root, mode)
    call = execution(root, {"command": "touch ../ran", "cwd": "gone"}, mode)
    call.prepared = await shell.tool.prepare(call)
    (root / "gone").rmdir()
    with pytest.raises(ToolFailed, match="did not run"):
        await shell.tool.execute(call)
    assert not (root / "ran").exists()


async def test_a_request_for_more_stays_in_the_sessions_sandbox_until_it_is_granted(root: Path, tmp_path: Path) -> None:
    """The pipeline widens `sandbox_mode` of one execution; a request by itself widens nothing."""
    outside = tmp_path / "outside"
    arguments = {"command": f"touch {outside}", "sandbox_permissions": "danger-full-access", "justification": "x"}
    shell = Shell(root)
    call = execution(root, arguments)
    call.prepared = await shell.tool.prepare(call)
    outcome = await shell.tool.execute(call)
    assert outcome.meta is not None
    assert outcome.meta["sandbox"]["mode"] == "workspace-write"
    assert not outside.exists()

    call.sandbox_mode = "danger-full-access"
    assert not (await shell.tool.execute(call)).is_error
    assert outside.exists()


async def test_a_session_that_became_wider_meanwhile_does_not_widen_what_was_approved(root: Path) -> None:
    sandbox = Recording()
    call = execution(root, {"command": "true"}, "read-only")
    shell = Shell(root, sandbox=sandbox)
    call.prepared = await shell.tool.prepare(call)
    call.sandbox_mode = "workspace-write"
    await shell.tool.execute(call)
    assert sandbox.policies == [SandboxPolicy("read-only", (str(root),))]


async def test_the_policy_names_canonical_roots(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    sandbox = Recording()
    outcome = await Shell(tmp_path / "link", sandbox=sandbox).run("touch here")
    assert not outcome.is_error
    assert (root / "here").exists()
    assert sandbox.policies == [SandboxPolicy("workspace-write", (str(root),))]


async def test_the_provider_hears_once_how_each_run_ended(root: Path) -> None:
    sandbox = Recording()
    shell = Shell(root, sandbox=sandbox)
    await shell.run("exit 1")
    stop = Signal()
    stop.abort(AbortReason("user"))
    await shell.run("sleep 100", stop)
    with anyio.move_on_after(0.2):
        await shell.run("sleep 100")
    assert sandbox.settled == [True, True, True]


async def test_partial_output_of_an_aborted_command_is_kept(root: Path) -> None:
    stop = Signal()
    texts = []

    async def call() -> None:
        texts.append((await Shell(root, "danger-full-access").run("echo before; cat pipe; sleep 100", stop)).text)

    import os

    os.mkfifo(root / "pipe")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            # Opening the pipe for writing waits until the command reads it, so `before` has been written.
            await anyio.to_thread.run_sync((root / "pipe").write_text, "between\n")
            stop.abort(AbortReason("user"))
    assert texts[0].startswith("Error: tool call aborted\nbefore\n")
    assert texts[0].endswith("[killed by signal: SIGTERM]\n[exit code: 143]")


@pytest.mark.parametrize("mode", MODES)
async def test_a_flood_is_cut_counted_and_read_to_its_end(root: Path, mode: SandboxMode) -> None:
    outcome = await Shell(root, mode).run("seq 1 500000; head -c 20000000 /dev/zero | tr '\\0' x >&2; exit 5")
    assert len(outcome.text) < 70_000
    assert outcome.text.startswith("1\n2\n3\n")
    assert "bytes left out]" in outcome.text
    assert outcome.text.endswith("x\n[exit code: 5]")


async def test_stopping_a_flood_works(root: Path) -> None:
    with anyio.fail_after(10):
        outcome = await Shell(root).run("yes", timeout_s=1)
    assert outcome.text.startswith("y\ny\n")
    assert outcome.text.endswith("[timed out after 1 s]\n[killed by signal: SIGTERM]\n[exit code: 143]")
    assert outcome.error is not None
    assert outcome.error.code == "TOOL_TIMEOUT"

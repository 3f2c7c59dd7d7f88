"""What a confined command can and cannot do. The disk is the witness, never the command's own report."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from acp_bridge.errors import SandboxUnavailable
from tests.sandbox.calls import Shell
from tests.sandbox.layouts import LAYOUTS, clone, git

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bubblewrap")]


async def test_workspace_write_writes_inside_the_root_and_nowhere_else(root: Path, tmp_path: Path) -> None:
    inside, outside = root / "inside", tmp_path / "outside"
    outcome = await Shell(root).run(f"echo yes > {inside}; echo no > {outside}")
    assert inside.read_text() == "yes\n"
    assert not outside.exists()
    assert outcome.is_error or outcome.meta is not None


@pytest.mark.parametrize("place", ["/etc", "/usr", "/var/tmp", "/sys", "/proc/sys/kernel", "/root"])
async def test_places_outside_refuse_even_root(root: Path, place: str) -> None:
    before = sorted(os.listdir(place))
    outcome = await Shell(root).run(f"touch {place}/acp-bridge-was-here")
    assert sorted(os.listdir(place)) == before
    assert outcome.is_error


async def test_keys_in_the_home_directory_cannot_be_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not below /tmp, where commands would see an empty directory.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        monkeypatch.setenv("HOME", home)
        keys = Path(home, ".ssh/authorized_keys")
        keys.parent.mkdir()
        keys.write_text("mine\n")
        outcome = await Shell(root).run("cat ~/.ssh/authorized_keys; echo evil >> ~/.ssh/authorized_keys; rm -r ~/.ssh")
        assert outcome.text.startswith("mine\n")
        assert outcome.is_error
        assert keys.read_text() == "mine\n"


async def test_a_refused_write_is_marked_with_the_mode_and_the_way_out(root: Path) -> None:
    outcome = await Shell(root).run("touch /etc/acp-bridge-was-here")
    assert "[sandbox: file access denied under workspace-write mode]" in outcome.text
    assert "sandbox_permissions" in outcome.text
    assert outcome.text.endswith("[exit code: 1]")
    assert outcome.meta is not None
    assert outcome.meta["sandbox"] == {
        "mode": "workspace-write",
        "provider": "bubblewrap",
        "enforcement": "full",
        "denied": True,
    }


async def test_words_of_a_denial_in_a_command_that_succeeds_mean_nothing(root: Path) -> None:
    outcome = await Shell(root).run("echo 'Read-only file system' >&2")
    assert "[sandbox:" not in outcome.text


async def test_read_only_reads_the_root_and_writes_nothing(root: Path) -> None:
    (root / "here").write_text("content")
    shell = Shell(root, "read-only")
    assert await shell.output("cat here") == "content"
    outcome = await shell.run("echo x > here; echo x > new; echo x > /tmp/new; true > /dev/null")
    assert outcome.is_error is False
    assert (root / "here").read_text() == "content"
    assert os.listdir(root) == ["here"]


async def test_the_temporary_directory_is_private_and_gone_with_the_command(root: Path) -> None:
    shell = Shell(root)
    assert await shell.output("echo x > /tmp/acp-bridge-private && cat /tmp/acp-bridge-private") == "x"
    assert not Path("/tmp/acp-bridge-private").exists()
    assert (await shell.run("cat /tmp/acp-bridge-private")).is_error


async def test_a_listener_of_the_host_cannot_be_reached(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        outcome = await Shell(root).run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        assert outcome.is_error
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_sockets_of_the_hosts_services_are_out_of_sight(root: Path) -> None:
    assert await Shell(root).output("find /run /var/run/ -type s") == "(no output)"


async def test_root_cannot_undo_the_mounts(root: Path, tmp_path: Path) -> None:
    """bubblewrap leaves root all capabilities unless told otherwise."""
    outside = tmp_path / "outside"
    tries = ["mount -o remount,rw,bind /", "umount /proc/sys", "unshare -Urm mount -o remount,rw,bind /"]
    outcome = await Shell(root).run("; ".join([*tries, f"touch {outside}", "test -w /proc/sys/kernel/core_pattern"]))
    assert outcome.is_error
    assert not outside.exists()


async def test_processes_of_the_host_are_out_of_sight(root: Path) -> None:
    outcome = await Shell(root).run(f"ls /proc; kill -0 {os.getpid()}")
    shown = {int(name) for name in outcome.text.split() if name.isdigit()}
    assert 1 in shown
    assert len(shown) < 10
    assert "No such process" in outcome.text


async def test_the_agents_own_directories_are_empty_to_commands(root: Path, tmp_path: Path) -> None:
    """Field case D10: in the root, beside it, and not there at all."""
    state, config = root / "state", tmp_path / "config"
    for directory in (state, config):
        directory.mkdir()
        (directory / "secret").write_text("sk-secret")
    shell = Shell(root, private_dirs=(str(state), str(config), str(tmp_path / "missing")))
    outcome = await shell.run(f"cat {state}/secret {config}/secret; echo x > {state}/new; mv {state} {root}/moved")
    assert "sk-secret" not in outcome.text
    assert os.listdir(state) == ["secret"]


async def test_a_command_cannot_run_inside_the_agents_own_directories(root: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="agent's own files"):
        await Shell(root, private_dirs=(str(root),)).run("touch here")
    assert os.listdir(root) == []


async def test_a_session_in_the_file_systems_root_is_no_workspace() -> None:
    with pytest.raises(SandboxUnavailable, match="open a project folder"):
        await Shell(Path("/")).run("true", cwd="/")


async def test_the_sandbox_never_takes_danger_full_access() -> None:
    from acp_bridge.sandbox.policy import SandboxPolicy

    shell = Shell(Path("/"))
    assert shell.sandbox is not None
    with pytest.raises(SandboxUnavailable):
        await shell.sandbox.confine(("true",), SandboxPolicy("danger-full-access", ()), "/")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("git")
async def test_add_commit_and_branch_work_in_every_layout(layout: type, tmp_path: Path) -> None:
    root = layout(tmp_path / "w")
    await Shell(root).output(
        "echo 2 > second && git add second && git commit -qm second && git branch side && git tag t && git stash list"
        " && git checkout -q side && git commit -q --allow-empty -m third && git checkout -q - && git status"
    )
    assert git("log", "-1", "--format=%s", at=root) == "second"
    assert git("log", "-1", "--format=%s", "side", at=root) == "third"
    assert git("status", "--short", at=root) == ""


ATTACKS = [
    "d=$(git rev-parse --git-common-dir); echo x > $d/hooks/pre-commit",
    "d=$(git rev-parse --git-common-dir); rm -rf $d/hooks; mkdir -p $d/hooks; echo x > $d/hooks/pre-commit",
    "d=$(git rev-parse --git-common-dir); mv $d/hooks $d/away; mkdir $d/hooks; echo x > $d/hooks/pre-commit",
    "git config core.fsmonitor 'touch pwned'",
    "d=$(git rev-parse --git-common-dir); printf '[core]\\nfsmonitor=x' >> $d/config; rm $d/config; mv $d/config $d/c",
    "mkdir evil; echo $PWD/evil > $(git rev-parse --git-common-dir)/commondir",
    "rm -rf .git; mv .git away; mkdir .git; echo 'gitdir: evil' > .git",
    "d=$(git rev-parse --git-dir); echo $PWD/evil > $d/commondir; mv $d $d-away",
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.usefixtures("git")
async def test_what_git_runs_later_stays_as_it_was(layout: type, attack: str, tmp_path: Path) -> None:
    root = layout(tmp_path / "w")
    guarded = (".git", "hooks", "config", "commondir", "gitdir", "config.worktree")

    def state() -> dict[str, bytes | list[str]]:
        found = [path for path in (tmp_path / "w").rglob("*") if path.name in guarded and "evil" not in path.parts]
        return {
            str(path): sorted(os.listdir(path)) if path.name == "hooks" else path.read_bytes()
            for path in found
            if path.is_file() or path.name == "hooks"
        }

    before = state()
    await Shell(root).run(attack)
    assert state() == before


@pytest.mark.usefixtures("git")
async def test_a_missing_hooks_directory_cannot_be_made_and_leaves_nothing_behind(tmp_path: Path) -> None:
    root = clone(tmp_path / "w")
    (root / ".git/hooks").rename(tmp_path / "away")
    await Shell(root).run("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit")
    assert not (root / ".git/hooks").exists()
    assert not (root / ".git/commondir").exists()


async def test_a_repository_cannot_be_made_where_none_was(root: Path) -> None:
    outcome = await Shell(root).run("mkdir -p .git/hooks && echo x > .git/hooks/pre-commit; git init")
    assert outcome.is_error
    assert os.listdir(root) == []


@pytest.mark.usefixtures("git")
async def test_submodules_of_a_superproject_keep_their_hooks_and_pointers(tmp_path: Path) -> None:
    from tests.sandbox.layouts import submodule

    inner = submodule(tmp_path / "w")
    pointer = (inner / ".git").read_text()
    await Shell(inner.parent).run("echo x > .git/modules/inner/hooks/pre-commit; echo 'gitdir: /evil' > inner/.git")
    assert (inner / ".git").read_text() == pointer
    assert not (inner.parent / ".git/modules/inner/hooks/pre-commit").exists()
    await Shell(inner.parent).output("cd inner && echo 2 > second && git add second && git commit -qm second")
    assert git("log", "-1", "--format=%s", at=inner) == "second"


async def test_a_symbolic_link_for_a_git_directory_is_admitted_as_partial(root: Path, tmp_path: Path) -> None:
    (root / ".git").symlink_to(tmp_path)
    outcome = await Shell(root).run("true")
    assert outcome.meta is not None
    assert outcome.meta["sandbox"]["enforcement"] == "partial"

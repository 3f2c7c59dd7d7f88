"""What bubblewrap is told, as tables (contracts §8.3)."""

import msgspec
import pytest

from acp_bridge.sandbox.policy import SandboxPolicy
from acp_bridge_plugins.sandbox_local.profiles import Facts, bwrap_argv

MACHINE = Facts("/usr/bin/bwrap", emptied=("/tmp", "/run"), kept=("/run/wrappers",))
ALWAYS = [
    "/usr/bin/bwrap --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --die-with-parent --new-session",
    "--unshare-net",
    "--ro-bind / / --dev /dev --proc /proc --ro-bind /proc/sys /proc/sys",
    "--tmpfs /tmp --tmpfs /run --ro-bind /run/wrappers /run/wrappers",
]


def told(facts: Facts, policy: SandboxPolicy, cwd: str = "/w") -> str:
    return " ".join(bwrap_argv(facts, policy, cwd, ("bash", "-c", "true")))


def with_facts(**facts: tuple[str, ...]) -> Facts:
    return msgspec.structs.replace(MACHINE, kept=(), **facts)


@pytest.mark.parametrize(
    ("policy", "rest"),
    [
        (SandboxPolicy("read-only", ("/w",)), "--remount-ro /tmp --remount-ro /run"),
        (SandboxPolicy("read-only", ("/tmp/w",)), "--ro-bind /tmp/w /tmp/w --remount-ro /tmp --remount-ro /run"),
        (SandboxPolicy("workspace-write", ("/w",)), "--bind /w /w --remount-ro /run"),
        (SandboxPolicy("workspace-write", ("/w/deep", "/w")), "--bind /w /w --bind /w/deep /w/deep --remount-ro /run"),
        (SandboxPolicy("workspace-write", ("/tmp/w",)), "--bind /tmp/w /tmp/w --remount-ro /run"),
    ],
)
def test_each_mode_opens_its_roots_after_everything_was_closed(policy: SandboxPolicy, rest: str) -> None:
    assert told(MACHINE, policy) == " ".join([*ALWAYS, rest, "--chdir /w -- bash -c true"])


def test_a_root_that_is_the_temporary_directory_is_not_covered_by_a_private_one() -> None:
    line = told(MACHINE, SandboxPolicy("workspace-write", ("/tmp",)))
    assert "--tmpfs /tmp" not in line
    assert "--bind /tmp /tmp" in line


def test_network_is_there_only_when_the_policy_says_so() -> None:
    assert "--unshare-net" not in told(MACHINE, SandboxPolicy("workspace-write", ("/w",), network=True))


def test_root_keeps_four_capabilities_and_no_other() -> None:
    line = told(Facts("/usr/bin/bwrap", superuser=True), SandboxPolicy("read-only", ()))
    added = line.split("--cap-drop ALL ")[1].split(" --ro-bind")[0]
    assert added == "--cap-add CAP_CHOWN --cap-add CAP_DAC_OVERRIDE --cap-add CAP_FOWNER --cap-add CAP_FSETID"


def test_what_is_protected_comes_after_what_is_opened_and_the_agents_own_after_that() -> None:
    facts = with_facts(
        writable=("/m/.git", "/w/.git"), protected=("/w/.git/hooks", "/m/.git/config"), private=("/w/s",)
    )
    line = told(facts, SandboxPolicy("workspace-write", ("/w",)))
    opened = "--bind /w /w --bind /m/.git /m/.git --bind /w/.git /w/.git"
    closed = "--ro-bind /m/.git/config /m/.git/config --ro-bind /w/.git/hooks /w/.git/hooks"
    assert f"{opened} {closed} --tmpfs /w/s --remount-ro /w/s --remount-ro /run --chdir" in line


def test_read_only_opens_no_git_directory() -> None:
    facts = with_facts(writable=("/m/.git",), protected=("/w/.git/hooks",))
    assert "/m/.git" not in told(facts, SandboxPolicy("read-only", ("/w",)))


def test_private_directories_that_are_out_of_sight_already_are_left_alone() -> None:
    facts = with_facts(private=("/tmp/agent", "/tmp/w/agent"))
    line = told(facts, SandboxPolicy("read-only", ("/tmp/w",)))
    assert "--tmpfs /tmp/agent" not in line
    assert "--tmpfs /tmp/w/agent --remount-ro /tmp/w/agent" in line


def test_the_command_stands_behind_a_separator_whatever_it_looks_like() -> None:
    argv = bwrap_argv(MACHINE, SandboxPolicy("read-only", ()), "/w", ("--bind", "/", "/"))
    assert argv[-4:] == ("--", "--bind", "/", "/")

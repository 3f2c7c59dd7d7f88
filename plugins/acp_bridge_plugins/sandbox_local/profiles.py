"""What bubblewrap is told for one command (contracts §8.3, design §12).

Owns: argv, as a pure function of the policy and of facts that were read before. Must not know: how facts are read,
who runs the argv. Invariant: `/` is read-only first and only what the policy names is opened again; whatever must
stay closed (git's hooks and config, the agent's own directories) is closed last, so that no earlier line reopens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct

from acp_bridge.sandbox.policy import SandboxPolicy

__all__ = ["DENIAL", "RUNNER_FAILURE", "TEMPORARY", "Facts", "beneath", "bwrap_argv"]

# The area that workspace-write may use besides its roots: private, and gone with the command.
TEMPORARY = "/tmp"  # noqa: S108  # a mount point inside the sandbox, never a file of ours
RUNNER_FAILURE = ("bwrap: ",)
DENIAL = ("read-only file system",)

# --new-session: without it a command could push keystrokes into a terminal that the agent was started from.
_ISOLATION = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session"),
)
# bubblewrap leaves every capability to a caller that is root, and with them a command remounts `/` writable. These
# four let root work on files of other owners inside the roots. Not CAP_DAC_READ_SEARCH: it opens files by handle,
# past every mount.
_ROOT_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")


class Facts(Struct, frozen=True):
    """Read from the machine for one run; every path is canonical and exists.

    `emptied`: directories that hold sockets of services and other people's files; commands see them empty.
    `kept`: what stays visible below those, read-only. `private`: the agent's own state and configuration.
    `writable`: git directories to open or to pin (a mount point cannot be renamed away).
    `sockets`: whoever reaches one talks to a program outside.
    `protected`: what stays read-only inside roots and git directories.
    """

    runner: str
    superuser: bool = False
    emptied: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()


def bwrap_argv(facts: Facts, policy: SandboxPolicy, cwd: str, argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` under bubblewrap, with `cwd` as its directory."""
    emptied = [path for path in facts.emptied if not beneath(path, policy.roots)]
    open_ones = (TEMPORARY,) if policy.mode == "workspace-write" else ()
    return (
        facts.runner,
        *_ISOLATION,
        *(() if policy.network else ("--unshare-net",)),
        *(_capabilities() if facts.superuser else ()),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # bubblewrap leaves /proc/sys to root, and core_pattern there runs programs on the host.
        *("--ro-bind", "/proc/sys", "/proc/sys"),
        *(word for path in emptied for word in ("--tmpfs", path)),
        *_binds("--ro-bind", [path for path in facts.kept if beneath(path, emptied)]),
        *_roots(facts, policy, emptied),
        *_hidden([path for path in facts.private if beneath(path, policy.roots) or not beneath(path, emptied)]),
        *_deaf([path for path in facts.sockets if _visible(path, facts, emptied, policy)]),
        # Last: below a read-only directory bubblewrap could make no more mount points.
        *_read_only([path for path in emptied if path not in open_ones]),
        *("--chdir", cwd, "--", *argv),
    )


def beneath(path: str, directories: Sequence[str]) -> bool:
    """Whether one of `directories` is `path` or holds it; all are canonical."""
    return any(PurePath(path).is_relative_to(directory) for directory in directories)


def _roots(facts: Facts, policy: SandboxPolicy, emptied: Sequence[str]) -> tuple[str, ...]:
    if policy.mode != "workspace-write":
        return _binds("--ro-bind", [root for root in policy.roots if beneath(root, emptied)])
    return (*_binds("--bind", {*policy.roots, *facts.writable}), *_binds("--ro-bind", facts.protected))


def _binds(option: str, paths: Sequence[str] | set[str]) -> tuple[str, ...]:
    # Shallow before deep: a later mount over a parent would cover what was mounted below it.
    ordered = sorted(paths, key=lambda path: (path.count("/"), path))
    return tuple(word for path in ordered for word in (option, path, path))


def _hidden(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for path in paths for word in ("--tmpfs", path, "--remount-ro", path))


def _visible(path: str, facts: Facts, emptied: Sequence[str], policy: SandboxPolicy) -> bool:
    if beneath(path, facts.private):
        return False
    return not beneath(path, emptied) or beneath(path, facts.kept) or beneath(path, policy.roots)


def _deaf(sockets: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for path in sockets for word in ("--ro-bind", "/dev/null", path))


def _read_only(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for path in paths for word in ("--remount-ro", path))


def _capabilities() -> tuple[str, ...]:
    return ("--cap-drop", "ALL", *(word for name in _ROOT_CAPABILITIES for word in ("--cap-add", name)))

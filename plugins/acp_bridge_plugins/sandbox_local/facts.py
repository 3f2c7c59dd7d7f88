"""Reads from the machine what the profile needs to know for one run (design §12).

Owns: looking at directories. Must not know: bubblewrap's options. Invariant: paths come out canonical and existing,
because a mount follows no link; nothing on the machine is changed here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from acp_bridge_plugins.sandbox_local.profiles import TEMPORARY, Facts

__all__ = ["read_facts"]

# Sockets live here (container engines, the system and session bus, ssh agents, terminal multiplexers), and whoever
# reaches one runs programs outside of any sandbox; a network namespace does not stop sockets that have a path.
_EMPTIED = (TEMPORARY, "/run", "/var/run")
# Programs and name resolution that some systems keep below /run.
_KEPT = (
    *("/run/current-system", "/run/booted-system", "/run/wrappers", "/run/opengl-driver"),
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"),
)


def read_facts(runner: str, private_dirs: Sequence[str]) -> Facts:
    return Facts(
        runner,
        superuser=os.geteuid() == 0,
        emptied=_canonical(_EMPTIED),
        # Not resolved: a link on the way is part of what programs look for.
        kept=tuple(path for path in _KEPT if os.path.exists(path)),  # noqa: PTH110
        private=_canonical(private_dirs),
        sockets=_sockets(),
    )


def _sockets() -> tuple[str, ...]:
    """Every socket that somebody on this machine listens on at a path, wherever that is (a container engine's in the
    home directory, an agent's): all but the path is in /proc."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as table:
            paths = {fields[7].rstrip("\n") for line in table if len(fields := line.split(None, 7)) == 8}
    except OSError:
        return ()
    return tuple(sorted(os.path.realpath(path) for path in paths if path.startswith("/") and _is_socket(path)))


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  # paths are strings here
    except (OSError, ValueError):
        return False


def _canonical(paths: Iterable[str]) -> tuple[str, ...]:
    real = dict.fromkeys(os.path.realpath(path) for path in paths)
    return tuple(path for path in real if os.path.isdir(path))  # noqa: PTH112

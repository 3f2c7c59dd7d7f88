"""Reads from the machine what the profile needs to know for one run (design §12).

Owns: looking at directories. Must not know: bubblewrap's options. Invariant: paths come out canonical and existing,
because a mount follows no link; nothing on the machine is changed here.
"""

from __future__ import annotations

import os
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
    )


def _canonical(paths: Iterable[str]) -> tuple[str, ...]:
    real = dict.fromkeys(os.path.realpath(path) for path in paths)
    return tuple(path for path in real if os.path.isdir(path))  # noqa: PTH112

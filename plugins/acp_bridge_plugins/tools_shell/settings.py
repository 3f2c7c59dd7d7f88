"""What the composition can set about commands.

Owns: the names, defaults and their sources. Must not know: where settings come from. Invariant: frozen.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["ShellSettings"]


class ShellSettings(Struct, frozen=True):
    """`environment` names variables of the agent that commands get besides the usual ones; `network` opens it for
    confined commands. Times are seconds, from contracts §8.6."""

    environment: tuple[str, ...] = ()
    network: bool = False
    default_timeout_seconds: float = 120.0
    longest_timeout_seconds: float = 600.0

"""What the composition can set about commands.

Owns: the names, defaults and their sources. Must not know: where settings come from. Invariant: frozen.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["ShellSettings"]


Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class ShellSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`environment` names variables of the agent that commands get besides the usual ones; `network` opens it for
    confined commands. Times are seconds, from contracts §8.6."""

    environment: tuple[str, ...] = ()
    network: bool = False
    default_timeout_seconds: Seconds = 120.0
    longest_timeout_seconds: Seconds = 600.0

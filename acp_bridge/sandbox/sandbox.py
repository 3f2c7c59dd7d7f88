"""The sandbox seam: confine a command line (contracts §8.2).

Owns: the Protocol. Must not know: providers. Invariant: `confine` never returns argv unwrapped; who asks for
danger-full-access does not come here at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from acp_bridge.lifecycle.kernel import ServiceKey
from acp_bridge.sandbox.policy import SandboxPolicy

__all__ = ["SANDBOX", "Confined", "Sandbox"]


class Confined(Struct, frozen=True):
    """`runner_failure` holds texts that, on a line of stderr of a failed run, say the command never ran;
    `denial` texts (case-insensitive) that say the sandbox refused something.

    `settled`, where there is one, must be called once when the run is over: the provider frees what it held for
    this run, and with False (the runner failed, the command never ran) it probes again before the next one."""

    argv: tuple[str, ...]
    provider: str
    enforcement: Literal["full", "partial"]
    runner_failure: tuple[str, ...]
    denial: tuple[str, ...]
    settled: Callable[[bool], None] | None = None


class Sandbox(Protocol):
    async def confine(self, argv: Sequence[str], policy: SandboxPolicy, cwd: str) -> Confined:
        """Raises SandboxUnavailable, with the reason, when no provider works here (probed by running)."""


SANDBOX = ServiceKey[Sandbox]("sandbox")

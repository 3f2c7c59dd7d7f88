"""Provides SANDBOX with what this machine has: bubblewrap on Linux (design §12).

Owns: the service's registration. Must not know: who confines what. Invariant: nothing is probed or read before the
first command, so that starting costs nothing. Landlock and Seatbelt come later; machines that would need them are
refused with SandboxUnavailable, never run bare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.sandbox.policy import SandboxPolicy
from acp_bridge.sandbox.sandbox import SANDBOX, Confined, Sandbox

__all__ = ["SandboxLocal"]


class SandboxLocal:
    """`probe_timeout_seconds` must be positive and finite. Raises ValueError."""

    name = "sandbox_local"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, probe_timeout_seconds: float = 5.0, private_dirs: tuple[str, ...] = ()) -> None:
        if not 0 < probe_timeout_seconds < float("inf"):
            raise ValueError("probe_timeout_seconds must be positive and finite")
        self._probe_timeout_seconds = probe_timeout_seconds
        self._private_dirs = private_dirs

    async def mount(self, context: Context) -> None:
        context.provide(SANDBOX, _FirstUse(self._probe_timeout_seconds, self._private_dirs))


class _FirstUse:
    """Imports and makes the real sandbox when the first command is confined."""

    def __init__(self, probe_timeout_seconds: float, private_dirs: tuple[str, ...]) -> None:
        self._arguments = (probe_timeout_seconds, private_dirs)
        self._sandbox: Sandbox | None = None

    async def confine(self, argv: Sequence[str], policy: SandboxPolicy, cwd: str) -> Confined:
        if self._sandbox is None:
            from acp_bridge_plugins.sandbox_local.local import LocalSandbox

            self._sandbox = LocalSandbox(*self._arguments)
        return await self._sandbox.confine(argv, policy, cwd)

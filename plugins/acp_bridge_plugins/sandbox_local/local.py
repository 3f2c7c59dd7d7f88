"""The sandbox of this machine: bubblewrap on Linux, a refusal anywhere else (design §12).

Owns: answering `confine`. Must not know: tools, approvals. Invariant: what comes back is wrapped and was probed by
running; when anything is missing or cannot be covered, it raises SandboxUnavailable instead. Landlock (Linux without
namespaces) and Seatbelt (macOS) come later; until then such machines are refused by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec

from acp_bridge.errors import SandboxUnavailable
from acp_bridge.sandbox.policy import SandboxPolicy
from acp_bridge.sandbox.sandbox import Confined
from acp_bridge_plugins.sandbox_local.facts import read_facts
from acp_bridge_plugins.sandbox_local.git import Guard, guard, joined
from acp_bridge_plugins.sandbox_local.placeholders import Held, hold
from acp_bridge_plugins.sandbox_local.probe import INSTALL, Prober, find_runner
from acp_bridge_plugins.sandbox_local.profiles import DENIAL, RUNNER_FAILURE, Facts, beneath, bwrap_argv

__all__ = ["LocalSandbox"]

_PROBED = SandboxPolicy("read-only", ())


class LocalSandbox:
    """`private_dirs` are the agent's own state and configuration: commands see them empty (field case D10)."""

    def __init__(self, probe_timeout_seconds: float, private_dirs: Sequence[str], prober: Prober | None = None) -> None:
        self._probe_timeout_seconds = probe_timeout_seconds
        self._private_dirs = tuple(private_dirs)
        self._prober = prober or Prober()

    async def confine(self, argv: Sequence[str], policy: SandboxPolicy, cwd: str) -> Confined:
        """Raises SandboxUnavailable. The caller calls `settled` once, when the run is over."""
        if policy.mode == "danger-full-access":
            raise SandboxUnavailable("danger-full-access is not a sandbox mode that confines anything.")
        if policy.mode == "workspace-write" and os.sep in policy.roots:
            raise SandboxUnavailable(
                "The session's folder is /, so workspace-write would confine nothing; open a project folder."
            )
        facts = read_facts(await self._working_runner(policy.roots), self._private_dirs)
        _refuse_hidden(facts, policy, cwd)
        if policy.mode == "read-only":
            return self._confined(facts, policy, cwd, argv, Held(), complete=True)
        found = joined([guard(root) for root in policy.roots])
        held = hold(found.placeholders)
        return self._confined(_guarded(facts, found, held), policy, cwd, argv, held, complete=found.complete)

    async def _working_runner(self, roots: Sequence[str]) -> str:
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable(
                f"There is no sandbox for {sys.platform} yet (Linux with bubblewrap only), so the command was not run."
            )
        runner = find_runner(roots)
        if runner is None:
            raise SandboxUnavailable(f"{INSTALL}: without it commands cannot be confined, so the command was not run.")
        probed = bwrap_argv(read_facts(runner, ()), _PROBED, "/", ("true",))
        reason = await self._prober.reason(probed, self._probe_timeout_seconds)
        if reason is not None:
            raise SandboxUnavailable(f"The sandbox does not work here, so the command was not run: {reason}")
        return runner

    def _confined(
        self, facts: Facts, policy: SandboxPolicy, cwd: str, argv: Sequence[str], held: Held, *, complete: bool
    ) -> Confined:
        def settled(ran: bool) -> None:
            held.release()
            if not ran:
                self._prober.forget()

        return Confined(
            bwrap_argv(facts, policy, cwd, argv),
            provider="bubblewrap",
            enforcement="full" if complete else "partial",
            runner_failure=RUNNER_FAILURE,
            denial=DENIAL,
            settled=settled,
        )


def _guarded(facts: Facts, found: Guard, held: Held) -> Facts:
    return msgspec.structs.replace(facts, writable=found.writable, protected=(*found.protected, *held.paths))


def _refuse_hidden(facts: Facts, policy: SandboxPolicy, cwd: str) -> None:
    for path in (cwd, *policy.roots):
        if beneath(path, facts.private):
            raise SandboxUnavailable(f"{path} belongs to the agent's own files, which commands cannot see.")
    if beneath(cwd, facts.emptied) and not beneath(cwd, policy.roots):
        raise SandboxUnavailable(
            f"{cwd} is outside the session's folders, and confined commands see an empty directory in its place."
        )

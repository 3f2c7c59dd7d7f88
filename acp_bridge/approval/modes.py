"""Session modes: what asks, what runs, what is refused (design §14).

Owns: the four modes as one table and the pure decision. Must not know: who enforces it.
Invariant: a wider sandbox than the session's own always asks; an unknown preset counts as the default, never as more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.session.events import Event, PresetSet, SandboxModeSet
from acp_bridge.session.fold import last_body
from acp_bridge.tools.tool import Access, Decision

__all__ = ["DEFAULT_MODE", "MODES", "Mode", "decide", "preset_of", "sandbox_mode_of", "strictest"]


class Mode(Struct, frozen=True):
    id: str
    name: str
    description: str
    sandbox: SandboxMode
    asks_edit: bool = False
    asks_execute: bool = False
    asks_outside: bool = True


MODES: dict[str, Mode] = {
    mode.id: mode
    for mode in (
        Mode(
            "read-only",
            "Read only",
            "Reads the project. Edits are refused; commands ask, and run without write access.",
            "read-only",
            asks_execute=True,
        ),
        Mode(
            "ask",
            "Ask",
            "Reads the project freely. Every edit and every command asks first.",
            "workspace-write",
            asks_edit=True,
            asks_execute=True,
        ),
        Mode(
            "auto-edit",
            "Auto-edit",
            "Edits in the project and sandboxed commands run without asking. Anything wider asks.",
            "workspace-write",
        ),
        Mode(
            "full-access",
            "Full access",
            "Nothing asks and commands run without a sandbox.",
            "danger-full-access",
            asks_outside=False,
        ),
    )
}
DEFAULT_MODE = "ask"
_STRICTNESS = ("allow", "ask", "deny", "cancel")


def preset_of(events: Sequence[Event]) -> Mode:
    """The session's mode, from its log."""
    preset = last_body(events, PresetSet)
    return MODES.get(preset.preset if preset else DEFAULT_MODE, MODES[DEFAULT_MODE])


def sandbox_mode_of(events: Sequence[Event]) -> SandboxMode:
    """The last `sandbox/mode`, else the narrowest (contracts §8.1)."""
    event = last_body(events, SandboxModeSet)
    return event.mode if event else "read-only"


def decide(mode: Mode, access: Access, roots: Sequence[str]) -> Decision:
    """Allow, ask or deny one call. `roots` are the session's canonical directories."""
    if access.effect == "none":
        return Decision("allow")
    if access.sandbox is not None:
        return Decision("ask", f"run with sandbox {access.sandbox}: {access.justification}")
    outside = next((path for path in access.paths if not _inside(path, roots)), None)
    if access.effect == "edit" and mode.sandbox == "read-only":
        return Decision("deny", "this session is in read-only mode; the user can switch the mode to allow edits")
    if outside is not None and mode.asks_outside:
        return Decision("ask", f"{access.effect} outside the project: {outside}")
    asks = {"edit": mode.asks_edit, "execute": mode.asks_execute}
    return Decision("ask") if asks.get(access.effect, False) else Decision("allow")


def strictest(one: Decision, other: Decision) -> Decision:
    """The decision that permits less; `one` on a tie."""
    return one if _STRICTNESS.index(one.kind) >= _STRICTNESS.index(other.kind) else other


def _inside(path: str, roots: Sequence[str]) -> bool:
    return any(PurePath(path).is_relative_to(root) for root in roots)

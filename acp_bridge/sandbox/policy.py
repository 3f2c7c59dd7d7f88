"""Sandbox modes and the policy of one call (contracts §8.1, design §12).

Owns: what each mode permits, as values. Must not know: bubblewrap or any other provider.
Invariant: modes are ordered; widening is explicit and for one call.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["MODES", "SandboxMode", "SandboxPolicy", "wider"]

SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
MODES: tuple[SandboxMode, ...] = ("read-only", "workspace-write", "danger-full-access")


class SandboxPolicy(Struct, frozen=True):
    """`roots` are canonical absolute directories that workspace-write may change."""

    mode: SandboxMode
    roots: tuple[str, ...]
    network: bool = False


def wider(requested: SandboxMode, than: SandboxMode) -> bool:
    """Whether `requested` permits strictly more."""
    return MODES.index(requested) > MODES.index(than)

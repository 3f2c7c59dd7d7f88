"""What the agent loop hands to its hooks.

Owns: the subjects of `agent_pre_step` and `agent_error`. Must not know: listeners.
Invariant: values only; a listener changes the loop by its answer, never by reaching into it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from acp_bridge.session.content import Message
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal

__all__ = ["AgentFailure", "PreStep", "StepEntry"]


class PreStep(Struct, frozen=True):
    """`messages` were claimed from the inbox for this step; it may be empty after the first step."""

    session: Session
    turn: int
    step: int
    messages: tuple[Message, ...]
    signal: Signal


class StepEntry(Struct, frozen=True):
    """`enter` with these messages, or `block` the turn for `reason`."""

    kind: Literal["enter", "block"]
    messages: tuple[Message, ...] = ()
    reason: str | None = None


class AgentFailure(Struct, frozen=True):
    turn: int
    step: int
    message: str
    code: str

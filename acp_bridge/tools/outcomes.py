"""Outcomes that the pipeline itself makes (contracts §3.4).

Owns: canonical texts and codes. Must not know: tools. Invariant: every text tells the model what happened to the
call and whether anything ran.
"""

from __future__ import annotations

from acp_bridge.session.events import ErrorInfo
from acp_bridge.tools.tool import ToolOutcome

__all__ = ["aborted_before_dispatch", "denied", "failed", "failed_with"]


def failed(text: str) -> ToolOutcome:
    """A failure without a code of its own."""
    return ToolOutcome(f"Error: {text}", is_error=True)


def failed_with(code: str, text: str, name: str = "ToolError") -> ToolOutcome:
    return ToolOutcome(f"Error: {text}", is_error=True, error=ErrorInfo(name, code))


def denied(reason: str) -> ToolOutcome:
    """A denial carries no code: it is an answer, not a fault."""
    return ToolOutcome(f"Error: {reason}", is_error=True)


def aborted_before_dispatch() -> ToolOutcome:
    return failed_with("ABORTED_BEFORE_DISPATCH", "tool call aborted before dispatch", "AbortError")

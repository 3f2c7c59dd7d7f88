"""Outcomes that the pipeline itself makes (contracts §3.4).

Owns: canonical texts and codes. Must not know: tools. Invariant: every text tells the model what happened to the
call and whether anything ran.
"""

from __future__ import annotations

import msgspec

from acp_bridge.session.events import ErrorInfo
from acp_bridge.tools.tool import ToolOutcome

__all__ = ["aborted_before_dispatch", "denied", "failed", "failed_with", "storable", "with_storable_text"]


# Characters. A complaint may quote what the model sent, which may be a megabyte.
LONGEST_ERROR = 10_000


def failed(text: str) -> ToolOutcome:
    """A failure without a code of its own."""
    return ToolOutcome(_error(text), is_error=True)


def failed_with(code: str, text: str, name: str = "ToolError") -> ToolOutcome:
    return ToolOutcome(_error(text), is_error=True, error=ErrorInfo(name, code))


def denied(reason: str) -> ToolOutcome:
    """A denial carries no code: it is an answer, not a fault."""
    return ToolOutcome(_error(reason), is_error=True)


def _error(text: str) -> str:
    half = LONGEST_ERROR // 2
    return "Error: " + (text if len(text) <= LONGEST_ERROR else f"{text[:half]} […] {text[-half:]}")


def aborted_before_dispatch() -> ToolOutcome:
    return failed_with("ABORTED_BEFORE_DISPATCH", "tool call aborted before dispatch", "AbortError")


def storable(value: object) -> bool:
    """Whether the log can hold it: a lone surrogate (a file name that is not UTF-8) is no JSON, and an event that
    cannot be written would end all saving of its session."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError):
        return False
    return True


def with_storable_text(outcome: ToolOutcome) -> ToolOutcome:
    """`outcome` as the log will give it back, or with escapes for what the log cannot hold and without its meta."""
    if storable(outcome):
        meta = None if outcome.meta is None else msgspec.json.decode(msgspec.json.encode(outcome.meta))
        return msgspec.structs.replace(outcome, meta=meta)
    text = outcome.text.encode("utf-8", "backslashreplace").decode()
    return ToolOutcome(text, outcome.is_error, outcome.error)

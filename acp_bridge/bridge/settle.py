"""How a turn's ending answers its prompt (design §13).

Owns: the table from endings to stop reasons. Must not know: who waits. Invariant: cancellation is never an error;
an error is never an ordinary end of turn.
"""

from __future__ import annotations

from acp_bridge.errors import TurnFailed
from acp_bridge.session.events import TurnEndReason

__all__ = ["stop_reason"]

_STOP_REASONS = {
    "completed": "end_turn",
    "max-tokens": "max_tokens",
    "max-steps": "max_turn_requests",
    "refusal": "refusal",
    "blocked": "refusal",
    "aborted": "cancelled",
    "interrupted": "cancelled",
}


def stop_reason(reason: TurnEndReason) -> str:
    """Raises TurnFailed for a turn that ended with an error."""
    if reason.error is not None:
        raise TurnFailed(reason.error.message, reason.error.code)
    return _STOP_REASONS[reason.kind]

"""The table from endings of turns to answers of prompts is complete, and an error is never an ordinary end."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from acp.schema import PromptResponse

from acp_bridge.bridge.settle import stop_reason
from acp_bridge.errors import TurnFailed
from acp_bridge.session.chunks import Failure
from acp_bridge.session.events import AbortReason, TurnEndReason
from acp_bridge.wire.errors import to_wire_error

KINDS: tuple[str, ...] = get_args(get_type_hints(TurnEndReason)["kind"])
ANSWERS = {
    "completed": "end_turn",
    "max-tokens": "max_tokens",
    "max-steps": "max_turn_requests",
    "refusal": "refusal",
    "blocked": "refusal",
    "aborted": "cancelled",
    "interrupted": "cancelled",
}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"error"}))
def test_every_ending_has_its_stop_reason_and_the_protocol_knows_it(kind: str) -> None:
    reason = TurnEndReason(kind, reason=AbortReason("user") if kind == "aborted" else None)  # type: ignore[arg-type]  # drawn from the type
    assert stop_reason(reason) == ANSWERS[kind]
    PromptResponse.model_validate({"stopReason": stop_reason(reason)})


@pytest.mark.parametrize(
    ("code", "wire"),
    [("SERVER", -32603), ("RATE_LIMIT", -32603), ("CHECKPOINT_FAILED", -32603), ("INVALID_CREDENTIAL", -32000)],
)
def test_an_error_is_raised_with_its_own_words(code: str, wire: int) -> None:
    """Field case P9, editors rule 22: readable by itself, and -32603 carries exactly `details`."""
    with pytest.raises(TurnFailed) as failed:
        stop_reason(TurnEndReason("error", error=Failure("The provider failed. Prompt again.", code)))
    error = to_wire_error(failed.value)
    assert (error.code, error.message) == (wire, "The provider failed. Prompt again.")
    assert error.data == ({"details": error.message} if wire == -32603 else None)

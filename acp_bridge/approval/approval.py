"""The approval seam: one question, one logged answer (contracts §7).

Owns: asking inside an open turn, the audit pair, and closing every doubt as a no. Must not know: who answers.
Invariant: an answer that is not in the log is never returned; under the policy `never` nobody is asked at all;
everything but an explicit allow is a no.
"""

from __future__ import annotations

import uuid
from typing import Literal

from msgspec import Struct

from acp_bridge import hookspecs
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.kernel import ServiceKey
from acp_bridge.session.events import ApprovalAsked, ApprovalDecided, ApprovalPolicySet
from acp_bridge.session.fold import last_body, turn_is_open
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.tool import Prepared

__all__ = ["APPROVAL", "Approval", "ApprovalOutcome", "ApprovalRequest"]

ApprovalOutcome = Literal["allowed-once", "rejected", "cancelled", "unavailable"]
_OUTCOMES = ("allowed-once", "rejected", "cancelled", "unavailable")


class ApprovalRequest(Struct, frozen=True):
    """`prepared` is what will run if the answer is yes, and nothing else."""

    session: Session
    tool_name: str
    call_id: str
    prepared: Prepared
    signal: Signal
    reason: str | None = None


class Approval:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    async def request(self, request: ApprovalRequest) -> ApprovalOutcome:
        """Raises RuntimeError outside an open turn, before any audit event."""
        log = request.session.log
        if not turn_is_open(log.events):
            raise RuntimeError("approval was requested outside an open turn")
        asked = ApprovalAsked(str(uuid.uuid4()), request.tool_name, request.call_id, request.reason)
        log.append(asked)
        outcome: ApprovalOutcome = "cancelled"
        try:
            outcome = await self._decide(request)
        finally:
            log.append(ApprovalDecided(asked.id, outcome))
        return outcome

    async def _decide(self, request: ApprovalRequest) -> ApprovalOutcome:
        if request.signal.aborted:
            return "cancelled"
        policy = last_body(request.session.log.events, ApprovalPolicySet)
        if policy is not None and policy.policy == "never":
            return "rejected"
        outcome: ApprovalOutcome = "unavailable"
        with request.signal.cancels():
            outcome = await self._answer(request)
        # An answer that arrives after the abort is discarded: the abort was first.
        return "cancelled" if request.signal.aborted else outcome

    async def _answer(self, request: ApprovalRequest) -> ApprovalOutcome:
        async def nobody() -> ApprovalOutcome:
            return "unavailable"

        try:
            outcome = await request.session.hooks.waterfall(hookspecs.approval_request, request, nobody)
        except Exception as error:
            self._diagnostics.failure("an approval answerer failed", error)
            return "unavailable"
        return outcome if outcome in _OUTCOMES else "unavailable"


APPROVAL = ServiceKey[Approval]("approval")

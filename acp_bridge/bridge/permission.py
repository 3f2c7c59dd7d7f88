"""The editor as answerer of approval requests (design §11, ACP: session/request_permission).

Owns: the question on the wire and reading its answer. Must not know: policy, tools.
Invariant: fail closed; only an explicit `selected` of the allow option is a yes (editors rule 17). What is asked is
what was prepared, so what is shown is what will run.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from acp_bridge.agent.calls import parse_arguments
from acp_bridge.approval.approval import ApprovalRequest
from acp_bridge.bridge.show import content_items, location_items, raw_object
from acp_bridge.tools.visible import code_span
from acp_bridge.wire.acp_types import (
    ContentItem,
    DiffItem,
    PermissionOption,
    PermissionRequest,
    PermissionToolCall,
    TextContent,
)

__all__ = ["OPTIONS", "Answer", "permission_request", "read_answer"]

Answer = Literal["allow", "reject", "reject-always", "cancelled"]

# The order is the editors' (rule 16). There is no allow_always: a standing grant has no rule behind it yet.
OPTIONS = (
    PermissionOption("allow-once", "Allow once", "allow_once"),
    PermissionOption("reject-once", "Reject", "reject_once"),
    PermissionOption("reject-always", "Reject this call for the session", "reject_always"),
)
_ANSWERS: dict[str, Answer] = {"allow-once": "allow", "reject-always": "reject-always"}


class _Outcome(msgspec.Struct, rename="camel"):
    outcome: Any = None
    option_id: Any = None


class _Response(msgspec.Struct):
    outcome: _Outcome


def permission_request(request: ApprovalRequest, arguments: str) -> PermissionRequest:
    """`arguments` is the raw string of the call."""
    shown = request.prepared.presentation
    tool_call = PermissionToolCall(
        request.call_id,
        shown.title,
        shown.kind,
        "pending",
        raw_object(parse_arguments(arguments)),
        _content(request),
        location_items(shown),
    )
    return PermissionRequest(request.session.id, tool_call, OPTIONS)


def read_answer(result: msgspec.Raw) -> Answer:
    """Everything but the two known shapes is a reject."""
    try:
        outcome = msgspec.json.decode(result, type=_Response).outcome
    except (msgspec.DecodeError, RecursionError):
        return "reject"
    if outcome.outcome == "cancelled":
        return "cancelled"
    if outcome.outcome != "selected" or not isinstance(outcome.option_id, str):
        return "reject"
    return _ANSWERS.get(outcome.option_id, "reject")


def _content(request: ApprovalRequest) -> tuple[ContentItem | DiffItem, ...]:
    """Diffs come first: CodeCompanion previews content[0] only."""
    items = content_items(request.prepared.presentation)
    # Paths and the model's own words are in a reason, and editors draw Markdown.
    return (*items, ContentItem(TextContent(code_span(request.reason)))) if request.reason else items

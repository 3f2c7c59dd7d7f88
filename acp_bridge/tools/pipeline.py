"""The way of one tool call: arguments, preparation, policy, approval, checkpoint, body (design §7, contracts §3.3).

Owns: the order of the gates. Must not know: any tool, who decides, who answers.
Invariant: a body runs only after valid arguments, an allow (by policy or by a logged answer) and every
`tools_execute` wrapper; nothing after `prepare` can change what runs; every failure becomes an outcome the model reads.
"""

from __future__ import annotations

from acp_bridge import hookspecs
from acp_bridge.approval.approval import Approval, ApprovalRequest
from acp_bridge.approval.modes import decide, preset_of
from acp_bridge.errors import ToolFailed
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.session.events import ToolPrepared, ToolStarted
from acp_bridge.tools.outcomes import aborted_before_dispatch, denied, failed, failed_with, storable, with_storable_text
from acp_bridge.tools.registry import Tools
from acp_bridge.tools.schema import violations
from acp_bridge.tools.tool import Decision, Execution, Prepared, Tool, ToolOutcome

__all__ = ["Pipeline"]

_REFUSALS = {
    "rejected": "The user refused this call. Do not repeat it; ask or find another way.",
    "cancelled": "The question whether this call may run was cancelled, so it did not run.",
    "unavailable": "This call needs the user's permission and nobody could be asked, so it did not run.",
}


class Pipeline:
    def __init__(self, tools: Tools, approval: Approval, diagnostics: Diagnostics) -> None:
        self._tools = tools
        self._approval = approval
        self._diagnostics = diagnostics

    def parallel(self, execution: Execution) -> bool:
        """Whether the call may overlap with others (contracts §3.5): only on an explicit yes."""
        tool = self._tools.get(execution.name)
        if tool is None or violations(tool.parameters, execution.arguments):
            return False
        try:
            return tool.concurrency_safe(execution.arguments) is True
        except Exception as error:
            self._diagnostics.failure(f"tool {execution.name} could not say whether it may overlap", error)
            return False

    async def admit(self, execution: Execution) -> ToolOutcome | None:
        """Everything before the body, in model order. None means that `dispatch` may run it."""
        if execution.signal.aborted:
            return aborted_before_dispatch()
        tool = self._tools.get(execution.name)
        if tool is None:
            return failed_with("UNKNOWN_TOOL", f"there is no tool {execution.name!r}", "UnknownToolError")
        complaints = violations(tool.parameters, execution.arguments)
        if complaints:
            return failed_with("INVALID_ARGS", "; ".join(complaints), "InvalidArgsError")
        try:
            prepared = await tool.prepare(execution)
        except Exception as error:
            return self._failure(execution, error)
        if not storable(prepared.presentation):
            return failed("this call names something that is not valid text, so it can be neither shown nor recorded")
        self._show(execution, prepared)
        try:
            return await self._authorise(execution, prepared)
        except Exception as error:
            return self._failure(execution, error)

    async def dispatch(self, execution: Execution) -> ToolOutcome:
        """Run the body behind every `tools_execute` wrapper."""
        tool = self._tools.get(execution.name)
        if tool is None:
            return failed_with("UNKNOWN_TOOL", f"the tool {execution.name!r} is gone", "UnknownToolError")
        if execution.signal.aborted:
            return aborted_before_dispatch()
        place = (execution.turn, execution.step, execution.call_id)
        execution.session.log.append(ToolStarted(*place))
        try:
            outcome = await execution.session.hooks.waterfall(
                hookspecs.tools_execute, execution, lambda: self._body(tool, execution)
            )
            return with_storable_text(outcome)
        except Exception as error:
            return self._failure(execution, error)

    async def _body(self, tool: Tool, execution: Execution) -> ToolOutcome:
        if execution.signal.aborted:
            return aborted_before_dispatch()
        return await tool.execute(execution)

    def _show(self, execution: Execution, prepared: Prepared) -> None:
        execution.prepared = prepared
        place = (execution.turn, execution.step, execution.call_id)
        execution.session.log.append(ToolPrepared(*place, prepared.presentation))

    async def _authorise(self, execution: Execution, prepared: Prepared) -> ToolOutcome | None:
        decision = await execution.session.hooks.waterfall(
            hookspecs.tools_pre_execute, execution, lambda: _cautious(execution, prepared)
        )
        if decision.kind == "deny":
            return denied(decision.reason or "this call is not allowed")
        if decision.kind == "cancel" or execution.signal.aborted:
            return aborted_before_dispatch()
        refused = await self._ask(execution, prepared, decision.reason) if decision.kind == "ask" else None
        return refused or _guarded(execution)

    async def _ask(self, execution: Execution, prepared: Prepared, reason: str | None) -> ToolOutcome | None:
        request = ApprovalRequest(
            execution.session,
            execution.name,
            execution.call_id,
            prepared,
            execution.signal,
            reason,
        )
        outcome = await self._approval.request(request)
        if execution.signal.aborted:
            return aborted_before_dispatch()
        if outcome != "allowed-once":
            return denied(_REFUSALS[outcome])
        # The answer granted the wider sandbox that was asked for, to this call and no other.
        execution.sandbox_mode = prepared.access.sandbox or execution.sandbox_mode
        return None

    def _failure(self, execution: Execution, error: Exception) -> ToolOutcome:
        if isinstance(error, ToolFailed):
            return failed_with(error.code, str(error)) if error.code else failed(str(error))
        self._diagnostics.failure(f"tool {execution.name} failed", error)
        return failed(f"the tool {execution.name} failed inside the agent ({type(error).__name__})")


def _guarded(execution: Execution) -> ToolOutcome | None:
    reason = execution.session.hooks.bail(hookspecs.tools_guard, execution)
    return None if reason is None else denied(reason)


async def _cautious(execution: Execution, prepared: Prepared) -> Decision:
    """What holds when no policy plugin answers: the session's mode, which is `ask` unless the log says otherwise."""
    return decide(preset_of(execution.session.log.events), prepared.access, execution.session.roots)

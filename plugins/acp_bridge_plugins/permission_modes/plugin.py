"""The permission policy: session modes, and calls that the person refused for good (design §14).

Owns: the decision before each call, and telling the model which mode holds. Must not know: who answers questions.
Invariant: a standing refusal beats everything; the model is told of a mode once, and again only when it changes.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.agent.calls import parse_arguments
from acp_bridge.agent.hooks import PreStep, StepEntry
from acp_bridge.approval.modes import Mode, decide, preset_of, strictest
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.session.content import Message, PluginSource, text_message, text_of
from acp_bridge.session.events import ApprovalRule, Event, ToolCallEvent, UserMessage
from acp_bridge.tools.tool import Decision, Execution

__all__ = ["PermissionModes"]

REFUSED = "The user refused this very call for the rest of the session. Find another way or ask."


class PermissionModes:
    name = "permission_modes"
    needs: tuple[ServiceKey[Any], ...] = ()

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    async def agent_pre_step(self, step: PreStep, next: Next[StepEntry]) -> StepEntry:
        entry = await next()
        events = step.session.log.events
        text = _snapshot(preset_of(events))
        # A first step without messages must stay without: it would be a turn that nobody asked for.
        enters = entry.kind == "enter" and (bool(entry.messages) or step.step > 1)
        if not enters or _last_snapshot(events) == text:
            return entry
        return StepEntry("enter", (*entry.messages, self._message(step, text)))

    @hookimpl
    async def tools_pre_execute(self, execution: Execution, next: Next[Decision]) -> Decision:
        if refusal := self.tools_guard(execution):
            # Early, so that nobody is asked about it again.
            return Decision("deny", refusal)
        events = execution.session.log.events
        if execution.prepared is None:
            return Decision("deny", "the call was not prepared")
        own = decide(preset_of(events), execution.prepared.access, execution.session.roots)
        return strictest(own, await next())

    @hookimpl
    def tools_guard(self, execution: Execution) -> str | None:
        # As a guard too: another policy that answers without delegating, or is asked first, cannot re-open it.
        return REFUSED if _refused_for_good(execution.session.log.events, execution.call_id) else None

    def _message(self, step: PreStep, text: str) -> Message:
        source = PluginSource(self.name, form="snapshot")
        return text_message(f"{self.name}-{step.turn}-{step.step}", text, source)


def _snapshot(mode: Mode) -> str:
    return (
        f"Session mode: {mode.id}. {mode.description} Sandbox of commands: {mode.sandbox}. "
        "This supersedes earlier notes on the session mode."
    )


def _last_snapshot(events: list[Event]) -> str | None:
    for event in reversed(events):
        data = event.data
        if isinstance(data, UserMessage) and data.source == PluginSource(PermissionModes.name, form="snapshot"):
            return text_of(data.content)
    return None


def _refused_for_good(events: list[Event], call_id: str) -> bool:
    rules = [event.data for event in events if isinstance(event.data, ApprovalRule)]
    if not rules:
        return False
    calls = (event.data for event in reversed(events) if isinstance(event.data, ToolCallEvent))
    call = next((call for call in calls if call.call_id == call_id), None)
    return call is not None and any(_about(rule, call) for rule in rules)


def _about(rule: ApprovalRule, call: ToolCallEvent) -> bool:
    # By value: the order of keys and the blanks of a repeated call are chance, and no person was shown them.
    return rule.tool_name == call.name and parse_arguments(rule.arguments) == parse_arguments(call.arguments)

"""The tool `update_plan`: the model's list of what it is doing (design §7; ACP: agent-plan).

Owns: checking the list and handing it to the execution. Must not know: how a plan is logged or drawn.
Invariant: a plan replaces the one before it as a whole, and at most one entry is in progress.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.errors import ToolFailed
from acp_bridge.session.events import Presentation, Todo
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge.tools.visible import visible

__all__ = ["UpdatePlan"]

_STATUSES = ["pending", "in_progress", "completed"]
_PRIORITIES = ["high", "medium", "low"]
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string", "description": "What is to be done, in one line."},
                    "status": {"type": "string", "enum": _STATUSES},
                    "priority": {"type": "string", "enum": _PRIORITIES},
                },
                "required": ["content", "status"],
            },
        }
    },
    "required": ["entries"],
}


class UpdatePlan:
    name = "update_plan"
    description = (
        "Show the user your plan for a task of several steps. Send the whole list each time; it replaces the previous "
        "one. Keep exactly one entry in_progress while you work, and mark entries completed as soon as they are done."
    )
    parameters = _PARAMETERS

    def present(self, arguments: Any, cwd: str) -> Presentation:
        entries = arguments.get("entries") if isinstance(arguments, dict) else None
        if not isinstance(entries, list):
            return Presentation("Update the plan", "think")
        done = sum(isinstance(entry, dict) and entry.get("status") == "completed" for entry in entries)
        return Presentation(f"Update the plan ({done} of {len(entries)} done)", "think")

    def concurrency_safe(self, arguments: Any) -> bool:
        return False

    async def prepare(self, execution: Execution) -> Prepared:
        entries = execution.arguments["entries"]
        todos = tuple(map(_todo, entries))
        if any(not todo.content for todo in todos):
            raise ToolFailed("each entry needs a content", "INVALID_ARGS")
        if sum(todo.status == "in_progress" for todo in todos) > 1:
            raise ToolFailed("at most one entry may be in_progress", "INVALID_ARGS")
        return Prepared(self.present(execution.arguments, execution.session.cwd), Access("none"), todos)

    async def execute(self, execution: Execution) -> ToolOutcome:
        todos: tuple[Todo, ...] = execution.prepared.plan if execution.prepared else ()
        execution.todos = todos
        done = sum(todo.status == "completed" for todo in todos)
        return ToolOutcome(f"The plan is updated: {done} of {len(todos)} done.")


def _todo(entry: dict[str, Any]) -> Todo:
    return Todo(visible(entry["content"]).strip(), entry["status"], entry.get("priority", "medium"))

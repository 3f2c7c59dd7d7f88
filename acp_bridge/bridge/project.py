"""Events to editor updates: the one projection, live and on replay (design §13).

Owns: what each event looks like in an editor. Must not know: the connection, agents, storage.
Invariant: what a replay sends equals, after merging chunks, what was sent live. It differs in three places only: a
replay shows the person's own messages, leaves the mode to the load's answer, and takes a reply's text from the
committed message instead of its chunks. What a replacement tells the model of the past is shown to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from acp_bridge.agent.calls import parse_arguments
from acp_bridge.bridge.show import content_items, location_items, raw_object, result_items
from acp_bridge.session.chunks import ReasoningDelta, TextDelta
from acp_bridge.session.content import Message, ReasoningBlock, TextBlock, ToolCallBlock, UserSource, text_of
from acp_bridge.session.events import (
    AssistantChunk,
    AssistantMessage,
    Event,
    NoticeShown,
    Presentation,
    PresetSet,
    SurfaceReplace,
    TodoWrite,
    ToolPrepared,
    ToolResult,
    ToolStarted,
    UserMessage,
)
from acp_bridge.session.repair import assistant_message_id
from acp_bridge.wire.acp_types import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CurrentModeUpdate,
    PlanEntry,
    PlanUpdate,
    TextContent,
    ToolCallStart,
    ToolCallUpdate,
    ToolStatus,
    Update,
    UserMessageChunk,
)

__all__ = ["CUT_SHORT", "Present", "Projection"]

CUT_SHORT = "\n\n*[cut short]*"

# Presentation of a call by tool name, parsed arguments and cwd: pure and total.
Present = Callable[[str, Any, str], Presentation]


class Projection:
    """One session's projection. It remembers what each open call was last presented as."""

    def __init__(self, present: Present, cwd: str) -> None:
        self._present = present
        self._cwd = cwd
        self._shown: dict[str, Presentation] = {}

    def live(self, event: Event) -> list[Update]:
        data = event.data
        if type(data) is AssistantChunk:
            return self.chunk(data)
        if isinstance(event.surface_op, SurfaceReplace):
            return []
        if isinstance(data, AssistantMessage):
            return [*self._ending(data), *self._announced(data.message)]
        if isinstance(data, PresetSet):
            return [CurrentModeUpdate(data.preset)]
        return self._common(event)

    def replay(self, event: Event) -> list[Update]:
        if isinstance(event.surface_op, SurfaceReplace):
            return []
        data = event.data
        if isinstance(data, AssistantMessage):
            return [*_reply(data), *self._ending(data), *self._announced(data.message)]
        if isinstance(data, UserMessage) and isinstance(data.source, UserSource):
            return [UserMessageChunk(TextContent(text_of(data.content)), data.id)]
        return self._common(event)

    def chunk(self, data: AssistantChunk) -> list[Update]:
        """A piece of the reply being received. Empty text is never sent."""
        piece = data.chunk
        if type(piece) is TextDelta and piece.text:
            return [AgentMessageChunk(TextContent(piece.text), assistant_message_id(data.turn, data.step))]
        if type(piece) is ReasoningDelta and piece.text:
            return [AgentThoughtChunk(TextContent(piece.text), _thought_id(data.turn, data.step))]
        return []

    def _common(self, event: Event) -> list[Update]:
        match event.data:
            case ToolPrepared(call_id=call_id, presentation=presentation):
                return [self._prepared(call_id, presentation)]
            case ToolStarted(call_id=call_id):
                return [ToolCallUpdate(call_id, "in_progress")]
            case ToolResult() as result:
                return [self._result(result)]
            case NoticeShown(text=text):
                return [AgentMessageChunk(TextContent(f"*{text}*\n\n"), f"notice-{event.seq}")]
            case TodoWrite(todos=todos):
                return [PlanUpdate(tuple(PlanEntry(todo.content, todo.priority, todo.status) for todo in todos))]
        return []

    def _announced(self, message: Message) -> Iterator[Update]:
        for block in message.content:
            if isinstance(block, ToolCallBlock):
                arguments = parse_arguments(block.arguments)
                shown = self._shown[block.id] = self._present(block.name, arguments, self._cwd)
                yield ToolCallStart(
                    block.id,
                    shown.title,
                    shown.kind,
                    "pending",
                    raw_object(arguments),
                    content_items(shown),
                    location_items(shown),
                )

    def _prepared(self, call_id: str, shown: Presentation) -> Update:
        self._shown[call_id] = shown
        return ToolCallUpdate(
            call_id, "pending", shown.title, shown.kind, content_items(shown), location_items(shown) or None
        )

    def _result(self, result: ToolResult) -> Update:
        call_id = result.block.tool_call_id
        shown = self._shown.pop(call_id, None) or Presentation("Tool call", "other")
        status: ToolStatus = "failed" if result.block.is_error else "completed"
        return ToolCallUpdate(call_id, status, content=result_items(shown, result), raw_output=result.meta)

    def _ending(self, data: AssistantMessage) -> list[Update]:
        if not data.interrupted:
            return []
        return [AgentMessageChunk(TextContent(CUT_SHORT), assistant_message_id(data.turn, data.step))]


def _reply(data: AssistantMessage) -> Iterator[Update]:
    for block in data.message.content:
        if isinstance(block, TextBlock) and block.text:
            yield AgentMessageChunk(TextContent(block.text), assistant_message_id(data.turn, data.step))
        elif isinstance(block, ReasoningBlock) and block.text:
            yield AgentThoughtChunk(TextContent(block.text), _thought_id(data.turn, data.step))


def _thought_id(turn: int, step: int) -> str:
    return f"{assistant_message_id(turn, step)}-thought"

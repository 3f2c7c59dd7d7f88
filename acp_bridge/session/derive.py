"""What the model sees: messages derived from the log (contracts §1.10, field case R3).

Owns: the projection from surface events to a list of messages in which calls and results always pair.
Must not know: providers' wire formats. Invariant: pure; whatever the log holds, each assistant message with calls
is followed at once by exactly one result per call, in the calls' order. Model-visible means logged: nothing
else reaches a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from acp_bridge.session.content import Message, TextBlock, ToolCallBlock, ToolResultBlock, ToolSource
from acp_bridge.session.events import AssistantMessage, Event, ToolResult, UserMessage

__all__ = ["INTERRUPTED_NOTE", "MISSING_RESULT", "derive_messages"]

INTERRUPTED_NOTE = "[This reply was interrupted here; the user saw it cut off at this point.]"
MISSING_RESULT = (
    "No result of this call is on record. Treat its outcome as unknown: do not repeat it blindly if it can have "
    "side effects; check the state first or ask the user."
)


def derive_messages(events: Iterable[Event]) -> list[Message]:
    """The conversation as the next model request carries it."""
    surface = [event.data for event in events if event.surface_op is not None]
    messages: list[Message] = []
    pending: dict[str, Message] = {}
    waiting: list[Message] = []
    for data in surface:
        if isinstance(data, AssistantMessage):
            _settle(messages, pending, waiting)
            messages.extend(_assistant(data))
            calls = _calls(data.message)
            pending = {call.id: _missing(call) for call in calls}
        elif isinstance(data, ToolResult):
            if data.block.tool_call_id in pending:
                pending[data.block.tool_call_id] = data.message
        elif isinstance(data, UserMessage):
            waiting.append(_plain(data))
    _settle(messages, pending, waiting)
    return messages


def _settle(messages: list[Message], pending: dict[str, Message], waiting: list[Message]) -> None:
    """Results go before user messages that arrived between a call and its result."""
    messages.extend(pending.values())
    messages.extend(waiting)
    pending.clear()
    waiting.clear()


def _plain(message: UserMessage) -> Message:
    return Message(message.id, message.role, message.content, message.source)


def _assistant(data: AssistantMessage) -> list[Message]:
    message = data.message
    if not message.content:
        return []
    if not data.interrupted:
        return [message]
    content = (*message.content, TextBlock(INTERRUPTED_NOTE))
    return [Message(message.id, message.role, content, message.source)]


def _calls(message: Message) -> list[ToolCallBlock]:
    return [block for block in message.content if isinstance(block, ToolCallBlock)]


def _missing(call: ToolCallBlock) -> Message:
    block = ToolResultBlock(call.id, (TextBlock(MISSING_RESULT),), is_error=True)
    return Message(f"missing-result-{call.id}", "user", (block,), ToolSource(call.id))

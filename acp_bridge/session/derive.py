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
from acp_bridge.session.surface import surface

__all__ = ["INTERRUPTED_NOTE", "MISSING_RESULT", "derive_messages"]

INTERRUPTED_NOTE = "[This reply was interrupted here; the user saw it cut off at this point.]"
MISSING_RESULT = (
    "No result of this call is on record. Treat its outcome as unknown: do not repeat it blindly if it can have "
    "side effects; check the state first or ask the user."
)


def derive_messages(events: Iterable[Event]) -> list[Message]:
    """The conversation as the next model request carries it."""
    messages: list[Message] = []
    open_calls: list[_OpenCall] = []
    waiting: list[Message] = []
    for event in surface(events):
        data = event.data
        if isinstance(data, AssistantMessage):
            _settle(messages, open_calls, waiting)
            messages.extend(_assistant(data))
            open_calls += map(_OpenCall, _calls(data.message))
        elif isinstance(data, ToolResult):
            _answer(open_calls, data)
        elif isinstance(data, UserMessage):
            waiting.append(data.message)
    _settle(messages, open_calls, waiting)
    return messages


class _OpenCall:
    """A call of the last reply and what answers it. A list of these, no dict: foreign logs repeat ids in one reply."""

    __slots__ = ("call", "result")

    def __init__(self, call: ToolCallBlock) -> None:
        self.call = call
        self.result: Message | None = None


def _answer(open_calls: list[_OpenCall], result: ToolResult) -> None:
    """The first of its id without a result; a result that answers no open call has no place in a request."""
    for open_call in open_calls:
        if open_call.call.id == result.block.tool_call_id and open_call.result is None:
            open_call.result = result.message
            return


def _settle(messages: list[Message], open_calls: list[_OpenCall], waiting: list[Message]) -> None:
    """Results go before user messages that arrived between a call and its result."""
    messages.extend(open_call.result or _missing(open_call.call) for open_call in open_calls)
    messages.extend(waiting)
    open_calls.clear()
    waiting.clear()


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

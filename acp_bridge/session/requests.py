"""The model requests that a log shows, rebuilt from it alone (design §5: model-visible means logged).

Owns: where in a log a request stands, and what it must have held. Must not know: providers, what was really sent.
Invariant: pure; a step makes one request, built in the same instant as its `step/start`, its messages and, when it
changed, its header are appended; nothing that is appended later in the step can be in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from acp_bridge.session.chunks import Finish
from acp_bridge.session.content import Message
from acp_bridge.session.derive import derive_messages
from acp_bridge.session.events import (
    AssistantChunk,
    AssistantMessage,
    Event,
    ModelHeader,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    UserMessage,
)
from acp_bridge.session.fold import inbox_lists

__all__ = ["LoggedRequest", "rebuild_requests"]


class LoggedRequest(Struct, frozen=True):
    """`answered`: something of the reply is in the log, so the request arrived. Otherwise nobody can know."""

    turn: int
    step: int
    header: ModelHeader
    messages: tuple[Message, ...]
    answered: bool


def rebuild_requests(events: Sequence[Event]) -> list[LoggedRequest]:
    """One for each step that had a header to send. `events` is a whole log, chunks included."""
    header: ModelHeader | None = None
    found: list[LoggedRequest] = []
    for index, event in enumerate(events):
        match event.data:
            case RequestHeader(header=logged):
                header = logged
            case StepStart(turn=turn, step=step):
                end = _end_of_request(events, index)
                header = _header(events[index:end]) or header
                if header is not None:
                    messages = tuple(derive_messages(events[:end]))
                    found.append(LoggedRequest(turn, step, header, messages, _answered(events, end)))
    return found


def _end_of_request(events: Sequence[Event], step_start: int) -> int:
    """Where the events that the loop appends in one go end.

    A message that still waits in the queue did not enter with the step: a repair put it there after a crash.
    """
    waiting = {message.id for queue in inbox_lists(events[:step_start]).values() for message in queue}
    end = step_start + 1
    while end < len(events):
        data = events[end].data
        entered = isinstance(data, UserMessage) and data.id not in waiting
        if not entered and not isinstance(data, RequestHeader | RequestContext):
            break
        end += 1
    return end


def _header(events: Sequence[Event]) -> ModelHeader | None:
    return next((event.data.header for event in events if isinstance(event.data, RequestHeader)), None)


def _answered(events: Sequence[Event], start: int) -> bool:
    for event in events[start:]:
        data = event.data
        if isinstance(data, AssistantMessage) or (isinstance(data, AssistantChunk) and not _is_failure(data)):
            return True
        if isinstance(data, StepEnd):
            break
    return False


def _is_failure(data: AssistantChunk) -> bool:
    """A failed end may be the adapter's own word for a provider that it never reached."""
    return isinstance(data.chunk, Finish) and data.chunk.reason.failure is not None

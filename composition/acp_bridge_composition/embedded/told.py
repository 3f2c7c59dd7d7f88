"""What an embedding program is told: streamed pieces, questions, and how a prompt ended.

Owns: these shapes and how they come from logged events. Must not know: agents, plugins, terminals.
Invariant: pure; everything told is a projection of the log, so it says nothing that is not on record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_bridge.agent.calls import parse_arguments
from acp_bridge.session.chunks import ReasoningDelta, TextDelta
from acp_bridge.session.content import ToolCallBlock, text_of
from acp_bridge.session.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Event,
    NoticeShown,
    Presentation,
    PresentedDiff,
    ToolPrepared,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)

__all__ = [
    "Notice",
    "Permission",
    "Question",
    "Result",
    "StopReason",
    "Teller",
    "Text",
    "Thought",
    "Told",
    "ToolCall",
    "result",
]

StopReason = Literal["completed", "max-tokens", "max-steps", "refusal", "blocked", "cancelled", "error"]
_STOP_REASONS: dict[str, StopReason] = {"aborted": "cancelled", "interrupted": "cancelled"}


class Text(Struct, frozen=True, tag="text", omit_defaults=True):
    """A piece of the reply as it streams in."""

    text: str


class Thought(Struct, frozen=True, tag="thought", omit_defaults=True):
    """A piece of the model's reasoning."""

    text: str


class ToolCall(Struct, frozen=True, tag="tool", omit_defaults=True):
    """One call, told again whenever its `status` or `title` changes.

    `arguments` is the model's raw string. `text` is the result as the model reads it, `code` why it failed where
    there is a code (TOOL_OUTCOME_UNKNOWN, SANDBOX_UNAVAILABLE …); both come with `completed` and `failed`.
    """

    call_id: str
    name: str
    title: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    arguments: str = ""
    text: str | None = None
    code: str | None = None


class Permission(Struct, frozen=True, tag="permission", omit_defaults=True):
    """How a question was decided. `unavailable` means that nobody could be asked; only `allowed-once` is a yes."""

    call_id: str | None
    tool: str
    outcome: Literal["allowed-once", "rejected", "cancelled", "unavailable"]
    reason: str | None = None


class Notice(Struct, frozen=True, tag="notice", omit_defaults=True):
    """Something for the person beside the conversation; the model never sees it."""

    text: str


Told = Text | Thought | ToolCall | Permission | Notice


class Question(Struct, frozen=True):
    """May this call run? It shows exactly what will: `title`, `text` (a command in full, as Markdown) and `diffs`.

    Control characters are escaped in `title` and `text`, not in `diffs`. `reason` is why it asks.
    """

    session_id: str
    call_id: str
    tool: str
    title: str
    text: str | None = None
    diffs: tuple[PresentedDiff, ...] = ()
    reason: str | None = None


class Result(Struct, frozen=True):
    """How a prompt ended. `text` is all of the reply, a blank line between what came before and after tool calls.

    `error` is a sentence, and `code` its short name, when `stop_reason` is `error`.
    """

    session_id: str
    stop_reason: StopReason
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    error: str | None = None
    code: str | None = None


class Teller:
    """One session's events as they are told. `present` shows a call by tool name, parsed arguments and cwd."""

    def __init__(self, present: Callable[[str, Any, str], Presentation], cwd: str) -> None:
        self._present = present
        self._cwd = cwd
        self._calls: dict[str, ToolCall] = {}
        self._asked: dict[str, ApprovalAsked] = {}

    def told(self, event: Event) -> list[Told]:
        match event.data:
            case AssistantChunk(chunk=TextDelta(text=text)) if text:
                return [Text(text)]
            case AssistantChunk(chunk=ReasoningDelta(text=text)) if text:
                return [Thought(text)]
            case AssistantMessage(message=message):
                return [self._announced(block) for block in message.content if isinstance(block, ToolCallBlock)]
            case NoticeShown(text=text):
                return [Notice(text)]
            case ToolPrepared(call_id=call_id, presentation=shown):
                return self._changed(call_id, title=shown.title)
            case ToolStarted(call_id=call_id):
                return self._changed(call_id, status="in_progress")
            case ToolResult() as ended:
                return self._ended(ended)
        return self._questions(event.data)

    def _announced(self, block: ToolCallBlock) -> ToolCall:
        shown = self._present(block.name, parse_arguments(block.arguments), self._cwd)
        call = self._calls[block.id] = ToolCall(block.id, block.name, shown.title, "pending", block.arguments)
        return call

    def _changed(self, call_id: str, **changes: Any) -> list[Told]:
        known = self._calls.get(call_id)
        if known is None:
            return []
        call = self._calls[call_id] = replace(known, **changes)
        return [] if call == known else [call]

    def _ended(self, ended: ToolResult) -> list[Told]:
        told = self._changed(
            ended.block.tool_call_id,
            status="failed" if ended.block.is_error else "completed",
            text=text_of(ended.block.content),
            code=ended.error.code if ended.error else None,
        )
        self._calls.pop(ended.block.tool_call_id, None)
        return told

    def _questions(self, data: Any) -> list[Told]:
        if isinstance(data, ApprovalAsked):
            self._asked[data.id] = data
        elif isinstance(data, ApprovalDecided) and (asked := self._asked.pop(data.id, None)) is not None:
            return [Permission(asked.call_id, asked.tool_name, data.outcome, asked.reason)]
        return []


def result(session_id: str, events: Sequence[Event], message_id: str, ending: TurnEndReason, teller: Teller) -> Result:
    """What became of the prompt `message_id`, from the log. `teller` is a fresh one."""
    texts: list[str] = []
    calls: dict[str, ToolCall] = {}
    for event in _turn(events, message_id):
        if isinstance(event.data, AssistantMessage) and (text := text_of(event.data.message.content)):
            texts.append(text)
        calls |= {told.call_id: told for told in teller.told(event) if isinstance(told, ToolCall)}
    failure = ending.error
    return Result(
        session_id,
        "error" if failure else _STOP_REASONS.get(ending.kind, ending.kind),  # type: ignore[arg-type]  # the two renamed ones are in the table
        "\n\n".join(texts),
        tuple(calls.values()),
        failure.message if failure else None,
        failure.code if failure else None,
    )


def _turn(events: Sequence[Event], message_id: str) -> Iterable[Event]:
    """The events of the turn that the message opened; none when it was discarded before."""
    turn: list[Event] = []
    ours = False
    for event in events:
        if isinstance(event.data, TurnStart):
            turn = []
        turn.append(event)
        ours = ours or (isinstance(event.data, UserMessage) and event.data.id == message_id)
        if ours and isinstance(event.data, TurnEnd):
            return turn
    return turn if ours else ()

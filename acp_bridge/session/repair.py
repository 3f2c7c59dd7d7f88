"""Crash repair: the closing events that a log without an ending needs (contracts §6, design §10).

Owns: telling "not started" from "outcome unknown", and keeping the part of a reply that had been streamed.
Must not know: files, clocks, tools. Invariant: a pure function of the durable prefix, deterministic and idempotent;
times equal the last real event's time; nothing is ever run again, nothing half-received is ever completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from acp_bridge.session.chunks import interrupted_blocks
from acp_bridge.session.content import (
    Message,
    ModelSource,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
)
from acp_bridge.session.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Body,
    ErrorInfo,
    Event,
    InboxSpliced,
    RequestHeader,
    StepEnd,
    StepStart,
    SurfaceReplace,
    ToolCallEvent,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from acp_bridge.session.log import runs

__all__ = ["NOT_STARTED_TEXT", "OUTCOME_UNKNOWN_TEXT", "Sourced", "assistant_message_id", "closers", "unanswered"]

NOT_STARTED_TEXT = (
    "TOOL_NOT_STARTED: the agent was stopped before this call was started. It did not run and changed nothing. "
    "Call it again if it is still needed."
)
OUTCOME_UNKNOWN_TEXT = (
    "TOOL_OUTCOME_UNKNOWN: the agent was stopped while this call may have been running, and no result was "
    "recorded. It may have run completely, partly or not at all. Repeat it only if it is read-only or safe to "
    "repeat; otherwise check the actual state first, or ask the user."
)


# A body and the seqs it was made from.
Sourced = tuple[Body, tuple[int | tuple[int, int], ...] | None]


class _Call(Struct):
    step: int
    seq: int | None = None
    started: bool = False
    asking: str | None = None


class _Scan(Struct):
    """What is open at the end of the prefix."""

    turn: int | None = None
    step: int | None = None
    calls: dict[str, _Call] = field(default_factory=dict)
    chunks: list[Event] = field(default_factory=list)
    source: ModelSource = field(default_factory=lambda: ModelSource("unknown", "unknown"))
    queues: dict[str, list[Message]] = field(default_factory=lambda: {"next-turn": [], "next-step": []})
    claimed: dict[str, Message] = field(default_factory=dict)
    entered: set[str] = field(default_factory=set)


def assistant_message_id(turn: int, step: int) -> str:
    """Derived, not random: chunks, the committed message and a repaired one then carry the same id."""
    return f"assistant-{turn}-{step}"


def closers(events: Sequence[Event]) -> list[Event]:
    """The events to append so that the log is whole. Empty when it already is."""
    scan = _scanned(events)
    bodies: list[Sourced] = _kept_prompts(scan)
    if scan.turn is not None:
        bodies = [*_kept_reply(scan, scan.turn), *_results(scan, scan.turn, events[-1].seq), *bodies]
        if scan.step is not None:
            bodies.append((StepEnd(scan.turn, scan.step), None))
        bodies.append((TurnEnd(scan.turn, TurnEndReason("interrupted")), None))
    return [_event(events[-1], offset, *item) for offset, item in enumerate(bodies, 1)]


def unanswered(events: Sequence[Event]) -> list[Sourced]:
    """Results with their sources for the calls of the open step that have none, told apart as after a crash."""
    scan = _scanned(events)
    return [] if scan.turn is None else _results(scan, scan.turn, events[-1].seq)


def _scanned(events: Iterable[Event]) -> _Scan:
    scan = _Scan()
    for event in events:
        # A replacement changes what the model is told of the past; nothing is opened or answered by it.
        if not isinstance(event.surface_op, SurfaceReplace):
            _observe(scan, event)
    return scan


def _observe(scan: _Scan, event: Event) -> None:
    match event.data:
        case TurnStart(turn=turn):
            scan.turn, scan.step, scan.calls, scan.chunks, scan.claimed = turn, None, {}, [], {}
        case TurnEnd():
            scan.turn, scan.step, scan.calls, scan.chunks = None, None, {}, []
        case StepStart(step=step):
            scan.step, scan.chunks = step, []
        case StepEnd():
            scan.step, scan.calls, scan.chunks = None, {}, []
        case RequestHeader(header=header):
            scan.source = ModelSource(header.config.provider, header.config.model)
        case AssistantChunk():
            scan.chunks.append(event)
        case AssistantMessage(step=step, message=message):
            scan.chunks = []
            calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
            scan.calls.update({call.id: _Call(step) for call in calls})
        case UserMessage(id=message_id):
            scan.claimed.pop(message_id, None)
            scan.entered.add(message_id)
        case InboxSpliced() as splice:
            _observe_splice(scan, splice)
        case _:
            _observe_call(scan, event)


def _observe_splice(scan: _Scan, splice: InboxSpliced) -> None:
    queue = scan.queues[splice.target]
    removed = queue[splice.start : splice.start + (splice.removed_count or 0)]
    queue[splice.start : splice.start + len(removed)] = splice.inserted
    if splice.outcome is None:
        scan.claimed.update({message.id: message for message in removed})


def _observe_call(scan: _Scan, event: Event) -> None:
    match event.data:
        case ToolCallEvent(call_id=call_id) if call_id in scan.calls:
            scan.calls[call_id].seq = event.seq
        case ToolStarted(call_id=call_id) if call_id in scan.calls:
            scan.calls[call_id].started = True
        case ApprovalAsked(id=asked, call_id=str() as call_id) if call_id in scan.calls:
            scan.calls[call_id].asking = asked
        case ApprovalDecided(id=asked, outcome="allowed-once"):
            for call in scan.calls.values():
                call.asking = None if call.asking == asked else call.asking
        case ToolResult() as result:
            scan.calls.pop(result.block.tool_call_id, None)


def _kept_reply(scan: _Scan, turn: int) -> list[Sourced]:
    """What the editor was shown of a streaming reply stays in the conversation, marked interrupted."""
    if scan.step is None:
        return []
    blocks = interrupted_blocks(event.data.chunk for event in scan.chunks)
    if not blocks:
        return []
    message = Message(assistant_message_id(turn, scan.step), "assistant", blocks, scan.source)
    body = AssistantMessage(turn, scan.step, message, interrupted=True)
    return [(body, runs(event.seq for event in scan.chunks))]


def _kept_prompts(scan: _Scan) -> list[Sourced]:
    """What a person had typed is never lost: claimed but not yet entered, or still waiting in the queue."""
    waiting = [*scan.queues["next-step"], *scan.queues["next-turn"]]
    kept: list[Sourced] = [
        (UserMessage(message.id, message.role, message.content, message.source), None)
        for message in (*scan.claimed.values(), *waiting)
        # Entered and still in the queue: a repair before this one was cut off between the two.
        if message.id not in scan.entered
    ]
    for target, queue in scan.queues.items():
        if queue:
            kept.append((InboxSpliced(target, 0, (), len(queue), "canceled"), None))  # type: ignore[arg-type]  # the literals
    return kept


def _results(scan: _Scan, turn: int, last_seq: int) -> list[Sourced]:
    return [_result(turn, call_id, call, last_seq) for call_id, call in scan.calls.items()]


def _result(turn: int, call_id: str, call: _Call, last_seq: int) -> Sourced:
    # A call whose question was never answered with an allow cannot have run: the answer is durable before the body.
    unanswered = call.asking is not None and not call.started
    if call.seq is None or unanswered:
        text, error = NOT_STARTED_TEXT, ErrorInfo("ToolNotStartedError", "TOOL_NOT_STARTED")
    else:
        text, error = OUTCOME_UNKNOWN_TEXT, ErrorInfo("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")
    block = ToolResultBlock(call_id, (TextBlock(text),), is_error=True)
    message_id = f"interrupted-tool-result-{call_id}-{last_seq}"
    message = Message(message_id, "user", (block,), ToolSource(call_id))
    sources = None if call.seq is None else (call.seq,)
    return ToolResult(turn, call.step, message, error), sources


def _event(last: Event, offset: int, body: Body, sources: tuple[int | tuple[int, int], ...] | None) -> Event:
    surface = "append" if type(body).SURFACE else None
    return Event(body.TYPE, last.seq + offset, last.time, body, surface, sources)  # type: ignore[arg-type]  # the literal

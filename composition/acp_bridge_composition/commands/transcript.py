"""A session log as lines that a person can read.

Owns: one line per event, streamed chunks folded into one. Must not know: files, sessions in use.
Invariant: pure; control characters are made visible, so that a log cannot repaint the terminal it is shown on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

from acp_bridge.session.content import Block, ReasoningBlock, TextBlock, ToolCallBlock, text_of
from acp_bridge.session.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Event,
    Header,
    InboxSpliced,
    NoticeShown,
    PresetSet,
    RequestHeader,
    SandboxModeSet,
    TitleSet,
    TodoWrite,
    ToolCallEvent,
    ToolPrepared,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from acp_bridge.tools.visible import visible_line

__all__ = ["WIDTH", "terminal_columns", "transcript"]

# Characters of an event's text; beyond it the line is cut. A terminal's own width is used where there is one.
WIDTH = 160
_PREFIX = 41
_RED, _GREEN, _DIM, _BOLD, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"


def terminal_columns() -> int | None:
    """The width of the terminal that stdout is, or None."""
    return os.get_terminal_size(1).columns if sys.stdout.isatty() else None


def transcript(header: Header, events: Sequence[Event], *, columns: int | None = None) -> Iterator[str]:
    """`columns` is the width of a terminal, which also gets colours; None is a file or a pipe."""
    width = WIDTH if columns is None else max(20, columns - _PREFIX)
    created = datetime.fromtimestamp(header.created_at / 1000).astimezone().isoformat(timespec="seconds")
    yield f"session {header.id}  created {created}  in {header.cwd or '-'}"
    for event, folded in _folded(events):
        text = f"{folded} streamed pieces" if folded else _described(event)
        yield _line(event, text, width, color=columns is not None)


def _folded(events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """Each event, with a run of chunks as its first one and their number."""
    run: list[Event] = []
    for event in events:
        if isinstance(event.data, AssistantChunk):
            run.append(event)
            continue
        if run:
            yield run[0], len(run)
            run = []
        yield event, 0
    if run:
        yield run[0], len(run)


def _line(event: Event, text: str, width: int, *, color: bool) -> str:
    when = datetime.fromtimestamp(event.time / 1000).astimezone().strftime("%H:%M:%S.%f")[:-3]
    shown = visible_line(text)
    if len(shown) > width:
        shown = shown[: width - 1] + "…"
    place = f"{event.seq:6} {when} "
    if not color:
        return f"{place}{event.type:21} {shown}".rstrip()
    return f"{_DIM}{place}{_RESET}{_paint(event)}{event.type:21}{_RESET} {shown}".rstrip()


def _paint(event: Event) -> str:
    data = event.data
    if isinstance(data, ToolResult):
        return _RED if data.block.is_error else _GREEN
    if isinstance(data, TurnEnd):
        return _GREEN if data.reason.kind == "completed" else _RED
    return _BOLD if isinstance(data, UserMessage | AssistantMessage) else ""


def _described(event: Event) -> str:
    match event.data:
        case UserMessage(content=content):
            return _blocks(content)
        case AssistantMessage(message=message, interrupted=interrupted):
            return ("(interrupted) " if interrupted else "") + _blocks(message.content)
        case ToolCallEvent(name=name, arguments=arguments, call_id=call_id):
            return f"{call_id}  {name} {arguments}"
        case ToolPrepared(call_id=call_id, presentation=presentation):
            return f"{call_id}  {presentation.title}"
        case ToolResult(error=error) as result:
            code = f"[{error.code}] " if error else ""
            return f"{result.block.tool_call_id}  {code}{text_of(result.block.content)}"
        case TurnEnd(reason=reason):
            because = reason.error.message if reason.error else reason.reason.kind if reason.reason else ""
            return f"{reason.kind} {because}"
    return _described_small(event)


def _described_small(event: Event) -> str:
    match event.data:
        case RequestHeader(header=header, reason=reason):
            return f"{header.config.provider}/{header.config.model} ({reason})"
        case InboxSpliced(target=target, inserted=inserted, removed_count=removed, outcome=outcome):
            return f"{target} +{len(inserted)} -{removed or 0} {outcome or ''}"
        case ApprovalAsked(tool_name=tool, call_id=call_id, reason=reason):
            return f"{call_id}  {tool} {reason or ''}"
        case ApprovalDecided(outcome=outcome):
            return outcome
        case PresetSet(preset=preset):
            return preset
        case SandboxModeSet(mode=mode):
            return mode
        case TodoWrite(todos=todos):
            return "; ".join(f"{todo.content} ({todo.status})" for todo in todos)
        case NoticeShown(text=text):
            return text
        case TitleSet(title=title):
            return title
    return getattr(event.data, "call_id", "") or _turn_and_step(event)


def _turn_and_step(event: Event) -> str:
    turn, step = getattr(event.data, "turn", None), getattr(event.data, "step", None)
    return "" if turn is None else f"turn {turn}" + (f", step {step}" if step is not None else "")


def _blocks(blocks: Sequence[Block]) -> str:
    parts = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        elif isinstance(block, ReasoningBlock):
            parts.append(f"(thought) {block.text}")
        elif isinstance(block, ToolCallBlock):
            parts.append(f"→ {block.name} [{block.id}]")
    return "  ".join(parts)

"""The structural rules of a session log, checked (contracts §1.8, design §5).

Owns: the rules, ours included: every call that a reply asks for has exactly one result when its step ends, message
ids never repeat, what a turn asked a person is decided before it ends. Must not know: files, hooks, who appends.
Invariant: pure; a broken rule is reported once and the check goes on; types it does not know are unconstrained.
Whole logs are meant: the log in memory drops chunk events, so for that one `gaps` must be true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from acp_bridge.errors import LogRuleBroken
from acp_bridge.session.content import ToolCallBlock
from acp_bridge.session.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Body,
    Event,
    InboxSpliced,
    NoticeShown,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    SurfaceReplace,
    TodoWrite,
    ToolCallEvent,
    ToolPrepared,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from acp_bridge.session.surface import replaced_span

__all__ = ["StructureChecker", "check_log"]

Rules = Iterator[str]


def check_log(events: Iterable[Event], *, gaps: bool = False) -> list[str]:
    """One sentence for each broken rule, with the seq of its event; none for a sound log, open or at rest."""
    checker = StructureChecker(gaps=gaps)
    return [str(broken) for event in events for broken in checker.observe(event)]


class _Call:
    """One call of the open step: how far it has come."""

    def __init__(self) -> None:
        self.call_seq: int | None = None
        self.prepared = False
        self.started = False
        self.answered = False


class StructureChecker:
    """Feed events in order. `gaps` says that seqs may be missing (they still ascend), as in a log held in memory."""

    def __init__(self, *, gaps: bool = False) -> None:
        self._gaps = gaps
        self._next_seq = 0
        self._last_turn = 0
        self._last_step = 0
        self._turn: int | None = None
        self._step: int | None = None
        self._replied = False
        self._chunks: set[int] = set()
        self._calls: dict[str, _Call] = {}
        self._questions: set[str] = set()
        self._asked: set[str] = set()
        self._message_ids: set[str] = set()
        self._queues: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._surface: list[int] = []
        self._results: set[int] = set()

    @property
    def at_rest(self) -> bool:
        """No turn is open."""
        return self._turn is None

    def observe(self, event: Event) -> list[LogRuleBroken]:
        """What is wrong with the next event. It is counted as it stands, whatever is wrong with it."""
        if type(event.data) is AssistantChunk and self._is_next_chunk(event, event.data):
            return []
        rules = [*self._envelope(event), *self._placed(event)]
        self._next_seq = event.seq + 1
        return [LogRuleBroken(rule, event.seq) for rule in rules]

    def _is_next_chunk(self, event: Event, data: AssistantChunk) -> bool:
        """The usual event of a log, in one look: everything that `_envelope` and `_chunk` ask for."""
        sound = event.seq == self._next_seq and event.type == data.TYPE and not self._replied
        sound = sound and (data.turn, data.step) == (self._turn, self._step)
        if not sound or event.surface_op is not None or event.source_event_seqs is not None:
            return False
        self._next_seq += 1
        self._chunks.add(event.seq)
        return True

    def _envelope(self, event: Event) -> Rules:
        if event.seq != self._next_seq and not (self._gaps and event.seq > self._next_seq):
            yield f"seq {event.seq} stands where seq {self._next_seq} is due"
        if not isinstance(event.data, Body):
            return
        if event.type != event.data.TYPE:
            yield f"{event.type} holds the data of {event.data.TYPE}"
        if event.data.SURFACE is not (event.surface_op is not None):
            yield f"surfaceOp is {'missing' if event.data.SURFACE else 'out of place'} on {event.type}"
        yield from self._sources(event)

    def _sources(self, event: Event) -> Rules:
        cited = list(_expanded(event))
        if cited and event.surface_op is None:
            yield f"{event.type} cites sources"
        if len(set(cited)) < len(cited) or any(not 0 <= seq < event.seq for seq in cited):
            yield "its sources are not unique earlier seqs"

    def _placed(self, event: Event) -> Rules:
        if type(event.data) is ToolResult:
            self._results.add(event.seq)
        if isinstance(event.surface_op, SurfaceReplace):
            yield from self._replacement(event, event.surface_op)
            return
        if event.surface_op is not None:
            self._surface.append(event.seq)
        rule = _RULES.get(type(event.data))
        if rule is not None:
            yield from rule(self, event, event.data)

    def _replacement(self, event: Event, replace: SurfaceReplace) -> Rules:
        """It rewrites what the model is told of the past, so it opens, answers and ends nothing."""
        span = replaced_span(self._surface, replace)
        if span is None:
            yield f"it replaces {replace.start} to {replace.end}, which is no span of the surface"
            return
        shadowed = self._surface[span]
        if not set(shadowed) <= set(_expanded(event)):
            yield "it does not cite all that it replaces"
        if isinstance(event.data, ToolResult):
            yield from self._in_turn(event, event.data)
            if len(shadowed) != 1 or shadowed[0] not in self._results:
                yield "a result replaces something else than one result"
        self._surface[span] = [event.seq]

    def _turn_start(self, event: Event, data: TurnStart) -> Rules:
        if self._turn is not None:
            yield f"turn {data.turn} starts inside turn {self._turn}"
        if data.turn != self._last_turn + 1:
            yield f"turn {data.turn} follows turn {self._last_turn}"
        self._turn = self._last_turn = data.turn
        self._last_step = 0

    def _turn_end(self, event: Event, data: TurnEnd) -> Rules:
        if data.turn != self._turn:
            yield f"turn {data.turn} ends while {_named('turn', self._turn)} is open"
        if self._step is not None:
            yield f"turn {data.turn} ends while step {self._step} is open"
            yield from self._leave_step()
        if self._questions and data.reason.kind != "interrupted":
            yield f"turn {data.turn} ends with {len(self._questions)} of its questions undecided"
        yield from _reason(data.reason)
        self._turn = None
        self._questions = set()

    def _step_start(self, event: Event, data: StepStart) -> Rules:
        if data.turn != self._turn:
            yield f"a step of turn {data.turn} starts while {_named('turn', self._turn)} is open"
        if self._step is not None:
            yield f"step {data.step} starts inside step {self._step}"
        if data.step != self._last_step + 1:
            yield f"step {data.step} follows step {self._last_step}"
        self._step = self._last_step = data.step

    def _step_end(self, event: Event, data: StepEnd) -> Rules:
        yield from self._inside(data)
        yield from self._leave_step()

    def _leave_step(self) -> Rules:
        open_calls = [call_id for call_id, call in self._calls.items() if not call.answered]
        if open_calls:
            yield f"the step ends without a result of {', '.join(map(repr, open_calls))}"
        self._step, self._replied, self._chunks, self._calls = None, False, set(), {}

    def _inside(self, data: Any) -> Rules:
        if (data.turn, data.step) != (self._turn, self._step):
            here = f"{_named('turn', self._turn)} and {_named('step', self._step)} are open"
            yield f"it belongs to turn {data.turn}, step {data.step}, but {here}"

    def _in_turn(self, event: Event, data: Body) -> Rules:
        if self._turn is None:
            yield f"{event.type} outside a turn"

    def _chunk(self, event: Event, data: AssistantChunk) -> Rules:
        yield from self._inside(data)
        if self._replied:
            yield "a chunk after the reply of its step"
        self._chunks.add(event.seq)

    def _reply(self, event: Event, data: AssistantMessage) -> Rules:
        yield from self._inside(data)
        if self._replied:
            yield "a second reply in one step"
        if not self._gaps and not set(_expanded(event)) <= self._chunks:
            yield "the reply cites what is no chunk of its own step"
        yield from self._new_message(data.message.id)
        self._replied = True
        for block in data.message.content:
            if isinstance(block, ToolCallBlock):
                yield from self._asked_for(block.id, data)

    def _asked_for(self, call_id: str, data: AssistantMessage) -> Rules:
        if data.interrupted:
            yield f"an interrupted reply holds the call {call_id!r}"
        if call_id in self._asked:
            yield f"the call id {call_id!r} was used before"
        self._asked.add(call_id)
        self._calls[call_id] = _Call()

    def _new_message(self, message_id: str) -> Rules:
        if message_id in self._message_ids:
            yield f"the message id {message_id!r} was used before"
        self._message_ids.add(message_id)

    def _user_message(self, event: Event, data: UserMessage) -> Rules:
        yield from self._new_message(data.id)

    def _tool_call(self, event: Event, data: ToolCallEvent) -> Rules:
        yield from self._inside(data)
        call = self._calls.get(data.call_id)
        if call is None:
            yield f"the reply of this step does not ask for the call {data.call_id!r}"
            call = self._calls[data.call_id] = _Call()
        elif call.call_seq is not None or call.answered:
            yield f"the call {data.call_id!r} is recorded twice or after its result"
        call.call_seq = event.seq

    def _tool_prepared(self, event: Event, data: ToolPrepared) -> Rules:
        yield from self._inside(data)
        call = self._open_call(data.call_id)
        if call is None:
            yield f"{data.call_id!r} is prepared, which is no open call"
            return
        if call.prepared or call.started:
            yield f"the call {data.call_id!r} is prepared twice or after it started"
        call.prepared = True

    def _tool_started(self, event: Event, data: ToolStarted) -> Rules:
        yield from self._inside(data)
        call = self._open_call(data.call_id)
        if call is None:
            yield f"{data.call_id!r} starts, which is no open call"
            return
        if call.started:
            yield f"the call {data.call_id!r} starts twice"
        call.started = True

    def _open_call(self, call_id: str) -> _Call | None:
        """A call that is recorded and has no result yet."""
        call = self._calls.get(call_id)
        return None if call is None or call.call_seq is None or call.answered else call

    def _tool_result(self, event: Event, data: ToolResult) -> Rules:
        yield from self._inside(data)
        yield from self._new_message(data.message.id)
        call_id = data.block.tool_call_id
        call = self._calls.get(call_id)
        if call is None:
            yield f"a result of {call_id!r}, which this step does not ask for"
            return
        if call.answered:
            yield f"a second result of {call_id!r}"
        yield from _proof(event, data, call)
        call.answered = True

    def _approval_asked(self, event: Event, data: ApprovalAsked) -> Rules:
        yield from self._in_turn(event, data)
        if data.id in self._questions:
            yield f"the question {data.id!r} is asked twice"
        call = self._open_call(data.call_id) if data.call_id is not None else None
        if data.call_id is not None and (call is None or call.started):
            yield f"a question about {data.call_id!r}, which is no call that waits"
        self._questions.add(data.id)

    def _approval_decided(self, event: Event, data: ApprovalDecided) -> Rules:
        yield from self._in_turn(event, data)
        if data.id not in self._questions:
            yield f"an answer to {data.id!r}, which is no open question"
        self._questions.discard(data.id)

    def _inbox_spliced(self, event: Event, data: InboxSpliced) -> Rules:
        queue, removed = self._queues[data.target], data.removed_count or 0
        if not 0 <= data.start <= data.start + removed <= len(queue):
            yield f"a splice at {data.start} of {removed} in a queue of {len(queue)}"
        if removed and data.outcome is None and self._turn is None:
            yield "messages are claimed outside a turn"
        queue[data.start : data.start + removed] = [message.id for message in data.inserted]
        waiting = [message_id for ids in self._queues.values() for message_id in ids]
        if len(set(waiting)) < len(waiting):
            yield "a message waits twice"


_Rule = Callable[[StructureChecker, Event, Any], Rules]
_RULES: dict[type, _Rule] = {
    TurnStart: StructureChecker._turn_start,
    TurnEnd: StructureChecker._turn_end,
    StepStart: StructureChecker._step_start,
    StepEnd: StructureChecker._step_end,
    UserMessage: StructureChecker._user_message,
    AssistantChunk: StructureChecker._chunk,
    AssistantMessage: StructureChecker._reply,
    ToolCallEvent: StructureChecker._tool_call,
    ToolPrepared: StructureChecker._tool_prepared,
    ToolStarted: StructureChecker._tool_started,
    ToolResult: StructureChecker._tool_result,
    ApprovalAsked: StructureChecker._approval_asked,
    ApprovalDecided: StructureChecker._approval_decided,
    InboxSpliced: StructureChecker._inbox_spliced,
    RequestHeader: StructureChecker._in_turn,
    RequestContext: StructureChecker._in_turn,
    TodoWrite: StructureChecker._in_turn,
    # Shown as a message, and editors take no message outside a turn.
    NoticeShown: StructureChecker._in_turn,
}


def _expanded(event: Event) -> Iterator[int]:
    for source in event.source_event_seqs or ():
        if isinstance(source, int):
            yield source
        else:
            yield from range(source[0], source[1] + 1)


def _proof(event: Event, data: ToolResult, call: _Call) -> Rules:
    """Only a call that never started may have a result without its tool/call (contracts §1.8)."""
    code = data.error.code if data.error else None
    if call.call_seq is None and code != "TOOL_NOT_STARTED":
        yield f"a result of {data.block.tool_call_id!r} before its tool/call"
    if call.call_seq is not None and tuple(_expanded(event)) != (call.call_seq,):
        yield f"the result of {data.block.tool_call_id!r} does not cite its tool/call"
    if code == "TOOL_NOT_STARTED" and call.started:
        yield f"the call {data.block.tool_call_id!r} is said not to have started, but it had"
    if data.error is not None and not data.block.is_error:
        yield f"a successful result of {data.block.tool_call_id!r} names an error"


def _reason(reason: TurnEndReason) -> Rules:
    if (reason.kind == "error") is not (reason.error is not None):
        yield f"a turn ends {reason.kind} {'with' if reason.error else 'without'} an error"
    if (reason.kind == "aborted") is not (reason.reason is not None):
        yield f"a turn ends {reason.kind} {'with' if reason.reason else 'without'} a cause"


def _named(what: str, number: int | None) -> str:
    return f"no {what}" if number is None else f"{what} {number}"

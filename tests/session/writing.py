"""Logs as the agent loop writes them, step by step, for tests of what reads them.

Owns: the order of events in a turn (contracts §2.3). Knows no loop: a test decides how far a turn gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Literal

from acp_bridge.session.chunks import Chunk, Finish, FinishReason, TextDelta
from acp_bridge.session.codec import FORMAT_VERSION
from acp_bridge.session.content import (
    Block,
    Message,
    ModelSource,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserSource,
    text_message,
)
from acp_bridge.session.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Body,
    ErrorInfo,
    Event,
    Header,
    InboxSpliced,
    ModelHeader,
    Presentation,
    RequestConfig,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolPrepared,
    ToolResult,
    ToolStarted,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from acp_bridge.session.log import SessionLog, Sources
from acp_bridge.session.repair import assistant_message_id

__all__ = ["CONFIG", "HEADER", "Writer", "call", "result", "text"]

HEADER = Header(FORMAT_VERSION, "session-1", 1_000, "/project")
CONFIG = RequestConfig("fake", "model-1")


def text(words: str) -> TextBlock:
    return TextBlock(words)


def call(call_id: str, name: str = "touch", arguments: str = "{}") -> ToolCallBlock:
    return ToolCallBlock(call_id, name, arguments)


def result(turn: int, step: int, call_id: str, words: str = "done", code: str | None = None) -> ToolResult:
    block = ToolResultBlock(call_id, (TextBlock(words),), code is not None)
    message = Message(f"result-{call_id}", "user", (block,), ToolSource(call_id))
    return ToolResult(turn, step, message, ErrorInfo("ToolError", code) if code else None)


class Writer:
    """`events` is the whole log, chunks included. Every method appends what the loop would."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        times = count(1_000)
        self.log = SessionLog(HEADER, observer=self.events.append, clock=lambda: next(times))
        self.turn = 0
        self.step = 0
        self._queued: list[Message] = []
        self._call_seqs: dict[str, int] = {}

    def add(self, body: Body, sources: Sources | None = None) -> Event:
        return self.log.append(body, sources=sources)

    def queue(self, message_id: str) -> None:
        """A prompt arrives."""
        message = text_message(message_id, f"prompt {message_id}", UserSource())
        self.add(InboxSpliced("next-turn", len(self._queued), (message,)))
        self._queued.append(message)

    def discard(self) -> None:
        """A cancel empties the queue."""
        if self._queued:
            self.add(InboxSpliced("next-turn", 0, (), len(self._queued), "canceled"))
            self._queued.clear()

    def start_turn(self) -> Message:
        """turn/start and the claim of the first prompt."""
        self.turn, self.step = self.turn + 1, 0
        self.add(TurnStart(self.turn))
        self.add(InboxSpliced("next-turn", 0, (), 1))
        return self._queued.pop(0)

    def start_step(self, *messages: Message) -> None:
        self.step += 1
        self.add(StepStart(self.turn, self.step))
        for message in messages:
            self.add(UserMessage(message.id, message.role, message.content, message.source))
        if self.turn == self.step == 1:
            self.add(RequestHeader(ModelHeader(CONFIG, "system"), "initial"))
            self.add(RequestContext(CONFIG.provider, CONFIG.model))

    def prompt(self, message_id: str) -> None:
        """A prompt and its turn, up to its first request."""
        self.queue(message_id)
        self.start_step(self.start_turn())

    def chunks(self, *pieces: str | Chunk) -> None:
        for piece in pieces:
            chunk = TextDelta(0, piece) if isinstance(piece, str) else piece
            self.add(AssistantChunk(self.turn, self.step, chunk))

    def reply(self, *blocks: Block, interrupted: Literal[True] | None = None) -> None:
        self.chunks(Finish(FinishReason("stop")))
        source = ModelSource(CONFIG.provider, CONFIG.model)
        message = Message(assistant_message_id(self.turn, self.step), "assistant", tuple(blocks), source)
        body = AssistantMessage(self.turn, self.step, message, interrupted=interrupted)
        self.add(body, self.log.chunk_sources())

    def record(self, asked: ToolCallBlock) -> None:
        event = self.add(ToolCallEvent(self.turn, self.step, asked.id, asked.name, asked.arguments))
        self._call_seqs[asked.id] = event.seq

    def prepare(self, call_id: str) -> None:
        self.add(ToolPrepared(self.turn, self.step, call_id, Presentation("Touch", "edit")))

    def ask(self, call_id: str) -> None:
        self.add(ApprovalAsked(f"question-{call_id}", "touch", call_id))

    def decide(self, call_id: str, outcome: Literal["allowed-once", "rejected", "cancelled"] = "allowed-once") -> None:
        self.add(ApprovalDecided(f"question-{call_id}", outcome))

    def started(self, call_id: str) -> None:
        self.add(ToolStarted(self.turn, self.step, call_id))

    def answer(self, call_id: str) -> None:
        self.add(result(self.turn, self.step, call_id), (self._call_seqs[call_id],))

    def run(self, asked: ToolCallBlock) -> None:
        """One call from its record to its result."""
        self.record(asked)
        self.prepare(asked.id)
        self.started(asked.id)
        self.answer(asked.id)

    def end_step(self) -> None:
        self.add(StepEnd(self.turn, self.step))

    def end_turn(self, reason: TurnEndReason | None = None) -> None:
        self.add(TurnEnd(self.turn, reason or TurnEndReason("completed")))

    def whole_turn(self, message_id: str, replies: Sequence[Sequence[Block]]) -> None:
        """A turn that completes: one step for each reply, its calls run."""
        self.prompt(message_id)
        for number, blocks in enumerate(replies):
            if number:
                self.start_step()
            self.reply(*blocks)
            for block in blocks:
                if isinstance(block, ToolCallBlock):
                    self.run(block)
            self.end_step()
        self.end_turn()

"""Chat completion chunks in, stream chunks out (contracts §1.6; OpenAI: chat completion chunk object).

Owns: block bookkeeping, tool call slots, usage, how a finished reply is judged. Must not know: HTTP, sentences.
Invariant: pure and total: any payload gives chunks or a `fault`, never an exception; block starts, deltas and ends
nest as the grammar says; ids are the provider's own, so that the loop sees a repeated one.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from acp_bridge.session.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    UsageChunk,
)
from acp_bridge.session.content import ReasoningBlock, TextBlock
from acp_bridge_plugins.models_openai.calls import CallDelta, CallSlots
from acp_bridge_plugins.models_openai.usage import reported_usage

__all__ = ["DONE", "Fault", "ReplyDecoder"]

DONE = b"[DONE]"
_SHOWN = 2000


class Fault(Struct, frozen=True):
    """Why a reply cannot be used. `body` is what the provider said: an error object, or the bytes as received."""

    kind: Literal["reported", "undecodable", "cut", "empty", "unanswered"]
    body: Any = None


class _Delta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None


class _Choice(Struct):
    index: int | None = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None


class _Open:
    """The text or reasoning block that is being received."""

    __slots__ = ("index", "kind", "parts")

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.parts: list[str] = []

    def end(self) -> BlockEnd:
        text = "".join(self.parts)
        return BlockEnd(self.index, ReasoningBlock(text) if self.kind == "reasoning" else TextBlock(text))


_decode = msgspec.json.Decoder(_Event).decode

# Endpoints that stopped for a reason of their own name it here; every other unknown word means a normal end.
_REPORTED = {"error", "abort", "insufficient_system_resource"}
_KINDS: dict[str, Literal["max-tokens", "refusal"]] = {"length": "max-tokens", "content_filter": "refusal"}


class ReplyDecoder:
    """Decodes one reply. `done` is set by `[DONE]`, `fault` by the first payload that ends the reply badly."""

    def __init__(self) -> None:
        self.done = False
        self.fault: Fault | None = None
        self._open: _Open | None = None
        self._calls = CallSlots()
        self._next_index = 0
        self._answered = False
        self._refused = False
        self._reasoning_field: str | None = None
        self._finish: str | None = None
        self._seen = False
        self._usage: Any = None

    @property
    def began(self) -> bool:
        """Whether anything could be decoded."""
        return self._seen

    @property
    def complete(self) -> bool:
        """The provider said that, or why, it stopped; what follows can only be counters."""
        return self.fault is None and (self.done or self._finish is not None)

    def reject(self, received: bytes) -> None:
        """What was received instead of an event ends the reply."""
        self.fault = self.fault or Fault("undecodable", received[:_SHOWN])

    def forgive(self) -> None:
        """The last event could not be decoded because it was cut: judge the reply by the ones before it."""
        if self.fault is not None and self.fault.kind == "undecodable":
            self.fault = None

    def feed(self, payload: bytes) -> list[Chunk]:
        """The chunks of one event. Nothing after `[DONE]` or a fault."""
        if self.done or self.fault is not None or not payload:
            return []
        if payload[:6] == DONE:
            self.done = True
            return []
        try:
            event = _decode(payload)
        except (ValueError, RecursionError):
            lenient = _lenient(payload)
            if lenient is None:
                self.reject(payload)
                return []
            event = lenient
        return self._event(event, payload)

    def finish(self) -> list[Chunk]:
        """Ends open blocks, then usage, then `Finish`. Without the `Finish` when there is a `fault`."""
        if self.fault is None:
            self.fault = self._judged()
        usage: list[Chunk] = [UsageChunk(counted) for counted in reported_usage(self._usage)]
        if self.fault is not None:
            return usage
        return [*self._end_block(), *self._calls.ends(), *usage, Finish(self._reason(), self._replay_state())]

    def _event(self, event: _Event, payload: bytes) -> list[Chunk]:
        self._seen = True
        if event.usage is not None:
            self._usage = event.usage
        if event.error or event.object == "error":
            self.fault = Fault("reported", event.error or payload)
            return []
        chunks: list[Chunk] = []
        for choice in event.choices or ():
            if choice.index:
                continue
            if choice.delta is not None:
                self._delta(choice.delta, chunks)
            if choice.finish_reason:
                self._finish = choice.finish_reason
        return chunks

    def _delta(self, delta: _Delta, chunks: list[Chunk]) -> None:
        if delta.reasoning_content or delta.reasoning:
            self._reasoning(delta, chunks)
        if delta.content:
            content = delta.content
            self._text(content if isinstance(content, str) else _part_text(content), chunks)
        if delta.refusal:
            self._refused = True
            self._text(delta.refusal, chunks)
        for call in delta.tool_calls or ():
            self._call(call, chunks)

    def _text(self, text: str, chunks: list[Chunk]) -> None:
        if text:
            block = self._block("text", chunks)
            block.parts.append(text)
            self._answered = True
            chunks.append(TextDelta(block.index, text))

    def _reasoning(self, delta: _Delta, chunks: list[Chunk]) -> None:
        # Some servers fill both fields with the same text.
        field = "reasoning_content" if delta.reasoning_content else "reasoning"
        text = getattr(delta, field)
        if isinstance(text, str):
            self._reasoning_field = field
            block = self._block("reasoning", chunks)
            block.parts.append(text)
            chunks.append(ReasoningDelta(block.index, text))

    def _block(self, kind: Literal["text", "reasoning"], chunks: list[Chunk]) -> _Open:
        block = self._open
        if block is not None and block.kind == kind:
            return block
        chunks.extend(self._end_block())
        block = self._open = _Open(self._next_index, kind)
        self._next_index += 1
        chunks.append(BlockStart(block.index, kind))
        return block

    def _end_block(self) -> list[Chunk]:
        block, self._open = self._open, None
        return [] if block is None else [block.end()]

    def _call(self, delta: CallDelta, chunks: list[Chunk]) -> None:
        self._answered = True
        if self._calls.begins(delta):
            chunks.extend(self._end_block())
            chunks.append(self._calls.begin(delta, self._next_index))
            self._next_index += 1
        chunks.append(self._calls.add(delta))

    def _judged(self) -> Fault | None:
        if self._finish is None and not self.done:
            return Fault("cut" if self._seen else "empty")
        if self._finish in _REPORTED:
            return Fault("reported", {"code": self._finish})
        if self._answered or self._finish in _KINDS:
            return None
        return Fault("unanswered" if self._next_index else "empty")

    def _reason(self) -> FinishReason:
        if self._finish in _KINDS:
            return FinishReason(_KINDS[self._finish])
        if self._calls:
            return FinishReason("tool-calls")
        return FinishReason("refusal" if self._refused else "stop")

    def _replay_state(self) -> dict[str, Any] | None:
        state: dict[str, Any] = {}
        if self._calls and self._reasoning_field:
            state["reasoningField"] = self._reasoning_field
        if extras := self._calls.extras():
            state["callExtras"] = extras
        return state or None


def _part_text(parts: list[Any]) -> str:
    """Content as a list of parts, as some endpoints send it."""
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _lenient(payload: bytes) -> _Event | None:
    """Half a surrogate pair or bytes that are no UTF-8 cost one character, not the reply."""
    import json

    try:
        text = json.dumps(json.loads(payload.decode("utf-8", "replace")), ensure_ascii=False)
        return _decode(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None

"""Pieces of a streaming reply, and their assembly into blocks (contracts §1.6).

Owns: chunk kinds, stream grammar, assembly. Must not know: providers, the log.
Invariant: `assembled` is a pure function of the chunks seen; a half-received call never comes out of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from acp_bridge.session.content import (
    Block,
    ReasoningBlock,
    Shape,
    TextBlock,
    ToolCallBlock,
    Usage,
)

__all__ = [
    "Assembly",
    "BlockEnd",
    "BlockStart",
    "Chunk",
    "Failure",
    "Finish",
    "FinishReason",
    "ReasoningDelta",
    "TextDelta",
    "ToolCallDelta",
    "UsageChunk",
    "interrupted_blocks",
]


class Failure(Shape, frozen=True):
    """Why a model request failed. `code` is from contracts §3.4; `provider_retry_after_ms` as the provider said."""

    message: str
    code: str
    status: int | None = None
    provider_retry_after_ms: int | None = None
    request_id: str | None = None


class FinishReason(Shape, frozen=True):
    """`refusal` is ours: the provider withheld the reply."""

    kind: Literal["stop", "tool-calls", "max-tokens", "refusal", "aborted", "error"]
    failure: Failure | None = None


class BlockStart(Shape, frozen=True, tag_field="type", tag="block-start"):
    index: int
    block_type: Literal["text", "reasoning", "tool-call"]


class TextDelta(Shape, frozen=True, tag_field="type", tag="text-delta"):
    index: int
    text: str


class ReasoningDelta(Shape, frozen=True, tag_field="type", tag="reasoning-delta"):
    index: int
    text: str


class ToolCallDelta(Shape, frozen=True, tag_field="type", tag="tool-call-delta"):
    index: int
    id: str
    arguments_delta: str
    name: str | None = None


class BlockEnd(Shape, frozen=True, tag_field="type", tag="block-end"):
    index: int
    block: Block


class UsageChunk(Shape, frozen=True, tag_field="type", tag="usage"):
    usage: Usage


class Finish(Shape, frozen=True, tag_field="type", tag="finish"):
    reason: FinishReason
    replay_state: dict[str, Any] | None = None


Chunk = TextDelta | ReasoningDelta | ToolCallDelta | BlockStart | BlockEnd | UsageChunk | Finish


class _Open:
    """One block being received."""

    __slots__ = ("call_id", "ended", "kind", "name", "parts")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.call_id = ""
        self.name = ""
        self.ended: Block | None = None

    def block(self) -> Block:
        if self.ended is not None:
            return self.ended
        text = "".join(self.parts)
        if self.kind == "tool-call":
            return ToolCallBlock(self.call_id, self.name, text)
        return ReasoningBlock(text) if self.kind == "reasoning" else TextBlock(text)


class Assembly:
    """Feed chunks with `add`; read the rest. Blocks come in first-seen order."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self.usage: Usage | None = None
        self.finish: FinishReason | None = None
        self.replay_state: dict[str, Any] | None = None

    def add(self, chunk: Chunk) -> None:
        match chunk:
            case TextDelta():
                self._append(chunk.index, "text", chunk.text)
            case ReasoningDelta():
                self._append(chunk.index, "reasoning", chunk.text)
            case ToolCallDelta():
                slot = self._append(chunk.index, "tool-call", chunk.arguments_delta)
                slot.call_id = chunk.id or slot.call_id
                slot.name = chunk.name or slot.name
            case BlockStart():
                self._slot(chunk.index, chunk.block_type)
            case BlockEnd():
                self._slot(chunk.index, "text").ended = chunk.block
            case UsageChunk():
                self.usage = chunk.usage
            case Finish():
                self.finish, self.replay_state = chunk.reason, chunk.replay_state

    def blocks(self) -> tuple[Block, ...]:
        """Everything received. `max-tokens` drops tool calls: the last one may be cut in the middle.

        A stream without a finish counts as stopped (contracts §1.6), but a call in it that has no end is half a call.
        """
        return tuple(block for slot in self._open.values() if self._counts(slot, block := slot.block()))

    def _counts(self, slot: _Open, block: Block) -> bool:
        if not isinstance(block, ToolCallBlock):
            return not _empty(block)
        if self.finish is None:
            return slot.ended is not None
        return self.finish.kind in ("tool-calls", "stop")

    def _slot(self, index: int, kind: str) -> _Open:
        slot = self._open.get(index)
        if slot is None:
            slot = self._open[index] = _Open(kind)
        return slot

    def _append(self, index: int, kind: str, text: str) -> _Open:
        slot = self._slot(index, kind)
        # Stragglers after a block's end are ignored (contracts §1.6).
        if slot.ended is None:
            slot.parts.append(text)
        return slot


def interrupted_blocks(chunks: Iterable[Chunk]) -> tuple[Block, ...]:
    """What survives of a reply that was cut short: non-blank text and reasoning, never a call."""
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(chunk)
    return tuple(
        block for block in assembly.blocks() if isinstance(block, TextBlock | ReasoningBlock) and block.text.strip()
    )


def _empty(block: Block) -> bool:
    return isinstance(block, TextBlock | ReasoningBlock) and not block.text

"""Requests and replies of model adapters: builders, a collector, and the stream grammar of contracts §1.6.

Owns: what every test of an adapter needs. Knows no provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import anyio

from acp_bridge.llm.model import ModelAdapter, ModelRequest
from acp_bridge.session.chunks import (
    Assembly,
    BlockEnd,
    BlockStart,
    Chunk,
    Failure,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from acp_bridge.session.content import (
    Message,
    ModelSource,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserSource,
    text_message,
)
from acp_bridge.session.events import ModelHeader, RequestConfig

__all__ = ["ask", "assembled", "call", "failure", "grammar_problems", "prompt", "reply", "request_of", "result"]

DELTAS = {TextDelta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool-call"}


def prompt(text: str = "hello") -> Message:
    return text_message("m-prompt", text, UserSource())


def reply(*blocks: TextBlock | ToolCallBlock, model: str = "test-model") -> Message:
    return Message("m-reply", "assistant", blocks, ModelSource("openai", model))


def call(call_id: str, name: str = "read_file", arguments: str = "{}") -> ToolCallBlock:
    return ToolCallBlock(call_id, name, arguments)


def result(call_id: str, text: str = "ok") -> Message:
    return Message("m-result", "user", (ToolResultBlock(call_id, (TextBlock(text),)),), ToolSource(call_id))


def request_of(*messages: Message, model: str = "test-model", provider: str = "openai") -> ModelRequest:
    header = ModelHeader(RequestConfig(provider, model), system="Be brief.")
    return ModelRequest(header, messages or (prompt(),))


async def ask(adapter: ModelAdapter, request: ModelRequest | None = None) -> list[Chunk]:
    """The whole reply, which must follow the grammar."""
    with anyio.fail_after(20):
        chunks = [chunk async for chunk in adapter.stream(request or request_of())]
    assert not list(grammar_problems(chunks))
    return chunks


def assembled(chunks: Sequence[Chunk]) -> Assembly:
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(chunk)
    return assembly


def failure(chunks: Sequence[Chunk]) -> Failure:
    """The failure that ended the reply."""
    last = chunks[-1]
    assert isinstance(last, Finish)
    assert last.reason.failure is not None, last
    return last.reason.failure


def grammar_problems(chunks: Sequence[Chunk]) -> Iterator[str]:
    """One sentence per broken rule."""
    last = chunks[-1] if chunks else None
    if not isinstance(last, Finish):
        yield "finish is not last"
        return
    if sum(isinstance(chunk, Finish) for chunk in chunks) > 1:
        yield "more than one finish"
    if sum(isinstance(chunk, UsageChunk) for chunk in chunks) > 1:
        yield "more than one usage"
    opened: dict[int, str] = {}
    yield from _block_problems(chunks, opened)
    if opened and last.reason.kind not in ("error", "aborted"):
        yield "blocks are open at a good end"


def _block_problems(chunks: Sequence[Chunk], opened: dict[int, str]) -> Iterator[str]:
    """Leaves in `opened` what was not ended."""
    seen: set[int] = set()
    for chunk in chunks:
        if isinstance(chunk, BlockStart):
            if chunk.index in seen or chunk.index < 0:
                yield f"index {chunk.index} is not new"
            seen.add(chunk.index)
            opened[chunk.index] = chunk.block_type
        elif isinstance(chunk, BlockEnd):
            if opened.pop(chunk.index, None) != chunk.block.__struct_config__.tag:
                yield f"block {chunk.index} ends as what it was not"
        elif type(chunk) in DELTAS and opened.get(chunk.index) != DELTAS[type(chunk)]:  # type: ignore[union-attr]  # a delta
            yield f"a delta for block {chunk.index}, which is not open as that"  # type: ignore[union-attr]  # a delta

"""Screenplays: what the scripted model says, as values (format: docs/screenplays.md).

Owns: the file format, which step answers a request, a step as moves. Must not know: files, clocks, the log.
Invariant: pure; the step is a function of the request alone, so that an agent that was killed and started again
goes on with the right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from acp_bridge.session.content import (
    Block,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
    UserSource,
)

__all__ = ["OVER", "Move", "Screenplay", "WaitFile", "WaitMs", "missing", "moves", "parse", "place_of"]

OVER = "The screenplay is over: it has no step for this request."

_WORDS = re.compile(r"\S+\s*|\s+")


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file. Unknown keys are refused: a typing error must not change the play silently."""


class Pause(_Part, frozen=True):
    wait_for_file: str


class Call(_Part, frozen=True):
    name: str
    arguments: dict[str, Any] = {}
    raw_arguments: str | None = None
    id: str | None = None


class Failed(_Part, frozen=True):
    message: str
    code: str = "SERVER"
    status: int | None = None
    retry_after_ms: int | None = None


class Counts(_Part, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


Speech = str | tuple[str | Pause, ...]


class Step(_Part, frozen=True):
    reasoning: Speech = ()
    text: Speech = ()
    calls: tuple[Call, ...] = ()
    chunk_ms: int = 0
    wait_for_file: str | None = None
    expect: str | tuple[str, ...] = ()
    finish: Literal["stop", "tool-calls", "max-tokens", "refusal"] | None = None
    failure: Failed | None = None
    usage: Counts | None = None


class Turn(_Part, frozen=True):
    steps: tuple[Step, ...]


class Screenplay(_Part, frozen=True):
    turns: tuple[Turn, ...]

    def step(self, turn: int, step: int) -> Step:
        """Both count from 1, as in the log. Past the end: a reply that says so."""
        steps = self.turns[turn - 1].steps if 0 < turn <= len(self.turns) else ()
        return steps[step - 1] if 0 < step <= len(steps) else Step(text=OVER)


class WaitMs(Struct, frozen=True):
    ms: int


class WaitFile(Struct, frozen=True):
    """`path` as the screenplay has it."""

    path: str


Move = Chunk | WaitMs | WaitFile


def parse(data: bytes, *, is_json: bool) -> Screenplay:
    """Raises ValueError saying what is wrong with the file."""
    try:
        return msgspec.convert(_json(data) if is_json else _toml(data), Screenplay)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def place_of(request: ModelRequest) -> tuple[int, int]:
    """Turn and step of the reply, from 1: prompts by the user so far, and replies since the last of them."""
    prompts = [number for number, message in enumerate(request.messages) if isinstance(message.source, UserSource)]
    since = request.messages[prompts[-1] + 1 :] if prompts else request.messages
    return len(prompts), 1 + sum(message.role == "assistant" for message in since)


def missing(step: Step, request: ModelRequest) -> list[str]:
    """What the step expects in the request and does not find."""
    expected = (step.expect,) if isinstance(step.expect, str) else step.expect
    if not expected:
        return []
    seen = "\n".join([request.header.system or "", *_texts(request.messages)])
    return [text for text in expected if text not in seen]


def moves(step: Step, turn: int, number: int) -> Iterator[Move]:
    """The whole reply, in order, `Finish` last."""
    index = 0
    if step.wait_for_file is not None:
        yield WaitFile(step.wait_for_file)
    for kind, speech in (("reasoning", step.reasoning), ("text", step.text)):
        if speech:
            yield from _spoken(kind, speech, index, step.chunk_ms)
            index += 1
    for ordinal, call in enumerate(step.calls, 1):
        block = ToolCallBlock(
            call.id if call.id is not None else f"call_{turn}_{number}_{ordinal}", call.name, _raw(call)
        )
        yield from _called(block, index, whole=step.failure is None)
        index += 1
    if step.usage is not None:
        yield UsageChunk(Usage(**msgspec.structs.asdict(step.usage)))
    yield Finish(_reason(step))


def _spoken(kind: str, speech: Speech, index: int, chunk_ms: int) -> Iterator[Move]:
    reasoning = kind == "reasoning"
    yield BlockStart(index, "reasoning" if reasoning else "text")
    said: list[str] = []
    for piece in _pieces(speech, chunk_ms):
        if isinstance(piece, Pause):
            yield WaitFile(piece.wait_for_file)
            continue
        if said and chunk_ms:
            yield WaitMs(chunk_ms)
        said.append(piece)
        yield ReasoningDelta(index, piece) if reasoning else TextDelta(index, piece)
    text = "".join(said)
    yield BlockEnd(index, ReasoningBlock(text) if reasoning else TextBlock(text))


def _pieces(speech: Speech, chunk_ms: int) -> Sequence[str | Pause]:
    if not isinstance(speech, str):
        return speech
    return _WORDS.findall(speech) if chunk_ms else (speech,)


def _called(block: ToolCallBlock, index: int, *, whole: bool) -> Iterator[Chunk]:
    yield BlockStart(index, "tool-call")
    yield ToolCallDelta(index, block.id, block.arguments, block.name)
    if whole:
        yield BlockEnd(index, block)


def _raw(call: Call) -> str:
    if call.raw_arguments is not None:
        return call.raw_arguments
    return msgspec.json.encode(call.arguments).decode()


def _reason(step: Step) -> FinishReason:
    if step.failure is not None:
        failed = step.failure
        return FinishReason("error", Failure(failed.message, failed.code, failed.status, failed.retry_after_ms))
    return FinishReason(step.finish or ("tool-calls" if step.calls else "stop"))


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for block in message.content:
            yield from _block_texts(block)


def _block_texts(block: Block) -> Iterator[str]:
    if isinstance(block, ToolCallBlock):
        yield from (block.name, block.arguments)
    elif isinstance(block, ToolResultBlock):
        yield from (part.text for part in block.content)
    else:
        yield block.text


def _toml(data: bytes) -> Any:
    import tomllib

    return tomllib.loads(data.decode())


def _json(data: bytes) -> Any:
    return msgspec.json.decode(data)

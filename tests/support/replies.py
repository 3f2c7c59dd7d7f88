"""Scripted replies of an OpenAI-compatible endpoint, as values.

Owns the shape of a chat completion stream: which server-sent events a reply consists of, where it pauses and how it
ends, sane or broken on purpose. Knows no socket; `openai_server` plays what is described here.
Invariant: a reply is immutable, so one value can be played any number of times.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["Close", "Hold", "Part", "Raw", "Reply", "Reset", "Step", "Text", "ToolCall"]


@dataclass(frozen=True)
class Text:
    """One delta of visible text or, with `field="reasoning_content"`, of reasoning."""

    text: str
    field: Literal["content", "reasoning_content"] = "content"


@dataclass(frozen=True)
class ToolCall:
    """One tool call, streamed as an opening delta and `pieces` argument deltas.

    `id` None leaves the key out; `index` None counts the calls of the reply. `arguments` is sent as it stands, so
    it may be "null", "[]" or truncated.
    """

    id: str | None
    name: str | None
    arguments: str
    index: int | None
    pieces: int


@dataclass(frozen=True)
class Raw:
    """Bytes that go onto the stream as they are."""

    data: bytes


Part = Text | ToolCall | Raw


@dataclass(frozen=True)
class Hold:
    """Wait until `gate` is set; without a gate, until the server closes."""

    gate: threading.Event | None


@dataclass(frozen=True)
class Reset:
    """Abort the connection with a TCP reset."""


@dataclass(frozen=True)
class Close:
    """Close the connection in the middle of the body, without a reset."""


Step = bytes | Hold | Reset | Close


@dataclass(frozen=True)
class Reply:
    """One scripted reply. Build it with the class methods, join with `+`, refine with the methods below.

    Positions (`after`, `before`) count server-sent events from 0: every text piece is one event, a tool call is one
    opening event plus its argument pieces, then come the finish, usage and `[DONE]` events.
    """

    parts: tuple[Part, ...] = ()
    status_code: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    error: Any = None
    pace_s: float = 0.0
    finish_reason: str | None = "auto"
    usage_counts: dict[str, Any] | None = None
    done: bool = True
    body: bytes | None = None
    holds: tuple[tuple[int, Hold], ...] = ()
    ending: tuple[int, bool, Step] | None = None
    before_headers: Hold | None = None

    @classmethod
    def text(cls, *pieces: str, pace: float = 0.0) -> Reply:
        """Visible text, one event a piece, `pace` seconds apart."""
        return cls(parts=tuple(Text(piece) for piece in pieces), pace_s=pace)

    @classmethod
    def reasoning(cls, *pieces: str, pace: float = 0.0) -> Reply:
        """Reasoning, in the `reasoning_content` field that compatible endpoints use."""
        return cls(parts=tuple(Text(piece, "reasoning_content") for piece in pieces), pace_s=pace)

    @classmethod
    def tool(
        cls, id: str | None, name: str | None, arguments: Any, *, index: int | None = None, pieces: int = 3
    ) -> Reply:
        """A tool call. A string is sent verbatim, anything else as JSON."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return cls(parts=(ToolCall(id, name, text, index, pieces),))

    @classmethod
    def raw(cls, data: bytes) -> Reply:
        """Raw bytes inside an event stream, counted as one event: garbage lines, half events, comments."""
        return cls(parts=(Raw(data),))

    @classmethod
    def bytes_body(cls, body: bytes, *, content_type: str = "text/event-stream") -> Reply:
        """A 200 whose whole body is `body`."""
        return cls(body=body, headers=(("content-type", content_type),))

    @classmethod
    def empty(cls) -> Reply:
        """A 200 without any body."""
        return cls.bytes_body(b"")

    @classmethod
    def status(cls, code: int, message: str = "scripted error", *, retry_after: float | None = None) -> Reply:
        """An HTTP error with the error object OpenAI sends."""
        headers = () if retry_after is None else (("retry-after", f"{retry_after:g}"),)
        error = {"message": message, "type": ERROR_TYPES.get(code, "api_error"), "param": None, "code": None}
        return cls(status_code=code, headers=headers, error={"error": error})

    @classmethod
    def silence(cls, release: threading.Event | None = None) -> Reply:
        """Not even headers until `release` is set (or the server closes), then an empty ordinary reply."""
        return cls(before_headers=Hold(release))

    def __add__(self, other: Reply) -> Reply:
        """This reply's parts, then the other's; where both set something the right side wins.

        Positions belong to the whole, so gates and endings are set after joining.
        """
        assert not other.holds and other.ending is None, "set gates and endings on the joined reply"
        return replace(
            self,
            parts=self.parts + other.parts,
            pace_s=other.pace_s or self.pace_s,
            usage_counts=other.usage_counts or self.usage_counts,
            finish_reason=other.finish_reason if other.finish_reason != "auto" else self.finish_reason,
            done=self.done and other.done,
        )

    def pace(self, seconds: float) -> Reply:
        """Events leave `seconds` apart, on a fixed schedule from the first."""
        return replace(self, pace_s=seconds)

    def gate(self, gate: threading.Event | None, *, before: int) -> Reply:
        """Hold event number `before` and all later ones until `gate` is set; None holds for ever."""
        return replace(self, holds=(*self.holds, (before, Hold(gate))))

    def usage(self, prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> Reply:
        """Ends with a usage event, counted as OpenAI counts."""
        counts = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
        return replace(self, usage_counts=counts)

    def finish(self, reason: str | None) -> Reply:
        """The finish_reason to send; None sends no finish event. Unset, it is `tool_calls` or `stop`."""
        return replace(self, finish_reason=reason)

    def without_done(self) -> Reply:
        """Ends the body without the `[DONE]` event."""
        return replace(self, done=False)

    def reset_after(self, events: int, *, mid_event: bool = False) -> Reply:
        """TCP reset after so many events; with `mid_event`, after half of the next one."""
        return replace(self, ending=(events, mid_event, Reset()))

    def close_after(self, events: int, *, mid_event: bool = False) -> Reply:
        """The body is cut off after so many events by an orderly close."""
        return replace(self, ending=(events, mid_event, Close()))

    def steps(self, model: str, *, created: int = 0) -> Iterator[Step]:
        """What to do once the headers are out, in order."""
        events = list(self._events(model, created))
        for number, event in enumerate(events):
            yield from (hold for before, hold in self.holds if before == number)
            if self.ending is not None and number == self.ending[0]:
                if self.ending[1]:
                    yield event[: len(event) // 2]
                break
            yield event
        else:
            yield from (hold for before, hold in self.holds if before >= len(events))
        if self.ending is not None:
            yield self.ending[2]

    def _events(self, model: str, created: int) -> Iterator[bytes]:
        envelope = {
            "id": "chatcmpl-scripted",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        calls = 0
        for part in self.parts:
            if isinstance(part, Raw):
                yield part.data
                continue
            for delta in _deltas(part, calls):
                yield _event(envelope, [{"index": 0, "delta": delta, "finish_reason": None}])
            calls += isinstance(part, ToolCall)
        reason = ("tool_calls" if calls else "stop") if self.finish_reason == "auto" else self.finish_reason
        if reason is not None:
            yield _event(envelope, [{"index": 0, "delta": {}, "finish_reason": reason}])
        if self.usage_counts is not None:
            yield _event({**envelope, "usage": self.usage_counts}, [])
        if self.done:
            yield b"data: [DONE]\n\n"


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}


def _deltas(part: Text | ToolCall, calls: int) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text):
        yield {"role": "assistant", part.field: part.text}
        return
    index = calls if part.index is None else part.index
    function: dict[str, Any] = {"arguments": ""} if part.name is None else {"name": part.name, "arguments": ""}
    opening: dict[str, Any] = {"index": index, "type": "function", "function": function}
    if part.id is not None:
        opening["id"] = part.id
    yield {"role": "assistant", "content": None, "tool_calls": [opening]}
    for piece in _cut(part.arguments, part.pieces):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _event(envelope: dict[str, Any], choices: list[dict[str, Any]]) -> bytes:
    chunk = {**envelope, "choices": choices}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"

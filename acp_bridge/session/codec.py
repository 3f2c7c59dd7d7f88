"""Events and headers to and from JSON lines (contracts §1.1, §1.9, §5.5).

Owns: the vocabulary of event types and lossless encoding. Must not know: frames, files, torn tails.
Invariant: `decode_event(encode_event(e)) == e`; an unknown type is `UnknownEventType`, never damage, unless the
event says `ignorable`, in which case its data is carried along as plain JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, Union

import msgspec

from acp_bridge.session.content import Shape
from acp_bridge.session.events import CORE_BODIES, Body, Event, Header, SurfaceReplace

__all__ = [
    "FORMAT_VERSION",
    "MalformedRecord",
    "Record",
    "UnknownEventType",
    "Vocabulary",
    "decode_header",
    "encode_header",
]

# Bumped only for structural change: header shape, envelope, meaning of a core event, surface mechanism.
FORMAT_VERSION = 1

# JSON numbers beyond this are not exact in every reader (IEEE doubles).
MAX_SAFE_INTEGER = 2**53 - 1


class MalformedRecord(ValueError):
    """A line that is no event of a known shape. The text names the fact, never the content."""


class UnknownEventType(ValueError):
    def __init__(self, event_type: str, seq: int) -> None:
        super().__init__(f"event {seq} has the unknown type {event_type!r}; a newer acp-bridge can read it")
        self.event_type = event_type
        self.seq = seq


class _Line(Shape, frozen=True):
    type: str
    seq: int
    time: int
    data: msgspec.Raw
    surface_op: Literal["append"] | SurfaceReplace | None = None
    source_event_seqs: tuple[int | tuple[int, int], ...] | None = None
    ignorable: Literal[True] | None = None


class Record(Shape, frozen=True):
    """An event as `decode_lines` gives it; its type is that of its data."""

    seq: int
    time: int
    data: Any
    source_event_seqs: tuple[int | tuple[int, int], ...] | None = None
    ignorable: Literal[True] | None = None

    def event(self) -> Event:
        surface_op = getattr(self, "surface_op", None)
        return Event(self.data.TYPE, self.seq, self.time, self.data, surface_op, self.source_event_seqs, self.ignorable)


class _HeaderLine(Header, frozen=True, tag_field="type", tag="session"):
    pass


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_Line)
_header_decoder = msgspec.json.Decoder(_HeaderLine)


class Vocabulary:
    """The event types a reader knows. A plugin adds its own bodies by constructing one with them."""

    def __init__(self, extra: Iterable[type[Body]] = ()) -> None:
        self._bodies: dict[str, type[Body]] = {body.TYPE: body for body in (*CORE_BODIES, *extra)}
        self._decoders = {name: msgspec.json.Decoder(body) for name, body in self._bodies.items()}

    def decode_lines(self, content: bytes) -> Sequence[Record] | None:
        """All events of a batch of lines in one pass, a quarter of what one by one costs. None for a batch that has
        anything unusual about it; `decode_event` then says of each line what it is."""
        lines = content.count(b"\n")
        # The decoder would also take two records on a line, and empty lines.
        if content.count(b"}\n{") != lines - 1 or not content.startswith(b"{") or not content.endswith(b"}\n"):
            return None
        try:
            return self._records.decode_lines(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    @cached_property
    def _records(self) -> msgspec.json.Decoder[Record]:
        # Made when the first log is read: the start has no use for it.
        kinds = tuple(_record_type(body) for body in self._bodies.values())
        return msgspec.json.Decoder(Union[kinds])  # noqa: UP007  # made of a tuple

    def encode_event(self, event: Event) -> bytes:
        """One line with its newline. Raises MalformedRecord for what JSON cannot hold (a lone surrogate, a NaN)."""
        try:
            line = _encoder.encode(event)
        except (TypeError, ValueError) as error:
            raise MalformedRecord(f"event {event.seq} ({event.type}) is not lossless JSON") from error
        # msgspec writes null for a number that JSON has not; everything else that is null is rare enough to look at.
        if b"null" in line and not _finite(msgspec.to_builtins(event)):
            raise MalformedRecord(f"event {event.seq} ({event.type}) holds a number that JSON has not")
        return line + b"\n"

    def decode_event(self, line: bytes) -> Event:
        """Raises MalformedRecord or UnknownEventType."""
        try:
            raw = _line_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRecord(f"not an event record: {error}") from error
        decoder = self._decoders.get(raw.type)
        if decoder is None:
            if raw.ignorable is None:
                raise UnknownEventType(raw.type, raw.seq)
            return _event(raw, msgspec.json.decode(raw.data))
        try:
            data = decoder.decode(raw.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedRecord(f"event {raw.seq} ({raw.type}) has an invalid shape: {error}") from error
        if type(data).SURFACE is not (raw.surface_op is not None):
            raise MalformedRecord(f"event {raw.seq} ({raw.type}) has its surfaceOp missing or out of place")
        return _event(raw, data)


def _record_type(body: type[Body]) -> type[Record]:
    surface = [("surface_op", Literal["append"] | SurfaceReplace)]
    made: Any = msgspec.defstruct(
        f"{body.__name__}Record",
        [("data", body), *(surface if body.SURFACE else ())],
        bases=(Record,),
        tag_field="type",
        tag=body.TYPE,
        frozen=True,
        kw_only=True,
    )
    kind: type[Record] = made
    return kind


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list | tuple) else True


def _event(raw: _Line, data: Any) -> Event:
    if not 0 <= raw.seq <= MAX_SAFE_INTEGER:
        raise MalformedRecord(f"seq {raw.seq} is out of range")
    return Event(raw.type, raw.seq, raw.time, data, raw.surface_op, raw.source_event_seqs, raw.ignorable)


def encode_header(header: Header) -> bytes:
    fields = msgspec.structs.asdict(header)
    return _encoder.encode(_HeaderLine(**fields)) + b"\n"


def decode_header(line: bytes) -> Header:
    """Raises MalformedRecord. The version is the caller's to judge, before anything else (contracts §1.9)."""
    try:
        fields = msgspec.structs.asdict(_header_decoder.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRecord(f"not a session header: {error}") from error
    return Header(**fields)

"""JSON-RPC 2.0 as newline-delimited UTF-8: bytes in, messages out, and back.

Owns: splitting a byte stream into lines, telling requests, notifications, responses and broken frames apart,
and encoding each kind. Must not know: descriptors, tasks, ACP methods, error numbers.
Invariants: `parse` returns for every input and never raises; every encoder returns exactly one line; time is
linear in the bytes and memory is bounded by the cap.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from acp_bridge.errors import InvalidRequest, ParseError

__all__ = [
    "LINE_CAP",
    "Framer",
    "IdKey",
    "Invalid",
    "Line",
    "Message",
    "Notification",
    "Oversized",
    "Request",
    "Response",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "id_key",
    "parse",
    "too_long",
]

LINE_CAP = 64 * 1024 * 1024
"""Longest accepted line in bytes. Resources of 20 MB are really embedded in prompts (field case P1), and base64
makes them a third larger."""

_HEAD = 1024  # enough for jsonrpc, id and method, which every known client writes before params or result

IdKey: TypeAlias = str | int | float | None
"""A request id by value: `1`, `1.0` and `"a"`, `"\\u0061"` are the same id whatever bytes spelled them."""

FrameKind: TypeAlias = Literal["request", "response", "unknown"]


class Oversized(msgspec.Struct, frozen=True):
    """Stands in for a line longer than `cap` bytes; `head` is its beginning, where the id usually is."""

    cap: int
    head: bytes


Line: TypeAlias = bytes | Oversized


class Request(msgspec.Struct, frozen=True):
    """`id` is echoed byte for byte; `params` is an object, an array or empty when absent."""

    id: Raw
    method: str
    params: Raw


class Notification(msgspec.Struct, frozen=True):
    method: str
    params: Raw


class Response(msgspec.Struct, frozen=True):
    """`error` is empty unless the peer sent one; then `result` means nothing. `id` may be anything."""

    id: Raw
    result: Raw
    error: Raw


class Invalid(msgspec.Struct, frozen=True):
    """A line that cannot be served. `id` is the best known one, None when unknown.

    `kind` says what the line looks like: a broken "response" must never be answered (JSON-RPC 2.0 §5).
    """

    id: Raw | None
    error: ParseError | InvalidRequest
    kind: FrameKind


Message: TypeAlias = Request | Notification | Response | Invalid


class Framer:
    """Splits a byte stream on 0x0A only: editors put U+2028 and a bare CR inside strings.

    A line over `cap` bytes (its line end not counted) yields one `Oversized` at once and the rest of it is skipped.
    """

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._cap = cap
        # A bytearray, not a list of pieces: a 64 MiB line in 1-byte pieces would hold 64 million list slots.
        self._held = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[Line]:
        *ended, rest = data.split(b"\n")
        lines = [line for piece in ended if (line := self._end(piece)) is not None]
        if (oversized := self._hold(rest)) is not None:
            lines.append(oversized)
        return lines

    def finish(self) -> list[Line]:
        """The unterminated last line at the end of the stream, if there is one."""
        line = self._end(b"")
        return [] if line is None else [line]

    def _end(self, piece: bytes) -> Line | None:
        if self._skipping:
            self._skipping = False
            return None
        if self._held or len(piece) > self._cap:
            if (oversized := self._hold(piece)) is not None:
                self._skipping = False
                return oversized
            piece = bytes(self._held)
            self._held.clear()
        line = piece.removesuffix(b"\r")
        return line if line and not line.isspace() else None

    def _hold(self, piece: bytes) -> Oversized | None:
        if self._skipping:
            return None
        if len(self._held) + len(piece) <= self._cap:
            self._held += piece
            return None
        size = min(_HEAD, self._cap)  # not more than every way of cutting the line into pieces has at hand here
        head = (bytes(self._held[:size]) + piece[:size])[:size]
        self._held.clear()
        self._skipping = True
        return Oversized(self._cap, head)


class _Name:
    """A member name. Compared by identity, so that a dict of them keeps members that appear twice."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


# Values stay raw: msgspec checks their syntax without building them, so a hostile line costs no memory.
_MEMBERS = msgspec.json.Decoder(dict[_Name, Raw], dec_hook=lambda _type, text: _Name(text))
_ID: msgspec.json.Decoder[IdKey] = msgspec.json.Decoder(str | int | float | None)
_TEXT = msgspec.json.Decoder(str)
_ABSENT = Raw(b"")
_NULL = Raw(b"null")
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|\\u[dD][c-fC-F][0-9a-fA-F]{2}|"
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.)"
)
_ENVELOPE_MEMBER = re.compile(
    rb'\s*[{,]\s*"(jsonrpc|id|method|result|error|params)"\s*:\s*'
    rb'(?:("(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|null)(?=\s*[,}]))?'
)


def parse(line: bytes) -> Message:
    """Tell what one line is. A missing "jsonrpc" is tolerated, batches are not (ACP v1 has none).

    Lone surrogates, which no UTF-8 can hold, become U+FFFD, as they do in what is sent.
    """
    try:
        members = _MEMBERS.decode(line)
    except msgspec.ValidationError:
        return Invalid(None, InvalidRequest("A frame must be one JSON object; batches are not supported."), "unknown")
    except msgspec.DecodeError as malformed:
        # JavaScript and Python write half an emoji, or a file name that is not UTF-8, as a lone surrogate's escape.
        whole = _LONE_SURROGATE.sub(lambda found: found[1] or b"\\ufffd", line)
        if whole != line:
            return parse(whole)
        return _broken(line[:_HEAD], f"The line is not JSON: {str(malformed).removeprefix('JSON is malformed: ')}.")
    except RecursionError:
        return _broken(line[:_HEAD], "The line is nested too deeply.")
    known = {name.text: value for name, value in members.items()}
    kind = _kind(known)
    repeated = len(known) != len(members)
    if (refusal := _refusal(line, known, kind, repeated)) is not None:
        unsure = repeated and sum(name.text == "id" for name in members) > 1
        return Invalid(None if unsure else _usable_id(known.get("id")), refusal, kind)
    return _message(known, kind)


def too_long(line: Oversized) -> Invalid:
    return _broken(line.head, f"The line is longer than the cap of {line.cap} bytes.")


def id_key(raw: Raw | bytes) -> IdKey:
    """The id by value.

    Raises:
        msgspec.DecodeError: it is neither a string, a number in range, nor null.
    """
    return _ID.decode(raw)


def _message(known: dict[str, Raw], kind: FrameKind) -> Message:
    if kind == "response":
        error = known.get("error", _ABSENT)
        # JSON-RPC 1 habit, seen in the wild: "error": null beside the result.
        return Response(known.get("id", _NULL), known.get("result", _NULL), _ABSENT if _starts(error, b"n") else error)
    params = known.get("params", _ABSENT)
    params = _ABSENT if _starts(params, b"n") else params
    method = _TEXT.decode(known["method"])
    # The id is copied: a slice would keep its whole line alive for as long as the request runs.
    return Request(known["id"].copy(), method, params) if "id" in known else Notification(method, params)


def _kind(known: dict[str, Raw]) -> FrameKind:
    if "method" in known:
        return "request"
    return "response" if "result" in known or "error" in known else "unknown"


def _refusal(line: bytes, known: dict[str, Raw], kind: FrameKind, repeated: bool) -> ParseError | InvalidRequest | None:
    if not _is_utf8(line):
        return ParseError("The line is not valid UTF-8.")
    if repeated:
        return InvalidRequest("A member appears twice in the frame.")
    if kind == "response":
        return None
    if kind == "unknown":
        return InvalidRequest("The frame has no method.")
    if bytes(known.get("jsonrpc", b'"2.0"')) != b'"2.0"':
        return InvalidRequest('The member "jsonrpc" must be "2.0".')
    if "id" in known and _usable_id(known["id"]) is None:
        return InvalidRequest("The id must be a string, a number or null.")
    if not _starts(known["method"], b'"'):
        return InvalidRequest("The method must be a string.")
    if not _starts(known.get("params", _NULL), b"{", b"[", b"n"):
        return InvalidRequest("The params must be an object.")
    return None


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _starts(value: Raw, *firsts: bytes) -> bool:
    return bytes(memoryview(value)[:1]) in firsts


def _usable_id(raw: Raw | bytes | None) -> Raw | None:
    """A copy of the id when it can be echoed, else None."""
    if raw is None:
        return None
    try:
        id_key(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Raw(bytes(raw))


def _broken(head: bytes, sentence: str) -> Invalid:
    """Read the first envelope members of a line that cannot be parsed, so that its sender learns which call failed.

    Only members at the top level are followed, and only up to the first value that is not a plain scalar: searching
    for an "id" anywhere would find the ones inside params.
    """
    seen: dict[bytes, bytes | None] = {}
    at = 0
    while (found := _ENVELOPE_MEMBER.match(head, at)) is not None:
        seen[found[1]] = found[2]
        at = found.end()
        if found[2] is None:
            break
    kind: FrameKind = "request" if b"method" in seen else "unknown"
    if kind == "unknown" and (b"result" in seen or b"error" in seen):
        kind = "response"
    return Invalid(_usable_id(seen.get(b"id")), ParseError(sentence), kind)


_ENCODER = msgspec.json.Encoder()


def encode_result(id_raw: Raw, result: object) -> bytes:
    """None becomes `{}`: clients crash on a null result (editors rule 19).

    Raises:
        TypeError: the result is not an object.
    """
    body = _body(result)
    if not body.startswith(b"{"):
        raise TypeError(f"a result must be an object, not {type(result).__name__}")
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (bytes(id_raw), body)


def encode_error(id_raw: Raw | None, code: int, message: str, data: object = None) -> bytes:
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (bytes(_NULL if id_raw is None else id_raw), _body(error))


def encode_request(number: int, method: str, params: object) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,%b%b}\n' % (number, _method_members(method), _body(params))


def encode_notification(method: str, params: object) -> bytes:
    return b'{"jsonrpc":"2.0",%b%b}\n' % (_method_members(method), _body(params))


@lru_cache(maxsize=64)
def _method_members(method: str) -> bytes:
    return b'"method":%b,"params":' % _ENCODER.encode(method)


def _body(value: object) -> bytes:
    if value is None:
        return b"{}"
    try:
        body = _ENCODER.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form, and clients in Rust refuse its escape with the whole frame.
        body = _ENCODER.encode(_without_lone_surrogates(msgspec.to_builtins(value, enc_hook=_raw_to_builtins)))
    # Only a Raw can bring a newline along, as white space between tokens.
    return body.replace(b"\n", b" ") if b"\n" in body else body


def _raw_to_builtins(value: object) -> object:
    if isinstance(value, Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"objects of type {type(value).__name__} cannot be encoded")


def _without_lone_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    return value

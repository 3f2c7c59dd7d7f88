"""Server-sent events: bytes in, data payloads out (WHATWG: server-sent events).

Owns: framing of an event stream that arrives in pieces of any size. Must not know: JSON, HTTP, providers.
Invariant: the payloads depend on the bytes alone, never on where they were cut; an event is handed out with the
bytes that complete it; after the first line that no event stream holds nothing is handed out any more.
"""

from __future__ import annotations

import re

__all__ = ["EVENT_LIMIT", "SseReader"]

EVENT_LIMIT = 32 * 1024 * 1024
"""Bytes of one event that are held. The largest legitimate one is a whole file as the arguments of one call."""

_TOKEN = re.compile(rb"[A-Za-z0-9_-]+")
_NAMES = (b"data", b"event", b"id", b"retry")
_SHOWN = 2000


class SseReader:
    """`garbage` is set to the beginning of the first line that is no event stream field, or of an event larger
    than `EVENT_LIMIT`; `feed` returns nothing from then on.
    """

    def __init__(self) -> None:
        self.garbage: bytes | None = None
        self._buffer = bytearray()
        self._skip_lf = False

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of the events that `data` completes."""
        if self._skip_lf or b"\r" in data:
            data = self._lf_only(data)
        buffer = self._buffer
        if not buffer and data.endswith(b"\n\n"):
            return self._payloads(data.split(b"\n\n"))
        # From one byte before the seam: the blank line may lie across it. Scanning from 0 would be quadratic.
        seam = max(0, len(buffer) - 1)
        buffer += data
        if buffer.find(b"\n\n", seam) < 0:
            self._limit()
            return []
        events = bytes(buffer).split(b"\n\n")
        self._buffer = bytearray(events.pop())
        return self._payloads(events)

    def finish(self) -> list[bytes]:
        """The payload of a last event that no blank line ended, as some servers leave it."""
        last = bytes(self._buffer)
        self._buffer = bytearray()
        return self._payloads([last])

    def _lf_only(self, data: bytes) -> bytes:
        if self._skip_lf and data.startswith(b"\n"):
            data = data[1:]
            if not data:
                self._skip_lf = False
                return data
        # A CR at the end is taken at once: waiting for its LF would hold back a finished event.
        self._skip_lf = data.endswith(b"\r") or (self._skip_lf and not data)
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _limit(self) -> None:
        if len(self._buffer) > EVENT_LIMIT:
            self.garbage = bytes(self._buffer[:_SHOWN])
            self._buffer = bytearray()

    def _payloads(self, events: list[bytes]) -> list[bytes]:
        payloads = []
        for event in events:
            if self.garbage is not None:
                break
            if event.startswith(b"data: ") and b"\n" not in event:
                payloads.append(event[6:])
            elif event and (payload := self._fields(event)):
                payloads.append(payload)
        return payloads

    def _fields(self, event: bytes) -> bytes | None:
        data = []
        for raw in event.split(b"\n"):
            line = raw.removeprefix(b"\xef\xbb\xbf")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif line and not line.startswith(b":") and not _is_field(line):
                self.garbage = line[:_SHOWN]
                return None
        return b"\n".join(data)


def _is_field(line: bytes) -> bool:
    """A field that may be skipped. A bare word counts only if the standard has it: `garbage` is no field."""
    name, colon, _ = line.partition(b":")
    return line in _NAMES or (bool(colon) and _TOKEN.fullmatch(name) is not None)

"""What a command wrote: kept within bounds, then made readable (field case T1, contracts §8.6).

Owns: how much is kept, decoding, escape sequences. Must not know: processes, the tool. Invariant: pure apart from its
own buffers; memory is bounded whatever arrives, every byte is counted, and what is left out is said where it was.
"""

from __future__ import annotations

import re

__all__ = ["HEAD", "LIMIT", "TAIL", "Keeper", "shares"]

# Bytes per command, both streams together: the 64,000 of contracts §8.6, in binary. The end of an output says most
# (the error, the summary), so it gets five eighths.
HEAD = 24 * 1024
TAIL = 40 * 1024
LIMIT = HEAD + TAIL
# The smaller part that stderr is sure of when both streams are long.
_STDERR_SHARE = LIMIT // 4
# Above this share of characters that are no text, the output is named rather than shown.
_BINARY_SHARE = 0.1

# CSI, OSC and other strings up to their end, and two-character escapes. Classes do not overlap: linear on any input.
# A string ends with its line at the latest: an unfinished one would hide all that follows.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
# How manual pages print bold and underlined letters.
_OVERSTRUCK = re.compile(r"[^\n]\x08")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Keeper:
    """The first `HEAD` and the last `TAIL` bytes of a stream. `total` counts all of them."""

    def __init__(self) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, block: bytes | memoryview) -> None:
        self.total += len(block)
        taken = min(len(block), HEAD - len(self._head))
        self._head += block[:taken]
        rest = block[taken:]
        self._tail += rest[-TAIL:]
        # Twice as much as is kept, so that small blocks do not move the whole tail each time.
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]

    def text(self, limit: int = LIMIT) -> str:
        """At most `limit` bytes of it, readable, with a note where bytes were left out."""
        kept = bytes(self._head + self._tail)
        if self.total <= limit and self.total == len(kept):
            text = _readable(kept)
            return _binary(self.total) if text is None else text
        head = _whole_end(kept, limit * HEAD // LIMIT)
        tail = _whole_start(kept, limit * TAIL // LIMIT)
        first, last = _readable(head), _readable(tail)
        if first is None or last is None:
            return _binary(self.total)
        missing = self.total - len(head) - len(tail)
        return f"{_closed(first)}[{missing} bytes left out]\n{last}"


def shares(stdout: int, stderr: int) -> tuple[int, int]:
    """How many bytes of each stream are shown, given how many each wrote."""
    second = min(stderr, max(_STDERR_SHARE, LIMIT - stdout))
    return min(stdout, LIMIT - second), second


def _whole_end(kept: bytes, size: int) -> bytes:
    """The first `size` bytes, without the first half of a character that the cut divides."""
    end = size
    if _continues(kept[size : size + 1]):
        while end > size - 3 and _continues(kept[end - 1 : end]):
            end -= 1
        end -= 1
    return kept[: max(end, 0)]


def _whole_start(kept: bytes, size: int) -> bytes:
    """The last `size` bytes, without the second half of a character that the cut divides."""
    start = max(0, len(kept) - size)
    while start < len(kept) - size + 3 and _continues(kept[start : start + 1]):
        start += 1
    return kept[start:]


def _continues(byte: bytes) -> bool:
    return bool(byte) and byte[0] & 0xC0 == 0x80


def _readable(data: bytes) -> str | None:
    """Text without escapes; None when it is none."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    text = _OVERSTRUCK.sub("", text)
    strange = len(_CONTROLS.findall(text)) - text.count("\r") + text.count("�")
    if strange > len(text) * _BINARY_SHARE:
        return None
    return _CONTROLS.sub("�", "\n".join(map(_overwritten, text.split("\n"))))


def _overwritten(line: str) -> str:
    """A line that a progress display wrote again and again, as it stood in the end."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part), "")


def _binary(total: int) -> str:
    return f"[{total} bytes that are not text]"


def _closed(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"

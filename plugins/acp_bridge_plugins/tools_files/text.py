"""Bytes of a text file to text and back, and edits that touch only what was asked (field cases E1, E2).

Owns: encodings, line ends, finding and replacing. Must not know: files, editors, tools.
Invariant: pure; `encode(decode(data))` is `data`. Edits work on a *view* in which every line end (LF, CRLF, CR, as
editors count lines) is LF; `realigned` gives each line that stays its own line end back.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from msgspec import Struct

__all__ = [
    "UTF8",
    "Coding",
    "NotText",
    "decode",
    "encode",
    "escaped",
    "legible",
    "line_end",
    "marked",
    "realigned",
    "same_text",
    "view",
]


class NotText(ValueError):
    """Why bytes cannot be handled as text, or text not as bytes: the end of a sentence that starts with the path."""


class Coding(Struct, frozen=True):
    """`name` is a Python codec. `known` is False for bytes in an unknown encoding, held one to one as Latin-1."""

    name: str
    bom: bytes = b""
    known: bool = True


UTF8 = Coding("utf-8")
# Pairs of lines that a diff may look at: about a second in the worst case. Beyond, lines pair by position.
_DIFF_LIMIT = 4_000_000
_STRAY = re.compile("[\udc80-\udcff]+")
_UNKNOWN = Coding("latin-1", known=False)
_MARKED = (
    Coding("utf-8", codecs.BOM_UTF8),
    Coding("utf-16-le", codecs.BOM_UTF16_LE),
    Coding("utf-16-be", codecs.BOM_UTF16_BE),
)


def decode(data: bytes) -> tuple[str, Coding]:
    """Text with its line ends as they are, without the byte order mark. Raises NotText for binary data."""
    coding = next((marked for marked in _MARKED if data.startswith(marked.bom)), UTF8)
    try:
        text = data[len(coding.bom) :].decode(coding.name)
    except UnicodeDecodeError as error:
        if coding.name != "utf-8":
            raise NotText("starts like UTF-16 and is not valid UTF-16") from error
        text, coding = data.decode("latin-1"), _UNKNOWN
    if "\0" in text:
        raise NotText("is a binary file, not text")
    return text, coding


def encode(text: str, coding: Coding) -> bytes:
    """Raises NotText when `text` holds what the encoding has no bytes for."""
    try:
        return coding.bom + text.encode(coding.name)
    except UnicodeEncodeError as error:
        raise NotText(f"cannot hold {text[error.start]!a}: half of a surrogate pair is no character") from error


def legible(text: str, coding: Coding) -> str:
    """What people and the model read: bytes of an unknown encoding that are no UTF-8 appear as `\\xNN`."""
    return text if coding.known else escaped(marked(text, coding))


def marked(text: str, coding: Coding) -> str:
    """The characters of a file, with a surrogate (PEP 383) for each byte that is none: `escaped` makes it legible.

    For long texts of which little is shown: the codec's own escapes take seconds for 8 MiB, and four times the room.
    """
    return text if coding.known else text.encode("latin-1").decode("utf-8", "surrogateescape")


def escaped(text: str) -> str:
    return _STRAY.sub(
        lambda found: "\\x" + found[0].encode("utf-8", "surrogateescape").hex("x").replace("x", "\\x"), text
    )


def view(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def same_text(one: str, other: str) -> bool:
    """Equal but for line ends, the last line's included, and a byte order mark: what editors convert silently."""
    return _plain(one) == _plain(other)


def line_end(text: str) -> str | None:
    """The line end of most lines, None when there is none. LF wins a tie."""
    counts = _line_ends(text)
    best = max(counts, key=lambda end: counts[end])
    return best if counts[best] else None


def realigned(original: str, new: str) -> str:
    """`new` with the line ends of `original`: lines that stay or change keep theirs, added ones follow the majority."""
    majority = line_end(original)
    if majority is None:
        return new
    lines = view(new).split("\n")
    if sum(count > 0 for count in _line_ends(original).values()) == 1:
        return majority.join(lines)
    ends = _paired_ends(_split(original), lines)
    last = len(lines) - 1
    return "".join(line + (ends.get(at) or majority if at < last else "") for at, line in enumerate(lines))


def _line_ends(text: str) -> dict[str, int]:
    crlf = text.count("\r\n")
    return {"\n": text.count("\n") - crlf, "\r\n": crlf, "\r": text.count("\r") - crlf}


def _split(text: str) -> list[tuple[str, str]]:
    """Lines with their ends; the last one, possibly empty, has none."""
    parts = re.split("(\r\n|\n|\r)", text)
    return list(zip(parts[::2], [*parts[1::2], ""], strict=True))


def _paired_ends(old: list[tuple[str, str]], new: list[str]) -> dict[int, str]:
    """Which old line end each line of `new` inherits. Old and new lines pair up from both sides, then by a diff."""
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and old[start][0] == new[start]:
        start += 1
    stop = 0
    while stop < shorter - start and old[-1 - stop][0] == new[-1 - stop]:
        stop += 1
    pairs = [(at, at) for at in range(start)]
    pairs += [(len(old) - back, len(new) - back) for back in range(1, stop + 1)]
    middle = [line for line, _ in old[start : len(old) - stop]], new[start : len(new) - stop]
    pairs += [(start + one, start + other) for one, other in _diffed(*middle)]
    return {other: old[one][1] for one, other in pairs}


def _diffed(old: list[str], new: list[str]) -> Iterator[tuple[int, int]]:
    if len(old) * len(new) > _DIFF_LIMIT:
        yield from zip(range(len(old)), range(len(new)), strict=False)
        return
    from difflib import SequenceMatcher

    for _, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield from zip(range(i1, i2), range(j1, j2), strict=False)


def _plain(text: str) -> str:
    return view(text).removeprefix("\ufeff").removesuffix("\n")

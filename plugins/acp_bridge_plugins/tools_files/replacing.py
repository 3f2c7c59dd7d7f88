"""Finding `old_text` in a file and replacing it, with errors that a model can act on (field cases E1, E2).

Owns: uniqueness, the hints for text that is not there. Must not know: files, encodings' names, tools.
Invariant: pure; works on a view (LF only); nothing is replaced that was not found exactly as given.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from acp_bridge.errors import ToolFailed
from acp_bridge_plugins.tools_files.text import view

__all__ = ["count", "replaced", "replaced_ascii"]

# Lines read for a hint, and of those how many are compared letter by letter (up to a millisecond each).
_HINT_LINES = 20_000
_HINT_CANDIDATES = 300
_HINT_WIDTH = 400
# Occurrences counted: each costs up to the length of old_text, and no model needs the exact number beyond this.
_MOST = 1_000


def replaced(text: str, old: str, new: str, *, every: bool, name: str) -> tuple[str, int]:
    """`text` with `old` replaced, and how often. Raises ToolFailed, naming the file as `name`."""
    old, new = view(old), view(new)
    if not old:
        raise ToolFailed("old_text is empty; give the text to replace, or use write_file", "INVALID_ARGS")
    if old == new:
        raise ToolFailed("old_text and new_text are the same; there is nothing to change", "INVALID_ARGS")
    found = count(text, old)
    if not found:
        raise ToolFailed(f"old_text does not occur in {name}. {_hint(text, old)}")
    if found > 1 and not every:
        lines = ", ".join(map(str, _lines_of(text, old)))
        times = f"at least {found}" if found == _MOST else f"{found}"
        raise ToolFailed(
            f"old_text occurs {times} times in {name} (lines {lines}); add lines around it to make it unique, "
            "or set replace_all"
        )
    return text.replace(old, new), text.count(old)


def replaced_ascii(text: str, old: str, new: str, *, every: bool, name: str) -> tuple[str, int]:
    """The same for bytes of an unknown encoding, held as Latin-1: only where no other byte can be meant.

    In Shift-JIS, GBK, Big5 and GB18030 the second byte of a character can look like an ASCII letter or digit.
    """
    if not (old.isascii() and new.isascii()):
        raise ToolFailed(
            f"{name} is not valid UTF-8 and its encoding is unknown, so only ASCII text in it can be edited; "
            "convert it to UTF-8 first"
        )
    result = replaced(text, old, new, every=every, name=name)
    if any(at and text[at - 1] >= "\x80" and text[at] not in _NEVER_SECOND for at in _places(text, view(old))):
        raise ToolFailed(
            f"{name} is not valid UTF-8, and old_text begins right after a non-ASCII byte, where it may be the half of "
            "a character; let it begin earlier or later"
        )
    return result


_NEVER_SECOND = frozenset(chr(code) for code in range(0x40) if not 0x30 <= code <= 0x39) | {"\x7f"}


def count(text: str, old: str) -> int:
    """Occurrences up to `_MOST`, overlapping ones included: each of them could be the one that is meant."""
    return sum(1 for _ in islice(_starts(text, old), _MOST))


def _starts(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)


def _places(text: str, old: str) -> Iterator[int]:
    """Where it is replaced: occurrences that do not overlap."""
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _lines_of(text: str, old: str, most: int = 10) -> list[int]:
    return [text.count("\n", 0, at) + 1 for at in islice(_starts(text, old), most)]


def _hint(text: str, old: str) -> str:
    if not text:
        return "The file is empty."
    lines = text.split("\n")[:_HINT_LINES]
    wanted = [line.split() for line in old.strip("\n").split("\n")]
    at = _loose_match([line.split() for line in lines], wanted)
    if at is not None:
        return f"Line {at + 1} matches but for whitespace; copy the text exactly as read_file shows it."
    return _closest(lines, old) or "Read the file again: it may have changed."


def _loose_match(lines: list[list[str]], wanted: list[list[str]]) -> int | None:
    if not any(wanted):
        return None
    spans = range(len(lines) - len(wanted) + 1)
    return next((at for at in spans if lines[at : at + len(wanted)] == wanted), None)


def _closest(lines: list[str], old: str) -> str | None:
    from difflib import get_close_matches

    first = next((line.strip() for line in old.split("\n") if line.strip()), "")[:_HINT_WIDTH]
    stripped = [line.strip()[:_HINT_WIDTH] for line in lines]
    if not first:
        return None
    # Of about the same length and with the same beginning or end: what a slip of the pen leaves.
    likely = (
        line
        for line in stripped
        if 2 * len(first) > len(line) > len(first) // 2 and (line[:4] == first[:4] or line[-4:] == first[-4:])
    )
    close = get_close_matches(first, list(islice(likely, _HINT_CANDIDATES)), n=1, cutoff=0.6)
    if not close:
        return None
    return f"The closest line is line {stripped.index(close[0]) + 1}: {close[0]}"

"""What an edit changes, as a person is shown it (field cases A5, E1).

Owns: choosing the part to show and making hidden characters visible. Must not know: files, tools, editors.
Invariant: pure; old and new part are what really stands there before and after, in LF; a part that is not the whole
file occurs once in it, so that an editor can find it.
"""

from __future__ import annotations

from msgspec import Struct

from acp_bridge.session.events import PresentedDiff
from acp_bridge.tools.visible import visible

__all__ = ["Change", "change"]

# Bytes of text on either side. Below this an editor gets whole files and draws its own context.
WHOLE = 256 * 1024
CONTEXT = 3


class Change(Struct, frozen=True):
    """`line` is the first changed line, 1-based, in the new text. `note` tells what the eye would miss."""

    diff: PresentedDiff
    line: int
    note: str | None = None


def change(path: str, old: str | None, new: str) -> Change:
    """The change from `old` (None: no file) to `new`, both with LF line ends. `path` is absolute."""
    if old is None:
        return _shown(path, None, new, 1)
    before, after = old.split("\n"), new.split("\n")
    same = _common(before, after)
    if max(_size(old), _size(new)) > WHOLE:
        start, stop = _enclosing(old, before, after, same)
        old, new = "\n".join(before[start : len(before) - stop]), "\n".join(after[start : len(after) - stop])
    return _shown(path, old, new, min(same + 1, len(after)))


def _shown(path: str, old: str | None, new: str, line: int) -> Change:
    drawn = (None if old is None else visible(old)), visible(new)
    hidden = drawn != (old, new)
    note = "Invisible or control characters are shown as escapes such as \\x1b or \\u202e." if hidden else None
    return Change(PresentedDiff(path, drawn[1], drawn[0]), line, note)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _common(one: list[str], other: list[str]) -> int:
    """How many lines at the start are equal."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _enclosing(old: str, before: list[str], after: list[str], same: int) -> tuple[int, int]:
    """Lines to leave out at the start and at the end, so that what is left of `old` occurs once in it."""
    most = min(len(before), len(after)) - same
    tail = min(_common(before[::-1], after[::-1]), most)
    context = CONTEXT
    while True:
        start, stop = max(same - context, 0), max(tail - context, 0)
        part = "\n".join(before[start : len(before) - stop])
        if (start, stop) == (0, 0) or (part and old.find(part) == old.rfind(part)):
            return start, stop
        context *= 2

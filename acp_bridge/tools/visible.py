"""Text that a person approves, with nothing hidden in it (field cases S2, S3).

Owns: which characters are invisible or reorder their neighbours, how they are shown, and code spans in Markdown. Must
not know any tool. Invariant: pure and total; `visible` leaves text without such characters unchanged; the result can
always be encoded.
"""

from __future__ import annotations

import re

__all__ = ["code_span", "longest_run", "visible", "visible_line"]

# C0, DEL, C1; soft hyphen, Arabic letter mark, Hangul fillers, Mongolian vowel separator; zero-width, bidi marks,
# line and paragraph separators, bidi embeddings, overrides and isolates, invisible operators; variation selectors,
# BOM, interlinear annotations; tag characters; and lone surrogates, which no UTF-8 encoder takes. U+FE0E and U+FE0F
# stay: emoji need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """`text` for a body: `\\n` and `\\t` stay, every other hidden character becomes an escape such as `\\x1b`."""
    return _HIDDEN.sub(lambda found: _escape(found.group()), text)


def visible_line(text: str) -> str:
    """`text` for a one-line title: as `visible`, with line ends and tabs escaped as well."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def code_span(line: str) -> str:
    """`line` as a Markdown code span that it cannot leave, with nothing hidden in it (CommonMark: code spans)."""
    ticks = "`" * (longest_run(line) + 1)
    shown = visible_line(line)
    padding = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{padding}{shown}{padding}{ticks}"


def longest_run(text: str) -> int:
    """How many backticks stand together in `text` at most."""
    return max(map(len, re.findall("`+", text)), default=0)


def _escape(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

"""How presentations and results are drawn in editors (editors §4).

Owns: content arrays, fences, the size shown. Must not know: events' order, the connection.
Invariant: pure; a content array is always whole (editors rule 14: it replaces what was there).
"""

from __future__ import annotations

import re
from typing import Any

from acp_bridge.session.content import text_of
from acp_bridge.session.events import Presentation, ToolResult
from acp_bridge.wire.acp_types import ContentItem, DiffItem, Location, TextContent

__all__ = ["content_items", "location_items", "raw_object", "result_items"]

# Characters of a result that an editor is sent; the model gets all. Editors render this on every replay.
SHOWN_CHARACTERS = 30_000

_FENCED_KINDS = frozenset({"execute", "read", "search"})


def raw_object(arguments: Any) -> dict[str, Any]:
    """rawInput is always an object (editors rule 11)."""
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def location_items(shown: Presentation) -> tuple[Location, ...]:
    return tuple(Location(path, line or None) for path, line in shown.locations)


def content_items(shown: Presentation) -> tuple[ContentItem | DiffItem, ...]:
    diffs = tuple(DiffItem(diff.path, diff.old_text, diff.new_text) for diff in shown.diffs)
    return diffs + ((ContentItem(TextContent(shown.text)),) if shown.text else ())


def result_items(shown: Presentation, result: ToolResult) -> tuple[ContentItem | DiffItem, ...]:
    """What was announced, then the result's text; an edit that worked is its diff alone."""
    announced = content_items(shown)
    if shown.diffs and not result.block.is_error:
        return announced
    text = _shortened(text_of(result.block.content))
    if not text:
        return announced
    if shown.kind in _FENCED_KINDS and result.error is None:
        text = _fenced(text)
    return (*announced, ContentItem(TextContent(text)))


def _shortened(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters not shown …]\n{text[-half:]}"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"

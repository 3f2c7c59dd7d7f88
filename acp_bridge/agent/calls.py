"""Making the calls of a reply fit the log: ids and arguments (field case P13).

Owns: unique call ids, parsing of argument strings, executions. Must not know: tools, policy.
Invariant: pure; a call id names one call of the session; a call that the model repeated under the same id in one
reply is kept visible but never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from acp_bridge.session.content import Block, ToolCallBlock

__all__ = ["REPEATED_ID", "parse_arguments", "unique_calls"]

REPEATED_ID = "this reply used the same call id twice; only the first call was considered. Call again under a new id."


def unique_calls(blocks: Sequence[Block], used: set[str], place: str) -> tuple[tuple[Block, ...], frozenset[str]]:
    """Rename empty, reused and repeated ids; return the blocks and the new ids of repeated calls.

    `used` holds the ids of earlier replies (some providers count from zero in each reply); `place` makes new ids unique
    """
    seen: set[str] = set()
    taken = set(used)
    repeated: set[str] = set()
    out: list[Block] = []
    for number, block in enumerate(blocks):
        if not isinstance(block, ToolCallBlock):
            out.append(block)
            continue
        fresh = block.id if block.id else f"call-{place}-{number}"
        while fresh in taken:
            fresh = f"{fresh}-{place}-{number}"
        if block.id and block.id in seen:
            repeated.add(fresh)
        seen.add(block.id)
        taken.add(fresh)
        out.append(ToolCallBlock(fresh, block.name, block.arguments))
    return tuple(out), frozenset(repeated)


def parse_arguments(raw: str) -> Any:
    """The parsed value; an empty string is `{}`; what is not JSON stays the string (contracts §3.5)."""
    if not raw.strip():
        return {}
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return raw

"""What a power loss leaves of a batch that was written and not synced: some of its sectors, in any order.

Owns: telling such a batch from damage. Must not know: records, files. Invariant: pure; only the last batch can be one,
because each is synced before the next is written, and what a disk never got reads as zeros.
"""

from __future__ import annotations

from acp_bridge_plugins.persistence_jsonl.frames import intact, whole_frame_after

__all__ = ["first_lost_sector", "lost_from"]

SECTOR = 512  # the least that any disk writes at once; larger ones lose several


def lost_from(data: bytes, offset: int) -> int | None:
    """Where the zeros begin in what was meant to be the last batch, at `offset`; None when that is damage."""
    lost = first_lost_sector(data, offset)
    if offset == 0 or lost is None or intact(data[offset:]) or whole_frame_after(data, offset) is not None:
        return None
    return lost


def first_lost_sector(data: bytes, offset: int) -> int | None:
    """The first place from `offset` on where the rest of a sector, or of the data, is zeros."""
    start = offset
    while start < len(data):
        end = min(start - start % SECTOR + SECTOR, len(data))
        if data.count(0, start, end) == end - start:
            return start
        start = end
    return None

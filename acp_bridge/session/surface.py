"""The surface: the nodes of a log that the model sees, in their order (contracts §1.1).

Owns: what appending and replacing do to that order. Must not know: messages, who appends. Invariant: pure; a span that
is not on the surface replaces nothing, and its event is appended: whatever the log holds, nothing said is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acp_bridge.session.events import Event, SurfaceReplace

__all__ = ["replaced_span", "surface"]


def surface(events: Iterable[Event]) -> list[Event]:
    """The events that are on the surface after all of `events`."""
    nodes: list[Event] = []
    for event in events:
        operation = event.surface_op
        if operation is None:
            continue
        span = replaced_span([node.seq for node in nodes], operation) if operation != "append" else None
        if span is None:
            nodes.append(event)
        else:
            nodes[span] = [event]
    return nodes


def replaced_span(nodes: Sequence[int], replace: SurfaceReplace) -> slice | None:
    """Where in the seqs of a surface the replaced span lies. Its ends count by position: their seqs may be reversed."""
    if replace.start not in nodes or replace.end not in nodes:
        return None
    start, end = nodes.index(replace.start), nodes.index(replace.end)
    return slice(start, end + 1) if start <= end else None

"""Tool calls of a streaming reply: which delta belongs to which call (field case P13).

Owns: slots, and how endpoints that leave out or reuse index and id are read. Must not know: text, HTTP, tools.
Invariant: an id that the provider gave is passed on as it is, repeated ones included; a call without one is `call-N`
with N counted in the reply; arguments stay the raw string.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from acp_bridge.session.chunks import BlockEnd, BlockStart, ToolCallDelta
from acp_bridge.session.content import ToolCallBlock

__all__ = ["CallDelta", "CallSlots"]


class _Function(Struct):
    name: str | None = None
    arguments: Any = msgspec.UNSET


class CallDelta(Struct):
    """`extra_content` is opaque and goes back with the call: one vendor's signatures live there."""

    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Slot:
    __slots__ = ("arguments", "block_index", "extra", "given_id", "id", "name", "null")

    def __init__(self, block_index: int, given_id: str, id: str) -> None:
        self.block_index = block_index
        self.given_id = given_id
        self.id = id
        self.name = ""
        self.arguments: list[str] = []
        self.extra: Any = None
        self.null = False

    def take(self, arguments: Any) -> str:
        """Null is nothing yet; a value that should have been a string is written as one."""
        if arguments is None or arguments is msgspec.UNSET:
            self.null = self.null or arguments is None
            return ""
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        self.arguments.append(text)
        return text

    def block(self) -> ToolCallBlock:
        # Null all the way is what the model said; an empty string would run the tool with no arguments.
        if not self.arguments and self.null:
            return ToolCallBlock(self.id, self.name, "null")
        return ToolCallBlock(self.id, self.name, "".join(self.arguments))


class CallSlots:
    """Ask `begins`, then `begin` if so, then `add`: once per delta, in order."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def begins(self, delta: CallDelta) -> bool:
        """Whether the delta opens a call. It does when its index is new, or its id says so where indexes are wrong."""
        slot = self._slot(delta)
        if slot is None:
            return True
        if delta.function is None or not delta.function.name:
            return False
        if delta.id and delta.index is not None:
            return bool(slot.given_id) and delta.id != slot.given_id
        return (delta.index is None and not delta.id) or _complete("".join(slot.arguments))

    def begin(self, delta: CallDelta, block_index: int) -> BlockStart:
        """Open the call at `block_index`."""
        slot = _Slot(block_index, delta.id or "", delta.id or f"call-{len(self._slots) + 1}")
        self._slots.append(slot)
        if delta.index is not None:
            self._by_index[delta.index] = slot
        return BlockStart(block_index, "tool-call")

    def add(self, delta: CallDelta) -> ToolCallDelta:
        """Put the delta into its call."""
        slot = self._slot(delta) or self._slots[-1]
        if delta.id and not slot.given_id:
            slot.given_id = slot.id = delta.id
        if delta.extra_content is not None:
            slot.extra = delta.extra_content
        arguments, name = "", None
        if delta.function is not None:
            arguments = slot.take(delta.function.arguments)
            name = delta.function.name
        if name and name != slot.name:
            slot.name += name
        return ToolCallDelta(slot.block_index, slot.id, arguments, slot.name if name else None)

    def ends(self) -> list[BlockEnd]:
        """Calls may be streamed in turns, so none has ended before the reply has."""
        return [BlockEnd(slot.block_index, slot.block()) for slot in self._slots]

    def extras(self) -> list[Any] | None:
        """One entry per call, in order; None when there is none."""
        extras = [slot.extra for slot in self._slots]
        return extras if any(extra is not None for extra in extras) else None

    def _slot(self, delta: CallDelta) -> _Slot | None:
        if delta.index is not None:
            return self._by_index.get(delta.index)
        last = self._slots[-1] if self._slots else None
        if delta.id and last is not None and delta.id != last.given_id:
            return next((slot for slot in self._slots if slot.given_id == delta.id), None)
        return last


def _complete(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        return False
    return True

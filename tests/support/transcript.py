"""What a person would see of a session, collected from the frames: texts, tool calls in their final state, the plan.

Pure functions of recorded frames; no process and no waiting. Only updates are read here, never what a client sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.frames import Frame
from tests.support.schema import mapping

__all__ = ["Message", "ToolCallView", "messages", "plan", "text", "tool_calls", "updates"]

CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")


@dataclass
class ToolCallView:
    """A tool call after all its updates, folded as clients fold them: a field that is present replaces."""

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    content: list[dict[str, Any]] = field(default_factory=list)
    locations: list[dict[str, Any]] = field(default_factory=list)
    raw_input: Any = None
    raw_output: Any = None
    statuses: list[str] = field(default_factory=list)
    """Every status that was sent, in order, repeats included."""

    @property
    def text(self) -> str:
        """The text of all content blocks, joined."""
        return "".join(_text(block) for block in self.content if block.get("type") == "content")

    @property
    def diffs(self) -> list[dict[str, Any]]:
        """The diff blocks."""
        return [block for block in self.content if block.get("type") == "diff"]

    def fold(self, update: dict[str, Any]) -> None:
        """Apply one `tool_call` or `tool_call_update`."""
        for key, name in FIELDS.items():
            if key in update:
                setattr(self, name, update[key])
        if "status" in update:
            self.statuses.append(update["status"])


FIELDS = {
    "title": "title",
    "kind": "kind",
    "status": "status",
    "content": "content",
    "locations": "locations",
    "rawInput": "raw_input",
    "rawOutput": "raw_output",
}


@dataclass(frozen=True)
class Message:
    """Neighbouring chunks of one kind and one `messageId`, merged."""

    kind: str
    id: str | None
    text: str


def updates(frames: Iterable[Frame], session_id: str) -> list[dict[str, Any]]:
    """The updates of a session, in order."""
    found = (frame for frame in frames if frame.sender == "agent" and frame.session_id == session_id)
    return [frame.update for frame in found if frame.update]


def text(frames: Iterable[Frame], session_id: str, kind: str = "agent_message_chunk") -> str:
    """All text of one kind of chunk, joined."""
    return "".join(_text(update) for update in updates(frames, session_id) if update.get("sessionUpdate") == kind)


def messages(frames: Iterable[Frame], session_id: str) -> list[Message]:
    """Messages and thoughts with their chunks merged, so that a replay can be compared with the live turn."""
    merged: list[Message] = []
    last: tuple[str, str | None] | None = None
    for update in updates(frames, session_id):
        kind = str(update.get("sessionUpdate"))
        if kind not in CHUNKS:
            last = None if kind in ("tool_call", "plan") else last
            continue
        key = (kind, update.get("messageId"))
        if key == last:
            merged[-1] = Message(*key, merged[-1].text + _text(update))
        else:
            merged.append(Message(*key, _text(update)))
        last = key
    return merged


def tool_calls(frames: Iterable[Frame], session_id: str) -> dict[str, ToolCallView]:
    """Each tool call by id, in the order of announcement."""
    calls: dict[str, ToolCallView] = {}
    for update in updates(frames, session_id):
        if update.get("sessionUpdate") in ("tool_call", "tool_call_update"):
            id = str(update.get("toolCallId"))
            calls.setdefault(id, ToolCallView(id)).fold(update)
    return calls


def plan(frames: Iterable[Frame], session_id: str) -> list[dict[str, Any]]:
    """The entries of the last plan."""
    plans = [update for update in updates(frames, session_id) if update.get("sessionUpdate") == "plan"]
    return plans[-1]["entries"] if plans else []


def _text(update: dict[str, Any]) -> str:
    return str(mapping(update.get("content")).get("text", ""))

"""Messages and their blocks, as they stand in the log and in model requests (contracts §1.5).

Owns: the shapes. Must not know: events, providers, ACP. Invariant: everything is frozen and is lossless JSON.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = [
    "Block",
    "Message",
    "ModelSource",
    "PluginSource",
    "ReasoningBlock",
    "Source",
    "TextBlock",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSource",
    "Usage",
    "UserSource",
    "text_message",
    "text_of",
]


class Shape(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel", gc=False):
    """Base of everything that is written to a log. Frozen values form no cycles, so the collector can skip them."""


class TextBlock(Shape, frozen=True, tag_field="type", tag="text"):
    text: str


class ReasoningBlock(Shape, frozen=True, tag_field="type", tag="reasoning"):
    text: str


class ToolCallBlock(Shape, frozen=True, tag_field="type", tag="tool-call"):
    """`arguments` is the model's raw string, never a parsed value."""

    id: str
    name: str
    arguments: str


class ToolResultBlock(Shape, frozen=True, tag_field="type", tag="tool-result"):
    tool_call_id: str
    content: tuple[TextBlock, ...]
    is_error: bool = False


Block = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock


class UserSource(Shape, frozen=True, tag_field="kind", tag="user"):
    pass


class PluginSource(Shape, frozen=True, tag_field="kind", tag="plugin"):
    plugin: str
    form: Literal["instructions", "catalog", "snapshot", "notice", "relay", "recall"] | None = None
    summary: str | None = None


class ModelSource(Shape, frozen=True, tag_field="kind", tag="model"):
    """`replay_state` is what the provider wants back with the message, opaque to us."""

    provider: str
    model: str
    replay_state: dict[str, Any] | None = None


class ToolSource(Shape, frozen=True, tag_field="kind", tag="tool"):
    call_id: str


Source = UserSource | PluginSource | ModelSource | ToolSource


class Message(Shape, frozen=True):
    id: str
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    source: Source


class Usage(Shape, frozen=True):
    """Disjoint token counters; None means unknown, which is not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


def text_message(message_id: str, text: str, source: Source) -> Message:
    return Message(message_id, "user", (TextBlock(text),), source)


def text_of(blocks: tuple[Block, ...]) -> str:
    """The text blocks, joined as they are."""
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))

"""ACP v1 shapes: what clients send and what is sent to them (ACP: schema v1).

Owns: the structs, closed vocabularies included. Must not know: sessions, events, how anything is done.
Invariant: absent is omitted, never null (editors rules 9 and 10); the one exception is `oldText`, whose null means
a new file and whose key must be there.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw, Struct, field

__all__ = [
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AuthenticateParams",
    "CancelParams",
    "ClientCapabilities",
    "ConfigOptionUpdate",
    "ContentItem",
    "CurrentModeUpdate",
    "DiffItem",
    "InitializeParams",
    "ListParams",
    "LoadSessionParams",
    "Location",
    "NewSessionParams",
    "PermissionOption",
    "PermissionRequest",
    "PlanEntry",
    "PlanUpdate",
    "PromptParams",
    "ReadTextParams",
    "SessionIdParams",
    "SessionNotification",
    "SetConfigOptionParams",
    "SetModeParams",
    "TextContent",
    "ToolCallStart",
    "ToolCallUpdate",
    "ToolStatus",
    "Update",
    "UserMessageChunk",
    "WriteTextParams",
]

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolStatus = Literal["pending", "in_progress", "completed", "failed"]


class Incoming(Struct, frozen=True, rename="camel"):
    """From the client: unknown members are ignored."""


class Outgoing(Struct, frozen=True, rename="camel", omit_defaults=True):
    """To the client."""


class FsCapabilities(Incoming, frozen=True):
    read_text_file: bool | None = None
    write_text_file: bool | None = None


class AuthCapabilities(Incoming, frozen=True):
    terminal: bool | None = None


class ClientCapabilities(Incoming, frozen=True):
    fs: FsCapabilities | None = None
    auth: AuthCapabilities | None = None
    meta: dict[str, Any] | None = field(default=None, name="_meta")


class ClientInfo(Incoming, frozen=True):
    name: str | None = None


class InitializeParams(Incoming, frozen=True):
    """`protocolVersion` is checked to be an integer only: whatever the client asks for, the answer is 1."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: ClientInfo | None = None


class AuthenticateParams(Incoming, frozen=True):
    method_id: str


class NewSessionParams(Incoming, frozen=True):
    cwd: str
    mcp_servers: list[Raw] | None = None
    additional_directories: list[str] | None = None


class LoadSessionParams(Incoming, frozen=True):
    session_id: str
    cwd: str
    mcp_servers: list[Raw] | None = None
    additional_directories: list[str] | None = None


class ListParams(Incoming, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class PromptParams(Incoming, frozen=True):
    session_id: str
    prompt: list[dict[str, Any]]


class SessionIdParams(Incoming, frozen=True):
    session_id: str


CancelParams = SessionIdParams


class SetConfigOptionParams(Incoming, frozen=True):
    session_id: str
    config_id: str
    value: str


class SetModeParams(Incoming, frozen=True):
    session_id: str
    mode_id: str


class TextContent(Outgoing, frozen=True, tag_field="type", tag="text"):
    text: str


class ContentItem(Outgoing, frozen=True, tag_field="type", tag="content"):
    content: TextContent


class DiffItem(Outgoing, frozen=True, tag_field="type", tag="diff"):
    path: str
    old_text: str | None
    new_text: str


class Location(Outgoing, frozen=True):
    path: str
    line: int | None = None


class UserMessageChunk(Outgoing, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    content: TextContent
    message_id: str


class AgentMessageChunk(Outgoing, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: TextContent
    message_id: str


class AgentThoughtChunk(Outgoing, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    content: TextContent
    message_id: str


class ToolCallStart(Outgoing, frozen=True, tag_field="sessionUpdate", tag="tool_call"):
    tool_call_id: str
    title: str
    kind: ToolKind
    status: ToolStatus
    raw_input: dict[str, Any]
    content: tuple[ContentItem | DiffItem, ...] = ()
    locations: tuple[Location, ...] = ()


class ToolCallUpdate(Outgoing, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"):
    tool_call_id: str
    status: ToolStatus
    title: str | None = None
    kind: ToolKind | None = None
    content: tuple[ContentItem | DiffItem, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_output: dict[str, Any] | None = None


class PlanEntry(Outgoing, frozen=True):
    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(Outgoing, frozen=True, tag_field="sessionUpdate", tag="plan"):
    entries: tuple[PlanEntry, ...]


class CurrentModeUpdate(Outgoing, frozen=True, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str


class ConfigOptionUpdate(Outgoing, frozen=True, tag_field="sessionUpdate", tag="config_option_update"):
    """Always the whole list (ACP: session config options)."""

    config_options: list[dict[str, Any]]


Update = (
    AgentMessageChunk
    | AgentThoughtChunk
    | UserMessageChunk
    | ToolCallStart
    | ToolCallUpdate
    | PlanUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
)


class SessionNotification(Outgoing, frozen=True):
    session_id: str
    update: Update


class PermissionOption(Outgoing, frozen=True):
    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionToolCall(Outgoing, frozen=True):
    """The whole story: several editors show nothing else (editors rule 15)."""

    tool_call_id: str
    title: str
    kind: ToolKind
    status: ToolStatus
    raw_input: dict[str, Any]
    content: tuple[ContentItem | DiffItem, ...]
    locations: tuple[Location, ...] = ()


class PermissionRequest(Outgoing, frozen=True):
    session_id: str
    tool_call: PermissionToolCall
    options: tuple[PermissionOption, ...]


class ReadTextParams(Outgoing, frozen=True):
    session_id: str
    path: str


class WriteTextParams(Outgoing, frozen=True):
    session_id: str
    path: str
    content: str

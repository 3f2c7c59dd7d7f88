"""The events of a session log: the envelope and one frozen struct per type (contracts §1.1, §1.5).

Owns: vocabulary and shapes, ours included (tool/prepared, tool/started). Must not know: files, ACP, the agent loop.
Invariant: an event is a fact that has happened; it is never changed, and its `seq` alone orders it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from acp_bridge.session.chunks import Chunk, Failure
from acp_bridge.session.content import Block, Message, Shape, Source, ToolResultBlock, ToolSource, Usage

__all__ = [
    "CORE_BODIES",
    "AbortReason",
    "ApprovalAsked",
    "ApprovalDecided",
    "ApprovalPolicySet",
    "ApprovalRule",
    "AssistantChunk",
    "AssistantMessage",
    "Body",
    "EndSeed",
    "ErrorInfo",
    "Event",
    "Header",
    "InboxSpliced",
    "ModelChosen",
    "ModelHeader",
    "NoticeShown",
    "Presentation",
    "PresentedDiff",
    "PresetSet",
    "RequestConfig",
    "RequestContext",
    "RequestHeader",
    "SandboxModeSet",
    "StepEnd",
    "StepStart",
    "SurfaceReplace",
    "TitleSet",
    "Todo",
    "TodoWrite",
    "ToolCallEvent",
    "ToolPrepared",
    "ToolResult",
    "ToolSchema",
    "ToolStarted",
    "TurnEnd",
    "TurnEndReason",
    "TurnStart",
    "UserMessage",
]


class Header(Shape, frozen=True):
    """Stored beside the log, as its first line. `created_at` is epoch milliseconds; `cwd` is absolute."""

    version: int
    id: str
    created_at: int
    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    origin: Literal["subagent"] | None = None
    delegation_depth: int = 0
    agent_preset: str | None = None


class Body(Shape, frozen=True, kw_only=True):
    """The `data` of an event. `TYPE` is its name on disk; `SURFACE` marks what the model sees.

    `extra` is what an older generation's record says and no field of ours can hold: carried along, never read.
    """

    TYPE: ClassVar[str] = ""
    SURFACE: ClassVar[bool] = False
    extra: dict[str, Any] | None = None


class SurfaceReplace(Shape, frozen=True, tag_field="op", tag="replace"):
    """The event takes the place of the surface nodes from `start` to `end`, which are seqs (contracts §1.1)."""

    start: int
    end: int


class Event(Shape, frozen=True):
    """`time` is epoch milliseconds. `source_event_seqs` holds seqs, or inclusive `[start, end]` runs of them."""

    type: str
    seq: int
    time: int
    data: Any
    surface_op: Literal["append"] | SurfaceReplace | None = None
    source_event_seqs: tuple[int | tuple[int, int], ...] | None = None
    ignorable: Literal[True] | None = None


class TurnStart(Body, frozen=True):
    TYPE = "turn/start"
    turn: int


class AbortReason(Shape, frozen=True):
    """`legacy` comes from imported logs only."""

    kind: Literal["user", "parent", "hook", "disposed", "legacy"]
    reason: str | None = None


class TurnEndReason(Shape, frozen=True):
    """`max-steps` and `refusal` are ours; `interrupted` is written by crash repair only."""

    kind: Literal["completed", "blocked", "max-tokens", "max-steps", "refusal", "error", "aborted", "interrupted"]
    error: Failure | None = None
    reason: AbortReason | None = None


class TurnEnd(Body, frozen=True):
    TYPE = "turn/end"
    turn: int
    reason: TurnEndReason


class StepStart(Body, frozen=True):
    TYPE = "step/start"
    turn: int
    step: int


class StepEnd(Body, frozen=True):
    TYPE = "step/end"
    turn: int
    step: int


class UserMessage(Body, frozen=True):
    """The message itself. It cannot also be a `Message`: two bases with fields do not fit into one struct."""

    TYPE = "user/message"
    SURFACE = True
    id: str
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    source: Source

    @property
    def message(self) -> Message:
        return Message(self.id, self.role, self.content, self.source)


class AssistantChunk(Body, frozen=True):
    TYPE = "assistant/chunk"
    turn: int
    step: int
    chunk: Chunk


class AssistantMessage(Body, frozen=True):
    TYPE = "assistant/message"
    SURFACE = True
    turn: int
    step: int
    message: Message
    usage: Usage | None = None
    interrupted: Literal[True] | None = None


class ToolCallEvent(Body, frozen=True):
    TYPE = "tool/call"
    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class PresentedDiff(Shape, frozen=True):
    """`old_text` None means a new file. Texts are as the editor should draw them (LF line ends)."""

    path: str
    new_text: str
    old_text: str | None = None


class Presentation(Shape, frozen=True):
    """What a person sees of a call. `locations` are (absolute path, 1-based line or 0)."""

    title: str
    kind: Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
    locations: tuple[tuple[str, int], ...] = ()
    diffs: tuple[PresentedDiff, ...] = ()
    text: str | None = None


class ToolPrepared(Body, frozen=True):
    """Ours: what the person was shown before the call could run, so that a replay shows the same."""

    TYPE = "tool/prepared"
    turn: int
    step: int
    call_id: str
    presentation: Presentation


class ToolStarted(Body, frozen=True):
    """Ours: every gate is passed and the body comes next. It moves the editor's card to in_progress."""

    TYPE = "tool/started"
    turn: int
    step: int
    call_id: str


class ErrorInfo(Shape, frozen=True):
    name: str
    code: str


class ToolResult(Body, frozen=True):
    """`message.content` is exactly one ToolResultBlock. `meta` is for presentation, never for the model."""

    TYPE = "tool/result"
    SURFACE = True
    turn: int
    step: int
    message: Message
    error: ErrorInfo | None = None
    meta: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        content, source = self.message.content, self.message.source
        # Checked where it is made and where it is read: `block` is used by everything that looks at a log.
        if len(content) != 1 or not isinstance(content[0], ToolResultBlock):
            raise ValueError("tool/result holds exactly one tool-result block")
        if not isinstance(source, ToolSource) or source.call_id != content[0].tool_call_id:
            raise ValueError("tool/result names another call than its block")

    @property
    def block(self) -> ToolResultBlock:
        block = self.message.content[0]
        if not isinstance(block, ToolResultBlock):
            raise TypeError("tool/result holds exactly one tool-result block")
        return block


class RequestConfig(Shape, frozen=True):
    provider: str
    model: str
    reasoning_effort: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None


class ToolSchema(Shape, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]


class ModelHeader(Shape, frozen=True):
    config: RequestConfig
    system: str | None = None
    tools: tuple[ToolSchema, ...] | None = None


class RequestHeader(Body, frozen=True):
    TYPE = "request/header"
    header: ModelHeader
    reason: Literal["initial", "resume", "change"]


class RequestContext(Body, frozen=True):
    TYPE = "request/context"
    provider: str
    model: str
    context_window: int | None = None


class EndSeed(Body, frozen=True):
    TYPE = "session/end-seed"


class InboxSpliced(Body, frozen=True):
    """Written before the queue changes. `outcome` says that removed messages were discarded, not claimed."""

    TYPE = "agent/inbox/spliced"
    target: Literal["next-turn", "next-step"]
    start: int
    inserted: tuple[Message, ...]
    removed_count: int | None = None
    outcome: Literal["canceled"] | None = None


class ApprovalAsked(Body, frozen=True):
    TYPE = "approval/asked"
    id: str
    tool_name: str
    call_id: str | None = None
    reason: str | None = None


class ApprovalDecided(Body, frozen=True):
    TYPE = "approval/decided"
    id: str
    outcome: Literal["allowed-once", "rejected", "cancelled", "unavailable"]


class ApprovalRule(Body, frozen=True):
    """Ours: a standing answer the person chose. `arguments` is the raw string; only the very same call matches."""

    TYPE = "approval/rule"
    decision: Literal["deny"]
    tool_name: str
    arguments: str


class ApprovalPolicySet(Body, frozen=True):
    TYPE = "approval/policy"
    policy: Literal["ask", "never"]
    source: Literal["delegation"] | None = None


class SandboxModeSet(Body, frozen=True):
    TYPE = "sandbox/mode"
    mode: Literal["read-only", "workspace-write", "danger-full-access"]
    source: Literal["delegation"] | None = None


class PresetSet(Body, frozen=True):
    """`preset` is a session mode id (design §14)."""

    TYPE = "permission/preset"
    preset: str


class ModelChosen(Body, frozen=True):
    """[ours] The model that a person chose for this session; it holds while it is offered."""

    TYPE = "session/model"
    provider: str
    model: str


class NoticeShown(Body, frozen=True):
    """[ours] What a person was told beside the conversation, about `topic`. The model never sees it."""

    TYPE = "session/notice"
    topic: str
    text: str


class Todo(Shape, frozen=True):
    content: str
    status: Literal["pending", "in_progress", "completed"]
    priority: Literal["high", "medium", "low"] = "medium"


class TodoWrite(Body, frozen=True):
    TYPE = "todo/write"
    todos: tuple[Todo, ...]


class TitleSet(Body, frozen=True):
    TYPE = "session/title"
    title: str
    message_seqs: tuple[int, ...] = ()
    source: dict[str, str] | None = None


CORE_BODIES: tuple[type[Body], ...] = (
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    UserMessage,
    AssistantChunk,
    AssistantMessage,
    ToolCallEvent,
    ToolPrepared,
    ToolStarted,
    ToolResult,
    RequestHeader,
    RequestContext,
    EndSeed,
    InboxSpliced,
    ApprovalAsked,
    ApprovalDecided,
    ApprovalRule,
    ApprovalPolicySet,
    SandboxModeSet,
    PresetSet,
    ModelChosen,
    NoticeShown,
    TodoWrite,
    TitleSet,
)

"""The tool seam: what a tool is, and what one execution of it carries (design §7, contracts §3.1).

Owns: the Tool Protocol, executions, decisions and outcomes. Must not know: any tool, ACP.
Invariant: arguments are parsed once from the logged string and never rewritten; `present` is pure and total;
`prepare` reads and never changes; only `execute` acts, and acts exactly on what `prepare` returned.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.session.events import ErrorInfo, Presentation, Todo
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal

__all__ = [
    "Access",
    "Decision",
    "EditorFiles",
    "Execution",
    "Prepared",
    "Tool",
    "ToolOutcome",
]


class EditorFiles(Protocol):
    """The editor's own view of files, when it offered it (ACP: fs/read_text_file, fs/write_text_file)."""

    can_read: bool
    can_write: bool

    async def read(self, path: str) -> str | None:
        """The buffer's text, or None when the editor cannot say (error, timeout): fall back to disk."""

    async def write(self, path: str, text: str) -> None:
        """Raises PeerError, RequestTimedOut or ConnectionClosed. Verify on disk: results differ between editors."""


class Access(Struct, frozen=True):
    """What a call would touch, for policy. `paths` are canonical and absolute.

    effect: `none` (session state only), `read`, `edit`, `execute`. `sandbox` and `justification`: the wider
    mode that the model asked for with this call, if any.
    """

    effect: Literal["none", "read", "edit", "execute"]
    paths: tuple[str, ...] = ()
    sandbox: SandboxMode | None = None
    justification: str | None = None


class Prepared(Struct, frozen=True):
    """`plan` is the tool's own: exactly what `execute` will do, fixed before anybody is asked."""

    presentation: Presentation
    access: Access
    plan: Any = None


class Execution(Struct):
    """One call on its way through the pipeline. `call_id` is stable: pass it on as an idempotency key.

    `parent` is the enclosing call's id for a nested call. `sandbox_mode` is the session's; a grant may widen it for
    this call only. `todos` is set by a tool that replaces the session's plan.
    """

    session: Session
    call_id: str
    name: str
    arguments: Any
    signal: Signal
    turn: int
    step: int
    sandbox_mode: SandboxMode
    editor: EditorFiles | None = None
    root_call_id: str = ""
    parent: str | None = None
    prepared: Prepared | None = None
    todos: tuple[Todo, ...] | None = None


class ToolOutcome(Struct, frozen=True):
    """`text` is what the model reads; an editor shows it below what was prepared.

    `meta` must be lossless JSON; it is logged for presentation and never sent to the model.
    """

    text: str
    is_error: bool = False
    error: ErrorInfo | None = None
    meta: dict[str, Any] | None = None


class Decision(Struct, frozen=True):
    """`ask` and `deny` carry the reason a person or the model reads."""

    kind: Literal["allow", "deny", "ask", "cancel"]
    reason: str | None = None


class Tool(Protocol):
    name: str
    description: str
    # JSON schema of the arguments; validated before anything else happens.
    parameters: dict[str, Any]

    def present(self, arguments: Any, cwd: str) -> Presentation:
        """Pure and total: whatever `arguments` holds (None, a list, wrong types), it returns and never raises."""

    def concurrency_safe(self, arguments: Any) -> bool:
        """True when calls may overlap. Anything that changes the world answers False."""

    async def prepare(self, execution: Execution) -> Prepared:
        """Arguments are valid here. Read what is needed to show the true effect. Raises ToolFailed."""

    async def execute(self, execution: Execution) -> ToolOutcome:
        """Act on `execution.prepared`. Raises ToolFailed. Finishes early when `execution.signal` is aborted."""

"""Every hook, in calling order, with its mode (design §4).

Owns: names, arguments and meaning. Must not know any implementer. Invariant: arguments are narrow and typed;
a waterfall takes exactly one subject and `next`; order among listeners is the composition's table.

emit: observers, contained. bail: first answer wins, at once. parallel: all awaited, failures raised.
serial: first answer wins. waterfall: an onion; `await next()` delegates, returning without it answers instead.
"""

# declarations have no bodies

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from acp_bridge.lifecycle.hooks import Next, hookspec

if TYPE_CHECKING:
    from acp_bridge.agent.hooks import AgentFailure, PreStep, StepEntry
    from acp_bridge.approval.approval import ApprovalOutcome, ApprovalRequest
    from acp_bridge.llm.model import ModelCall
    from acp_bridge.session.chunks import Chunk
    from acp_bridge.session.events import Event
    from acp_bridge.session.session import Session
    from acp_bridge.tools.tool import Decision, Execution, ToolOutcome

__all__ = [
    "agent_error",
    "agent_pre_step",
    "approval_request",
    "llm_stream",
    "session_event",
    "session_flush",
    "session_pressure",
    "tools_execute",
    "tools_guard",
    "tools_pre_execute",
]


@hookspec("emit")
def session_event(session: Session, event: Event) -> None:
    """An event was committed to a live session. Called synchronously, in seq order."""


@hookspec("serial")
async def session_pressure(session: Session) -> None:
    """Called between streamed chunks: whoever holds too much unsent or unsaved waits here until it is less."""


@hookspec("parallel")
async def session_flush(session: Session) -> None:
    """Make every event of the session durable, or raise."""


@hookspec("waterfall")
async def agent_pre_step(step: PreStep, next: Next[StepEntry]) -> StepEntry:
    """Before each step: enter with these messages, or block the turn. Raising ends the turn with an error."""


@hookspec("waterfall")
async def llm_stream(call: ModelCall, next: Next[AsyncIterator[Chunk]]) -> AsyncIterator[Chunk]:
    """Around each model request. `next()` gives the stream; nothing is sent before its first pull."""


@hookspec("waterfall")
async def tools_pre_execute(execution: Execution, next: Next[Decision]) -> Decision:
    """May this call run: allow, deny, ask or cancel. The default is the session's mode."""


@hookspec("bail")
def tools_guard(execution: Execution) -> str | None:
    """Asked last, after every allow: a text forbids the call and is its reason. No guard can allow anything."""


@hookspec("waterfall")
async def approval_request(request: ApprovalRequest, next: Next[ApprovalOutcome]) -> ApprovalOutcome:
    """Put the question to somebody. The default is unavailable, which is a no."""


@hookspec("waterfall")
async def tools_execute(execution: Execution, next: Next[ToolOutcome]) -> ToolOutcome:
    """Around the tool body, after every gate. A wrapper may refuse or replace the outcome, never the arguments."""


@hookspec("emit")
def agent_error(session: Session, failure: AgentFailure) -> None:
    """A turn failed, or a final flush was rejected. The loop goes on."""

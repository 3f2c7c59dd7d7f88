"""What an agent is built from, and its settings.

Owns: one frozen record of the agent's collaborators. Must not know: how they were made.
Invariant: nothing in it changes while an agent lives.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.llm.model import Models
from acp_bridge.session.events import RequestConfig
from acp_bridge.session.session import Session, SessionStore
from acp_bridge.tools.pipeline import Pipeline
from acp_bridge.tools.registry import Tools

__all__ = ["AgentParts"]


class AgentParts(Struct, frozen=True):
    """`config` gives a session's model route now (raises AuthRequired without one); `system` its system prompt.

    `max_steps` bounds the model requests of one turn, `max_parallel` the overlapping tool calls of one step.
    """

    store: SessionStore
    models: Models
    tools: Tools
    pipeline: Pipeline
    diagnostics: Diagnostics
    config: Callable[[Session], RequestConfig]
    system: Callable[[Session], str]
    max_steps: int = 200
    max_parallel: int = 10
    offered: Callable[[], tuple[str, ...]] = tuple
    """The routes (`provider/model`) that a session may choose from."""

"""One live session and its view in the editor.

Owns: what of the log the editor has been shown. Must not know: methods, other sessions, how sessions start and end.
Invariant: every event is shown once, live or by a replay under way, and in order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from acp_bridge.agent.agent import Agent
from acp_bridge.agent.lifetime import live_agent
from acp_bridge.agent.parts import AgentParts
from acp_bridge.bridge.project import Projection
from acp_bridge.lifecycle.scope import Scope
from acp_bridge.persistence.persistence import WriteHandle
from acp_bridge.session.events import Event
from acp_bridge.session.session import Session
from acp_bridge.tools.tool import EditorFiles
from acp_bridge.wire.acp_types import Update

__all__ = ["LiveSession", "live_session"]

# Events between two looks at the back-pressure during a replay.
REPLAY_STRIDE = 64


class LiveSession:
    """`send` puts one update on the wire; `drain` waits while the editor is slow to read."""

    def __init__(self, session: Session, agent: Agent, new_projection: Callable[[], Projection]) -> None:
        self.session = session
        self.agent = agent
        self.scope: Scope | None = None
        self._new_projection = new_projection
        self._projection = new_projection()
        self._replays = 0

    def updates(self, event: Event) -> Sequence[Update]:
        """What to send for an event just committed; nothing while a replay will come to it anyway."""
        return () if self._replays else self._projection.live(event)

    async def replay(self, send: Callable[[Update], None], drain: Callable[[], Awaitable[None]]) -> None:
        """Send the whole history, then go on live without a gap or a repeat. Appends nothing."""
        projection = self._new_projection()
        log = self.session.log
        position = 0
        self._replays += 1
        try:
            while position < len(log.events):
                for update in projection.replay(log.events[position]):
                    send(update)
                position += 1
                if position % REPLAY_STRIDE == 0:
                    await drain()
            for event in log.open_chunks:
                for update in projection.chunk(event.data):
                    send(update)
        finally:
            self._replays -= 1
        self._projection = projection


@asynccontextmanager
async def live_session(
    parts: AgentParts,
    handle: WriteHandle,
    roots: tuple[str, ...],
    events: Sequence[Event],
    *,
    editor: EditorFiles | None,
    new_projection: Callable[[], Projection],
) -> AsyncIterator[LiveSession]:
    async with live_agent(parts, handle, roots, events, editor=editor) as agent:
        yield LiveSession(agent.session, agent, new_projection)

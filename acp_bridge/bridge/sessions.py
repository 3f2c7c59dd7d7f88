"""The sessions of one connection: creating, loading, closing and listing them.

Owns: which sessions are live here. Must not know: JSON-RPC, what a fresh or a reopened one starts with.
Invariant: a session is loaded by one writer at a time, and shown only once it is repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from acp_bridge.agent.lifetime import create, reopen, session_root, switch_mode
from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.modes import DEFAULT_MODE, MODES
from acp_bridge.bridge.changes import Changes
from acp_bridge.bridge.live import LiveSession, live_session
from acp_bridge.bridge.options import config_options, route_of
from acp_bridge.bridge.project import Projection
from acp_bridge.errors import AuthRequired, InvalidParams, SessionNotFound
from acp_bridge.lifecycle.scope import Scope
from acp_bridge.persistence.persistence import Persistence, WriteHandle
from acp_bridge.session.events import Event
from acp_bridge.session.session import Session
from acp_bridge.tools.tool import EditorFiles
from acp_bridge.wire.acp_types import ConfigOptionUpdate, Update

__all__ = ["Sessions", "checked_roots"]

EditorFor = Callable[[str], EditorFiles | None]


def checked_roots(cwd: str, additional: list[str] | None) -> tuple[str, ...]:
    """The canonical roots of a session. Raises InvalidParams naming the field."""
    root = session_root(cwd)
    if additional:
        raise InvalidParams("This agent takes no additional directories.", field="additionalDirectories")
    return (root,)


class Sessions:
    def __init__(self, parts: AgentParts, persistence: Persistence, scope: Scope, editor_for: EditorFor) -> None:
        self._parts = parts
        self._persistence = persistence
        self._scope = scope
        self._editor_for = editor_for
        self._live: dict[str, LiveSession] = {}
        self.changes = Changes()

    @property
    def live(self) -> tuple[LiveSession, ...]:
        return tuple(self._live.values())

    def find(self, session_id: str) -> LiveSession | None:
        return self._live.get(session_id)

    def require(self, session_id: str) -> LiveSession:
        """Raises SessionNotFound."""
        live = self._live.get(session_id)
        if live is None:
            raise SessionNotFound(session_id)
        return live

    async def create(self, cwd: str, roots: tuple[str, ...]) -> LiveSession:
        handle = await create(self._persistence, cwd)
        live = await self._enter(handle, roots, [])
        switch_mode(live.session, MODES[DEFAULT_MODE])
        self._live[handle.header.id] = live
        return live

    async def load(self, session_id: str, roots: tuple[str, ...]) -> LiveSession:
        """The live session, opened and repaired first when it is not live yet. Needs the session's place in `changes`.

        Raises SessionNotFound, SessionAlreadyOwned, LogCorrupt, SessionFormatUnsupported, CheckpointFailed.
        """
        if session_id in self._live:
            return self._live[session_id]
        handle, events = await reopen(self._persistence, session_id)
        live = self._live[session_id] = await self._enter(handle, roots, events)
        return live

    def offered(self) -> tuple[str, ...]:
        return self._parts.offered()

    def options(self, session: Session) -> list[dict[str, Any]]:
        """What may be chosen for the session, and what is."""
        try:
            current = route_of(self._parts.config(session))
        except AuthRequired:
            current = None  # a session can be looked at without a model
        return config_options(session, current, self.offered())

    def options_update(self, session: Session) -> Update:
        return ConfigOptionUpdate(self.options(session))

    async def flush(self, session: Session) -> None:
        """Raises CheckpointFailed."""
        await self._parts.store.flush(session)

    async def close(self, live: LiveSession) -> None:
        """Bring the agent to rest and let the session go; it stays loadable."""
        scope, live.scope = live.scope, None
        if scope is None:
            return
        try:
            await self._scope.detach(scope)
        finally:
            # Only now: until it is at rest, the editor is to see how its calls end.
            del self._live[live.session.id]

    async def _enter(self, handle: WriteHandle, roots: tuple[str, ...], events: list[Event]) -> LiveSession:
        """Owns `handle` from the start: given up at any await, it is closed, and so the session is not locked."""
        scope: Scope | None = None
        try:
            scope = await self._scope.child(f"session {handle.header.id}")
            return await self._entered(scope, handle, roots, events)
        except BaseException:
            with anyio.CancelScope(shield=True):
                if scope is not None:
                    await self._scope.detach(scope)
                await handle.close()
            raise

    async def _entered(
        self, scope: Scope, handle: WriteHandle, roots: tuple[str, ...], events: list[Event]
    ) -> LiveSession:
        session_id = handle.header.id
        live = await scope.effect(
            "agent",
            live_session(
                self._parts,
                handle,
                roots,
                events,
                editor=self._editor_for(session_id),
                new_projection=lambda: Projection(self._parts.tools.present, roots[0]),
            ),
        )
        live.scope = scope
        return live

"""The sessions of one connection: creating, loading, closing and listing them.

Owns: which sessions are live here, and what a fresh or a reopened one starts with. Must not know: JSON-RPC.
Invariant: a session is loaded by one writer at a time; loading appends the closing events of a crash durably before
anything is shown, and starts no model request and no tool.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import anyio

from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.modes import DEFAULT_MODE, MODES
from acp_bridge.bridge.changes import Changes
from acp_bridge.bridge.live import LiveSession, live_session
from acp_bridge.bridge.project import Projection
from acp_bridge.errors import CheckpointFailed, InvalidParams, SessionNotFound
from acp_bridge.lifecycle.scope import Scope
from acp_bridge.persistence.persistence import Persistence, WriteHandle
from acp_bridge.session.codec import FORMAT_VERSION
from acp_bridge.session.events import Event, Header, PresetSet, SandboxModeSet
from acp_bridge.session.log import now_ms
from acp_bridge.session.repair import closers
from acp_bridge.session.session import Session
from acp_bridge.tools.tool import EditorFiles
from acp_bridge.tools.visible import visible_line

__all__ = ["Sessions", "checked_roots"]

# Characters of a path in an error.
SHOWN_PATH = 300

EditorFor = Callable[[str], EditorFiles | None]


def checked_roots(cwd: str, additional: list[str] | None) -> tuple[str, ...]:
    """The canonical roots of a session. Raises InvalidParams naming the field."""
    if not Path(cwd).is_absolute():
        raise InvalidParams("cwd must be an absolute path.", field="cwd")
    if not os.path.isdir(cwd):  # noqa: PTH112  # Path.is_dir raises for a name that is too long or not readable
        raise InvalidParams(f"cwd is not an existing directory: {visible_line(cwd[:SHOWN_PATH])}.", field="cwd")
    if additional:
        raise InvalidParams("This agent takes no additional directories.", field="additionalDirectories")
    return (os.path.realpath(cwd),)


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
        header = Header(FORMAT_VERSION, str(uuid.uuid4()), now_ms(), cwd)
        handle = await self._persistence.create(header)
        live = await self._enter(handle, roots, [])
        live.session.log.append(PresetSet(DEFAULT_MODE))
        live.session.log.append(SandboxModeSet(MODES[DEFAULT_MODE].sandbox))
        self._live[header.id] = live
        return live

    async def load(self, session_id: str, roots: tuple[str, ...]) -> LiveSession:
        """The live session, opened and repaired first when it is not live yet. Needs the session's place in `changes`.

        Raises SessionNotFound, SessionAlreadyOwned, LogCorrupt, SessionFormatUnsupported, CheckpointFailed.
        """
        if session_id in self._live:
            return self._live[session_id]
        try:
            handle = await self._persistence.open(session_id)
            live = self._live[session_id] = await self._reopen(handle, roots)
        except OSError as error:
            raise CheckpointFailed(session_id, error.strerror or type(error).__name__, "it was not loaded") from error
        return live

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

    async def _reopen(self, handle: WriteHandle, roots: tuple[str, ...]) -> LiveSession:
        try:
            events = await handle.read()
            closing = closers(events)
            if closing:
                await handle.append(closing)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await handle.close()
            raise
        return await self._enter(handle, roots, [*events, *closing])

    async def _enter(self, handle: WriteHandle, roots: tuple[str, ...], events: list[Event]) -> LiveSession:
        session_id = handle.header.id
        scope = await self._scope.child(f"session {session_id}")
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

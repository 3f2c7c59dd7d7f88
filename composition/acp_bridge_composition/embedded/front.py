"""The front of an embedded agent: one session in this process, in the place of the ACP bridge.

Owns: opening the session, telling its events, and putting its questions. Must not know: other plugins, settings.
Invariant: a question that nobody answers, or whose answer is anything but True, is a no. Leaving brings the agent to
rest with its real ending flushed, before storage goes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from acp_bridge.agent.agent import Agent
from acp_bridge.agent.lifetime import create, live_agent, reopen, session_root, switch_mode
from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.approval import ApprovalOutcome, ApprovalRequest
from acp_bridge.approval.modes import DEFAULT_MODE, MODES
from acp_bridge.errors import AuthRequired, SessionClosed
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.persistence.persistence import PERSISTENCE, Persistence, WriteHandle
from acp_bridge.session.events import Event, RequestConfig
from acp_bridge.session.session import Session
from acp_bridge_composition.embedded.told import Question, Teller, Told

__all__ = ["EmbeddedFront", "Wanted"]

Answer = Callable[[Question], Awaitable[bool]]
Tell = Callable[[Told], None]


class Wanted(Struct, frozen=True):
    """The session to open. A missing `cwd` is where a resumed session was created, else the process's own."""

    cwd: str | None = None
    mode: str | None = None
    resume: str | None = None


class EmbeddedFront:
    """`missing_model` says why no model can be used, or None. `rest_seconds` bounds coming to rest."""

    name = "embedded"
    needs: tuple[ServiceKey[Any], ...] = (PERSISTENCE,)

    def __init__(
        self,
        parts: AgentParts,
        missing_model: Callable[[], str | None],
        wanted: Wanted,
        answer: Answer | None,
        tell: Tell | None,
        *,
        rest_seconds: float,
    ) -> None:
        self._parts = parts
        self._missing_model = missing_model
        self._wanted = wanted
        self._answer = answer
        self._tell = tell
        self._rest_seconds = rest_seconds
        self._agent: Agent | None = None
        self._teller: Teller | None = None
        self.session_id = wanted.resume or ""

    @property
    def agent(self) -> Agent:
        """Raises SessionClosed once the session is gone."""
        if self._agent is None:
            raise SessionClosed(self.session_id)
        return self._agent

    def require_model(self) -> None:
        """Raises AuthRequired."""
        missing = self._missing_model()
        if missing is not None:
            raise AuthRequired(missing)

    def config(self) -> RequestConfig:
        """Raises AuthRequired."""
        return self._parts.config(self.agent.session)

    def teller(self, session: Session) -> Teller:
        return Teller(self._parts.tools.present, session.cwd)

    async def mount(self, context: Context) -> None:
        """Raises AuthRequired, InvalidParams, and what opening a session raises."""
        self.require_model()
        await context.effect("session", self._session(context.require(PERSISTENCE)))

    @asynccontextmanager
    async def _session(self, persistence: Persistence) -> AsyncIterator[Session]:
        handle, roots, events = await self._opened(persistence)
        self.session_id = handle.header.id
        async with open_scope("session", undo_seconds=self._rest_seconds) as scope:
            agent = await scope.effect("agent", live_agent(self._parts, handle, roots, events))
            await self._set_up(agent.session)
            self._agent, self._teller = agent, self.teller(agent.session)
            yield agent.session
        self._agent = None

    async def _opened(self, persistence: Persistence) -> tuple[WriteHandle, tuple[str, ...], list[Event]]:
        wanted = self._wanted
        if wanted.resume is None:
            cwd = wanted.cwd or os.getcwd()  # noqa: PTH109  # Path.cwd is the same call
            root = session_root(cwd)
            return await create(persistence, cwd), (root,), []
        handle, events = await reopen(persistence, wanted.resume)
        try:
            root = session_root(wanted.cwd or handle.header.cwd or "")
        except BaseException:
            await handle.close()
            raise
        return handle, (root,), events

    async def _set_up(self, session: Session) -> None:
        resumed = self._wanted.resume is not None
        if self._wanted.mode is not None or not resumed:
            switch_mode(session, MODES[self._wanted.mode or DEFAULT_MODE])
        if resumed:
            # Before any prompt: a session must not come back wider after a crash.
            await self._parts.store.flush(session)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        if self._teller is not None and self._is_ours(session):
            for told in self._teller.told(event):
                if self._tell is not None:
                    self._tell(told)

    @hookimpl
    async def approval_request(self, request: ApprovalRequest, next: Next[ApprovalOutcome]) -> ApprovalOutcome:
        if self._answer is None or not self._is_ours(request.session):
            return await next()
        shown = request.prepared.presentation
        question = Question(
            request.session.id,
            request.call_id,
            request.tool_name,
            shown.title,
            shown.text,
            shown.diffs,
            request.reason,
        )
        return "allowed-once" if await self._answer(question) is True else "rejected"

    def _is_ours(self, session: Session) -> bool:
        return self._agent is not None and self._agent.session is session

"""The ACP bridge: one connection to one editor, as a plugin (design §13, contracts §9).

Owns: wiring of dispatcher, methods, sessions, projection and the permission answerer. Must not know: other plugins.
Invariant: teardown is one strict order: no new work, every agent aborted before the first await, agents at rest with
their real endings flushed, answers out, then the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio

from acp_bridge.agent.hooks import AgentFailure
from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.approval import ApprovalOutcome, ApprovalRequest
from acp_bridge.bridge.auth import AuthMethods
from acp_bridge.bridge.editor_files import ClientFiles
from acp_bridge.bridge.methods import USER, Methods
from acp_bridge.bridge.permission import permission_request, read_answer
from acp_bridge.bridge.sessions import Sessions
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.persistence.persistence import PERSISTENCE
from acp_bridge.session.events import AbortReason, ApprovalRule, Event, ToolCallEvent
from acp_bridge.session.session import Session
from acp_bridge.wire.acp_types import SessionNotification, Update
from acp_bridge.wire.dispatcher import Dispatcher
from acp_bridge.wire.transport import Transport

__all__ = ["AcpBridge"]

DISPOSED = AbortReason("disposed")


class AcpBridge:
    """`transport` opens the connection; `missing_model` is asked before every session and prompt;
    `rest_seconds` bounds how long one session may take to come to rest.

    `closed` is set when the editor is gone; the owner then tears everything down.
    """

    name = "acp_bridge"
    needs: tuple[ServiceKey[Any], ...] = (PERSISTENCE,)

    def __init__(
        self,
        version: str,
        transport: Callable[[], AbstractAsyncContextManager[Transport]],
        parts: AgentParts,
        missing_model: Callable[[], str | None],
        *,
        rest_seconds: float,
    ) -> None:
        self._version = version
        self._transport = transport
        self._parts = parts
        self._missing_model = missing_model
        self._rest_seconds = rest_seconds
        self._sessions: Sessions | None = None
        self._dispatcher: Dispatcher | None = None
        self._methods: Methods | None = None
        self.closed = anyio.Event()

    @property
    def client_name(self) -> str | None:
        """What the editor called itself, once it has."""
        return self._methods.client_name if self._methods else None

    async def mount(self, context: Context) -> None:
        await context.effect("connection", self._connection(context))

    @asynccontextmanager
    async def _connection(self, context: Context) -> AsyncIterator[None]:
        self._methods = methods = Methods(
            self._version,
            context.require(PERSISTENCE),
            AuthMethods(self._missing_model),
            context.diagnostics,
            send=self._send,
            drain=self._drain,
        )
        async with self._transport() as transport:
            dispatcher = Dispatcher(
                transport, methods.requests(), methods.notifications(), diagnostics=context.diagnostics
            )
            async with (
                dispatcher,
                anyio.create_task_group() as tasks,
                open_scope("sessions", undo_seconds=self._rest_seconds) as scope,
            ):
                self._dispatcher = dispatcher
                self._sessions = Sessions(self._parts, context.require(PERSISTENCE), scope, self._editor_for)
                methods.serve(self._sessions)
                tasks.start_soon(self._serve, dispatcher, name="acp reader")
                try:
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._rest(dispatcher)

    def tell_options(self) -> None:
        """What may be chosen has changed: every open session's editor is told."""
        sessions = self._sessions
        if sessions is None:
            return
        for live in sessions.live:
            self._send(live.session.id, sessions.options_update(live.session))

    def tell(self, topic: str, text: str | None) -> None:
        """Tell the person in every open session; see `Agent.tell`."""
        for live in self._sessions.live if self._sessions else ():
            live.agent.tell(topic, text)

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or waits to run, in any session."""
        return any(live.agent.running for live in self._sessions.live) if self._sessions else False

    async def when_idle(self) -> None:
        """Return once no turn runs, or waits to run, in any session."""
        while busy := [live for live in self._sessions.live if live.agent.running] if self._sessions else []:
            await busy[0].agent.when_idle()

    async def _serve(self, dispatcher: Dispatcher) -> None:
        try:
            await dispatcher.run()
        finally:
            # Before any waiting question can see the closed connection: an agent must read this as an end, not as a no.
            self._abort_agents()
            self.closed.set()

    async def _rest(self, dispatcher: Dispatcher) -> None:
        dispatcher.stop()
        sessions = self._sessions
        if sessions is None:
            return
        self._abort_agents()
        async with anyio.create_task_group() as tasks:
            for live in sessions.live:
                tasks.start_soon(sessions.close, live)
        await dispatcher.settled()

    def _abort_agents(self) -> None:
        for live in self._sessions.live if self._sessions else ():
            live.agent.cancel(DISPOSED)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        live = self._sessions.find(session.id) if self._sessions else None
        if live is not None and live.session is session:
            for update in live.updates(event):
                self._send(session.id, update)

    @hookimpl
    def agent_error(self, session: Session, failure: AgentFailure) -> None:
        # The person reads it as the answer to the prompt; here is what is left of it afterwards. No message: a
        # provider's may quote the conversation.
        self._parts.diagnostics.note(f"session {session.id}, turn {failure.turn} failed: {failure.code}")

    @hookimpl
    async def session_pressure(self, session: Session) -> None:
        await self._drain()

    @hookimpl
    async def approval_request(self, request: ApprovalRequest, next: Next[ApprovalOutcome]) -> ApprovalOutcome:
        live = self._sessions.find(request.session.id) if self._sessions else None
        if live is None or live.session is not request.session or self._dispatcher is None:
            return await next()
        arguments = _raw_arguments(request)
        question = permission_request(request, arguments)
        # No timeout: a person may be at lunch. Cancelling the turn or closing the editor ends the wait.
        answer = read_answer(await self._dispatcher.request("session/request_permission", question, timeout=None))
        if answer == "cancelled":
            live.agent.cancel(USER)
            return "cancelled"
        if answer == "reject-always":
            request.session.log.append(ApprovalRule("deny", request.tool_name, arguments))
        return "allowed-once" if answer == "allow" else "rejected"

    def _send(self, session_id: str, update: Update) -> None:
        if self._dispatcher is not None:
            self._dispatcher.notify("session/update", SessionNotification(session_id, update))

    async def _drain(self) -> None:
        if self._dispatcher is not None:
            await self._dispatcher.drain()

    def _editor_for(self, session_id: str) -> ClientFiles | None:
        client = self._methods.client if self._methods else None
        if client is None or client.fs is None or self._dispatcher is None:
            return None
        can_read, can_write = bool(client.fs.read_text_file), bool(client.fs.write_text_file)
        if not (can_read or can_write):
            return None
        return ClientFiles(self._dispatcher, session_id, can_read=can_read, can_write=can_write)


def _raw_arguments(request: ApprovalRequest) -> str:
    for event in reversed(request.session.log.events):
        if isinstance(event.data, ToolCallEvent) and event.data.call_id == request.call_id:
            return event.data.arguments
    return "{}"

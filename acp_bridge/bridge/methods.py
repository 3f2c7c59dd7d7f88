"""The ACP methods of this agent (ACP: protocol v1; editors §8).

Owns: what each request does and answers. Must not know: framing, storage, how sessions run.
Invariant: whatever a prompt or a cancel reserves or aborts happens in read order, before anything is awaited; a
session's updates all precede the answer they belong to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from msgspec import Raw

from acp_bridge.agent.lifetime import prompt
from acp_bridge.approval.modes import MODES, preset_of
from acp_bridge.bridge.auth import AuthMethods
from acp_bridge.bridge.changes import Place
from acp_bridge.bridge.listing import session_page
from acp_bridge.bridge.live import LiveSession
from acp_bridge.bridge.options import choose
from acp_bridge.bridge.prompt_blocks import prompt_text
from acp_bridge.bridge.sessions import Sessions, checked_roots
from acp_bridge.bridge.settle import stop_reason
from acp_bridge.errors import InvalidParams, InvalidRequest
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.persistence.persistence import Persistence
from acp_bridge.session.events import AbortReason, TurnEndReason
from acp_bridge.session.session import Session
from acp_bridge.wire.acp_types import (
    AuthenticateParams,
    CancelParams,
    ClientCapabilities,
    InitializeParams,
    ListParams,
    LoadSessionParams,
    NewSessionParams,
    PromptParams,
    SessionIdParams,
    SetConfigOptionParams,
    SetModeParams,
    Update,
)
from acp_bridge.wire.dispatcher import NotificationHandler, RequestContext, RequestHandler
from acp_bridge.wire.params import decode_params

__all__ = ["PROTOCOL_VERSION", "Methods"]

PROTOCOL_VERSION = 1
USER = AbortReason("user")

Send = Callable[[str, Update], None]
Answer = Callable[[Session], dict[str, Any]]


class Methods:
    """`send(session_id, update)` and `drain` are the connection's."""

    def __init__(
        self,
        version: str,
        persistence: Persistence,
        auth: AuthMethods,
        diagnostics: Diagnostics,
        *,
        send: Send,
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self._version = version
        self._persistence = persistence
        self._auth = auth
        self._diagnostics = diagnostics
        self._send = send
        self._drain = drain
        self._sessions: Sessions | None = None
        self._early: dict[anyio.CancelScope, str] = {}
        self.client: ClientCapabilities | None = None
        self.client_name: str | None = None

    def serve(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def requests(self) -> dict[str, RequestHandler]:
        return {
            "initialize": self._initialize,
            "authenticate": self._after_initialize(self._authenticate),
            "session/new": self._after_initialize(self._new),
            "session/load": self._after_initialize(self._load),
            "session/list": self._after_initialize(self._list),
            "session/prompt": self._after_initialize(self._prompt),
            "session/close": self._after_initialize(self._close),
            "session/set_mode": self._after_initialize(self._set_mode),
            "session/set_config_option": self._after_initialize(self._set_config_option),
        }

    def notifications(self) -> dict[str, NotificationHandler]:
        return {"session/cancel": self._cancel}

    def _after_initialize(self, handler: RequestHandler) -> RequestHandler:
        def checked(context: RequestContext, params: Raw) -> Awaitable[object]:
            if self.client is None:
                raise InvalidRequest(f"{context.method} came before initialize.")
            return handler(context, params)

        return checked

    @property
    def _open(self) -> Sessions:
        if self._sessions is None:
            raise InvalidRequest("The agent is shutting down.")
        return self._sessions

    def _initialize(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, InitializeParams)
        self.client = request.client_capabilities or ClientCapabilities()
        self.client_name = request.client_info.name if request.client_info else None
        return _answer(
            {
                "protocolVersion": PROTOCOL_VERSION,
                "agentCapabilities": {
                    "loadSession": True,
                    "promptCapabilities": {},
                    "sessionCapabilities": {"list": {}, "close": {}},
                },
                "agentInfo": {"name": "acp-bridge", "title": "acp-bridge", "version": self._version},
                "authMethods": self._auth.offered(self.client),
            }
        )

    def _authenticate(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        self._auth.authenticate(decode_params(params, AuthenticateParams).method_id)
        return _answer({})

    async def _new(self, context: RequestContext, params: Raw) -> object:
        request = decode_params(params, NewSessionParams)
        roots = checked_roots(request.cwd, request.additional_directories)
        self._auth.require_model()
        self._note_servers(request.mcp_servers)
        live = await self._open.create(request.cwd, roots)
        return {"sessionId": live.session.id, "modes": _modes(live), "configOptions": self._open.options(live.session)}

    def _load(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, LoadSessionParams)
        roots = checked_roots(request.cwd, request.additional_directories)
        self._note_servers(request.mcp_servers)
        return self._loaded(self._open.changes.place(request.session_id), request.session_id, roots)

    async def _loaded(self, place: Place, session_id: str, roots: tuple[str, ...]) -> object:
        async with place:
            live = await self._open.load(session_id, roots)
            await live.replay(lambda update: self._send(session_id, update), self._drain)
            return {"modes": _modes(live), "configOptions": self._open.options(live.session)}

    async def _list(self, context: RequestContext, params: Raw) -> object:
        request = decode_params(params, ListParams)
        return session_page(await self._persistence.list(), request.cwd, request.cursor)

    def _prompt(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, PromptParams)
        text = prompt_text(request.prompt)
        if self._open.changes.under_way(request.session_id):
            scope = anyio.CancelScope()
            self._early[scope] = request.session_id
            context.on_cancel = scope.cancel
            return self._prompt_later(context, request.session_id, text, scope)
        return self._begin(context, self._open.require(request.session_id), text)

    async def _prompt_later(
        self, context: RequestContext, session_id: str, text: str, scope: anyio.CancelScope
    ) -> object:
        """A prompt in the same write as its session's load waits for the load's answer; a cancel ends the wait."""
        try:
            with scope:
                await self._open.changes.settled(session_id)
        finally:
            del self._early[scope]
        if scope.cancel_called:
            return {"stopReason": stop_reason(TurnEndReason("aborted", reason=USER))}
        return await self._begin(context, self._open.require(session_id), text)

    def _begin(self, context: RequestContext, live: LiveSession, text: str) -> Awaitable[object]:
        self._auth.require_model()
        ticket = prompt(live.agent, text)
        context.on_cancel = lambda: live.agent.cancel(USER)

        async def settle() -> object:
            return {"stopReason": stop_reason(await ticket.ending())}

        return settle()

    def _cancel(self, params: Raw) -> None:
        session_id = decode_params(params, CancelParams).session_id
        for scope, waiting_for in self._early.items():
            if waiting_for == session_id:
                scope.cancel()
        live = self._open.find(session_id)
        if live is not None:
            live.agent.cancel(USER)

    def _close(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        session_id = decode_params(params, SessionIdParams).session_id
        live = self._open.find(session_id)
        if live is not None:
            live.agent.cancel(USER)
        return self._closed(self._open.changes.place(session_id), session_id)

    async def _closed(self, place: Place, session_id: str) -> object:
        async with place:
            await self._open.close(self._open.require(session_id))
            return {}

    def _set_mode(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, SetModeParams)
        if request.mode_id not in MODES:
            there_are = f"There is no mode {request.mode_id!r}; there are {', '.join(MODES)}."
            raise InvalidParams(there_are, field="modeId")
        return self._chosen(SetConfigOptionParams(request.session_id, "mode", request.mode_id), self._told_options)

    def _set_config_option(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, SetConfigOptionParams)
        return self._chosen(request, lambda session: {"configOptions": self._open.options(session)})

    def _chosen(self, request: SetConfigOptionParams, answer: Answer) -> Awaitable[object]:
        """At once, so that it counts for whatever was sent after it; behind a load, as soon as that is over."""
        if self._open.changes.under_way(request.session_id):
            return self._choose_later(request, answer)
        return self._stored(*self._choose(request, answer))

    async def _choose_later(self, request: SetConfigOptionParams, answer: Answer) -> object:
        await self._open.changes.settled(request.session_id)
        return await self._stored(*self._choose(request, answer))

    def _choose(self, request: SetConfigOptionParams, answer: Answer) -> tuple[Session, dict[str, Any]]:
        session = self._open.require(request.session_id).session
        choose(session, request.config_id, request.value, self._open.offered())
        return session, answer(session)

    async def _stored(self, session: Session, answer: dict[str, Any]) -> object:
        """The choice counts already. Answered only once it outlives a crash: a session must not come back wider."""
        await self._open.flush(session)
        return answer

    def _told_options(self, session: Session) -> dict[str, Any]:
        self._send(session.id, self._open.options_update(session))
        return {}

    def _note_servers(self, servers: list[Raw] | None) -> None:
        if servers:
            self._diagnostics.note(f"{len(servers)} MCP servers were offered; this version does not use them")


async def _answer(result: dict[str, Any]) -> object:
    return result


def _modes(live: LiveSession) -> dict[str, Any]:
    return {
        "currentModeId": preset_of(live.session.log.events).id,
        "availableModes": [
            {"id": mode.id, "name": mode.name, "description": mode.description} for mode in MODES.values()
        ],
    }

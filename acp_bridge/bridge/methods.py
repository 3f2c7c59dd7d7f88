"""The ACP methods of this agent (ACP: protocol v1; editors §8).

Owns: what each request does and answers. Must not know: framing, storage, how sessions run.
Invariant: whatever a prompt or a cancel reserves or aborts happens in read order, before anything is awaited; a
session's updates all precede the answer they belong to.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from acp_bridge.approval.modes import MODES, preset_of
from acp_bridge.bridge.auth import AuthMethods
from acp_bridge.bridge.listing import session_page
from acp_bridge.bridge.live import LiveSession
from acp_bridge.bridge.prompt_blocks import prompt_text, title_of
from acp_bridge.bridge.sessions import Sessions, checked_roots
from acp_bridge.bridge.settle import stop_reason
from acp_bridge.errors import InvalidParams, InvalidRequest, SessionNotFound
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.persistence.persistence import Persistence
from acp_bridge.session.content import UserSource, text_message
from acp_bridge.session.events import AbortReason, PresetSet, SandboxModeSet, TitleSet
from acp_bridge.session.fold import last_body
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
    SetModeParams,
    Update,
)
from acp_bridge.wire.dispatcher import NotificationHandler, RequestContext, RequestHandler
from acp_bridge.wire.params import decode_params

__all__ = ["PROTOCOL_VERSION", "Methods"]

PROTOCOL_VERSION = 1
USER = AbortReason("user")

Send = Callable[[str, Update], None]


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
        return {"sessionId": live.session.id, "modes": _modes(live)}

    async def _load(self, context: RequestContext, params: Raw) -> object:
        request = decode_params(params, LoadSessionParams)
        roots = checked_roots(request.cwd, request.additional_directories)
        self._note_servers(request.mcp_servers)
        live = await self._open.load(request.session_id, roots)
        await live.replay(lambda update: self._send(live.session.id, update), self._drain)
        return {"modes": _modes(live)}

    async def _list(self, context: RequestContext, params: Raw) -> object:
        request = decode_params(params, ListParams)
        return session_page(await self._persistence.list(), request.cwd, request.cursor)

    def _prompt(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, PromptParams)
        text = prompt_text(request.prompt)
        live = self._open.find(request.session_id)
        if live is None and self._open.changing(request.session_id):
            return self._prompt_later(context, request.session_id, text)
        if live is None:
            raise SessionNotFound(request.session_id)
        return self._begin(context, live, text)

    async def _prompt_later(self, context: RequestContext, session_id: str, text: str) -> object:
        """A prompt in the same write as its session's load waits for the load's answer."""
        live = await self._open.get(session_id)
        return await self._begin(context, live, text)

    def _begin(self, context: RequestContext, live: LiveSession, text: str) -> Awaitable[object]:
        self._auth.require_model()
        ticket = live.agent.prompt(text_message(str(uuid.uuid4()), text, UserSource()))
        if last_body(live.session.log.events, TitleSet) is None:
            live.session.log.append(TitleSet(title_of(text), source={"kind": "prompt"}))
        context.on_cancel = lambda: live.agent.cancel(USER)

        async def settle() -> object:
            return {"stopReason": stop_reason(await ticket.ending())}

        return settle()

    def _cancel(self, params: Raw) -> None:
        live = self._open.find(decode_params(params, CancelParams).session_id)
        if live is not None:
            live.agent.cancel(USER)

    async def _close(self, context: RequestContext, params: Raw) -> object:
        live = await self._open.get(decode_params(params, SessionIdParams).session_id)
        live.agent.cancel(USER)
        await self._open.close(live)
        return {}

    def _set_mode(self, context: RequestContext, params: Raw) -> Awaitable[object]:
        request = decode_params(params, SetModeParams)
        live = self._open.find(request.session_id)
        if live is None:
            raise SessionNotFound(request.session_id)
        mode = MODES.get(request.mode_id)
        if mode is None:
            raise InvalidParams(f"There is no mode {request.mode_id!r}; there are {', '.join(MODES)}.", field="modeId")
        if preset_of(live.session.log.events).id != mode.id:
            live.session.log.append(PresetSet(mode.id))
            live.session.log.append(SandboxModeSet(mode.sandbox))
        return _answer({})

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

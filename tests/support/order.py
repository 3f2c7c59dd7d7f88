"""What must come before what between an editor and an agent (editors §1 rules 2, 3, 6, 7, 8 and 13; design §13).

Walks the frames of one connection in order and remembers sessions, open requests and tool calls. The look of a
single frame is `shapes`' business. Each violation is one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.schema import mapping, mappings

__all__ = ["Order", "Request"]

TURN_BOUND = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "plan_update",
    "plan_removed",
}
FINAL = {"completed", "failed"}
REFUSALS = (-32700, -32600, -32602)
"""Codes of what was never begun: no JSON, no request, wrong params."""
GIVES_SESSION = {"session/new", "session/fork"}
RESTORES_SESSION = {"session/load", "session/resume"}


@dataclass(frozen=True)
class Request:
    """A client request that was sent; `key` is its id as JSON, so that 1, "1" and true stay apart."""

    key: str
    method: str | None
    params: dict[str, Any]

    @property
    def session_id(self) -> str:
        return str(self.params.get("sessionId"))


@dataclass
class Session:
    """What the client may know about one session."""

    known: bool = False
    has_modes: bool = False
    has_options: bool = False
    loads: set[str] = field(default_factory=set)
    prompts: list[str] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    """Status of each announced tool call."""

    @property
    def busy(self) -> bool:
        return bool(self.loads or self.prompts)


class Order:
    """Feed frames in the order they crossed the wire; ask for violations of the agent's."""

    def __init__(self) -> None:
        self.capabilities: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self.open: dict[str, list[Request]] = {}
        self.cancelled: set[str] = set()
        self.agent_requests: dict[str, str] = {}
        self.terminals: set[str] = set()
        self.unreadable = 0
        """Client lines without an answer that held no JSON object; their id may be known all the same."""

    def client(self, message: dict[str, Any] | None) -> None:
        """Take note of what the client sent; None is a line that was no JSON object."""
        if message is None:
            self.unreadable += 1
            return
        params = mapping(message.get("params"))
        if "id" in message and "result" not in message and "error" not in message:
            method = message.get("method")
            self._client_request(
                Request(json.dumps(message["id"]), method if isinstance(method, str) else None, params)
            )
        elif message.get("method") == "session/cancel":
            self.cancelled.update(self._session(params).prompts)
        elif message.get("method") == "$/cancel_request":
            self.cancelled.add(json.dumps(params.get("requestId")))
        elif self.agent_requests.get(json.dumps(message.get("id"))) == "terminal/create":
            self.terminals.add(str(mapping(message.get("result")).get("terminalId")))

    def answered(self, message: dict[str, Any]) -> Request | None:
        """The open client request that this agent frame answers; it is open no longer."""
        waiting = self.open.get(json.dumps(message.get("id"))) if "method" not in message else None
        # Of two with one id the second is refused.
        refused = mapping(message.get("error")).get("code") == -32600
        return waiting.pop(-1 if refused else 0) if waiting else None

    def problems(self, message: dict[str, Any], request: Request | None) -> Iterator[str]:
        """Violations by one agent frame; `request` is what `answered` said about it."""
        if "method" not in message:
            yield from self._response_problems(message, request)
            return
        params = mapping(message.get("params"))
        if "id" in message:
            yield from self._request_problems(message["id"], message["method"], params)
        if message["method"] == "session/update":
            yield from self._update_problems(self._session(params), params)

    def _session(self, params: dict[str, Any]) -> Session:
        return self.sessions.setdefault(str(params.get("sessionId")), Session())

    def _client_request(self, request: Request) -> None:
        self.open.setdefault(request.key, []).append(request)
        if request.method == "initialize":
            self.capabilities = mapping(request.params.get("clientCapabilities"))
        elif request.method == "session/prompt":
            self._session(request.params).prompts.append(request.key)
        elif request.method == "session/load":
            session = self._session(request.params)
            session.loads.add(request.key)
            if not session.prompts:
                session.calls.clear()

    def _response_problems(self, message: dict[str, Any], request: Request | None) -> Iterator[str]:
        if request is None:
            code = mapping(message.get("error")).get("code")
            if code == -32700 and self.unreadable:
                self.unreadable -= 1
            elif message.get("id") is not None or code not in REFUSALS:
                yield f"rule 5: a response to no open request: id {message.get('id')!r}"
            return
        result = mapping(message["result"]) if "result" in message else None
        if request.method == "session/prompt":
            code = mapping(message.get("error")).get("code")
            yield from self._prompt_end_problems(request, failed=code not in (None, *REFUSALS))
        elif request.method in RESTORES_SESSION:
            yield from self._restore_end_problems(request, result)
        elif request.method in GIVES_SESSION and result is not None:
            self._open_session(self._session(result), result)
        elif request.method in ("session/close", "session/delete") and result is not None:
            self._session(request.params).known = False
        elif request.method == "initialize" and result is not None:
            yield from self._auth_problems(mappings(result.get("authMethods")))
        yield from self._option_problems(mapping(result).get("configOptions"))

    def _prompt_end_problems(self, request: Request, *, failed: bool) -> Iterator[str]:
        session = self._session(request.params)
        if request.key in session.prompts:
            session.prompts.remove(request.key)
        if failed and request.key in self.cancelled:
            yield "rule 1: a cancelled prompt was answered with an error"
        if not session.prompts:
            yield from _unfinished(session, "when the prompt was answered")

    def _restore_end_problems(self, request: Request, result: dict[str, Any] | None) -> Iterator[str]:
        session = self._session(request.params)
        session.loads.discard(request.key)
        if result is not None:
            self._open_session(session, result)
        if not session.prompts:
            yield from _unfinished(session, f"when {request.method} was answered")

    def _open_session(self, session: Session, result: dict[str, Any]) -> None:
        session.known = True
        session.has_modes = "modes" in result
        session.has_options = "configOptions" in result

    def _auth_problems(self, methods: list[dict[str, Any]]) -> Iterator[str]:
        terminal = mapping(self.capabilities.get("auth")).get("terminal") is True
        terminal |= mapping(self.capabilities.get("_meta")).get("terminal-auth") is True
        for method in methods:
            kind = method.get("type", "agent")
            if kind not in ("agent", "terminal"):
                yield f"an auth method of a type that clients do not know: {kind!r}"
            elif kind == "terminal" and not terminal:
                yield "rule 8: a terminal auth method for a client that has none"

    def _option_problems(self, options: Any) -> Iterator[str]:
        known = mapping(mapping(self.capabilities.get("session")).get("configOptions"))
        if "boolean" not in known and any(option.get("type") == "boolean" for option in mappings(options)):
            yield "rule 8: a boolean config option for a client that knows none"

    def _request_problems(self, id: Any, method: str, params: dict[str, Any]) -> Iterator[str]:
        if not isinstance(id, int) or isinstance(id, bool):
            yield f"rule 6: a request of the agent whose id is not a plain integer: {id!r}"
        if json.dumps(id) in self.agent_requests:
            yield f"rule 6: the agent used request id {id!r} twice"
        self.agent_requests[json.dumps(id)] = method
        if not self._advertised(method):
            yield f"rule 7: {method} was called, but the client does not offer it"
        session = self._session(params)
        if "sessionId" in params and not session.known and not session.loads:
            yield f"rule 2: {method} for a session that the client does not know"
        if method == "session/request_permission":
            yield from self._permission_problems(session, params)

    def _advertised(self, method: str) -> bool:
        files = mapping(self.capabilities.get("fs"))
        elicitation = mapping(self.capabilities.get("elicitation"))
        gates = {
            "fs/read_text_file": files.get("readTextFile") is True,
            "fs/write_text_file": files.get("writeTextFile") is True,
            "elicitation/create": bool(elicitation.keys() & {"form", "url"}),
        }
        default = self.capabilities.get("terminal") is True if method.startswith("terminal/") else True
        return gates.get(method, default)

    def _permission_problems(self, session: Session, params: dict[str, Any]) -> Iterator[str]:
        if not session.prompts:
            yield "rule 3: a permission request outside a turn"
        call = mapping(params.get("toolCall"))
        status = session.calls.get(str(call.get("toolCallId")))
        if status != "pending":
            yield f"rule 13: a permission request for a call that is {status or 'not announced'}, not pending"

    def _update_problems(self, session: Session, params: dict[str, Any]) -> Iterator[str]:
        update = mapping(params.get("update"))
        kind = str(update.get("sessionUpdate"))
        if not session.known and not session.loads:
            yield f"rule 2: {kind} for a session that the client does not know"
        elif kind in TURN_BOUND and not session.busy:
            yield f"rule 3: {kind} outside a turn"
        elif kind == "user_message_chunk" and not session.loads:
            yield "rule 3: a user_message_chunk in a live turn echoes what the client knows"
        if kind in ("tool_call", "tool_call_update"):
            yield from self._tool_call_problems(session, update, kind)
        yield from self._feature_problems(session, update, kind)

    def _tool_call_problems(self, session: Session, update: dict[str, Any], kind: str) -> Iterator[str]:
        id, before = str(update.get("toolCallId")), session.calls.get(str(update.get("toolCallId")))
        status = str(update.get("status", before or "pending"))
        if kind == "tool_call" and before is not None and not session.loads:
            yield f"rule 13: tool call {id} was announced twice"
        elif kind == "tool_call_update" and before is None:
            yield f"rule 13: tool_call_update for {id} before its tool_call"
        elif kind == "tool_call_update" and before in FINAL and status not in FINAL:
            yield f"rule 13: tool call {id} went back from {before} to {status}"
        for block in mappings(update.get("content")):
            if block.get("type") == "terminal" and str(block.get("terminalId")) not in self.terminals:
                yield f"rule 13: tool call {id} shows a terminal that the client did not create"
        session.calls[id] = status

    def _feature_problems(self, session: Session, update: dict[str, Any], kind: str) -> Iterator[str]:
        if kind in ("plan_update", "plan_removed") and "plan" not in self.capabilities:
            yield f"rule 8: {kind} for a client that does not know it"
        if kind == "current_mode_update" and session.known and not session.has_modes:
            yield "rule 8: current_mode_update for a session without modes"
        if kind == "config_option_update":
            yield from self._option_problems(update.get("configOptions"))
            if session.known and not session.has_options:
                yield "rule 8: config_option_update for a session without config options"


def _unfinished(session: Session, when: str) -> Iterator[str]:
    for id, status in session.calls.items():
        if status not in FINAL:
            yield f"tool call {id} was still {status} {when}"

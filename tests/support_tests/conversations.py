"""Conversations between an editor and an agent as frames: sound ones, and one for each violation."""

from __future__ import annotations

import json
from typing import Any

from tests.support.frames import Frame

__all__ = ["BAD", "END", "GOOD", "LOAD", "PROMPT", "got", "result", "sent"]

CALL: dict[str, Any] = {
    "toolCallId": "t1",
    "title": "Edit a.txt",
    "kind": "edit",
    "status": "pending",
    "rawInput": {"path": "a.txt"},
}
DIFF = {"type": "diff", "path": "/w/a.txt", "oldText": None, "newText": "b"}
ASKED = {**CALL, "content": [DIFF], "locations": [{"path": "/w/a.txt", "line": 1}]}
KINDS = ["allow_once", "allow_always", "reject_once"]
CLIENT = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}


def sent(message: Any) -> Frame:
    return Frame("client", 0.0, json.dumps(message).encode())


def got(message: Any) -> Frame:
    return Frame("agent", 0.0, message if isinstance(message, bytes) else json.dumps(message).encode())


def ask(id: Any, method: str, **params: Any) -> Frame:
    return sent({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def result(id: Any, **value: Any) -> Frame:
    return got({"jsonrpc": "2.0", "id": id, "result": value})


def error(id: Any, code: int, **more: Any) -> Frame:
    return got({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "No luck", **more}})


def call(id: Any, method: str, **params: Any) -> Frame:
    return got({"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": "s1", **params}})


def update(variant: str, /, **fields: Any) -> Frame:
    params = {"sessionId": "s1", "update": {"sessionUpdate": variant, **fields}}
    return got({"jsonrpc": "2.0", "method": "session/update", "params": params})


def chunk(text: str = "hi", kind: str = "agent_message_chunk", **more: Any) -> Frame:
    return update(kind, content={"type": "text", "text": text}, **({"messageId": "m1"} | more))


def tool(**changed: Any) -> Frame:
    return update("tool_call", **{**CALL, **changed})


def permission(id: Any = 0, kinds: list[str] | None = None, **changed: Any) -> Frame:
    kinds = KINDS if kinds is None else kinds
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    return call(id, "session/request_permission", toolCall={**ASKED, **changed}, options=options)


START = [
    ask(0, "initialize", protocolVersion=1, clientCapabilities=CLIENT),
    result(0, protocolVersion=1, agentCapabilities={"loadSession": True}, authMethods=[{"id": "env", "name": "Env"}]),
    ask(1, "session/new", cwd="/w", mcpServers=[]),
    result(1, sessionId="s1", modes=MODES),
]
PROMPT = [*START, ask(2, "session/prompt", sessionId="s1", prompt=[])]
END = [result(2, stopReason="end_turn")]
LOAD = [*START[:2], ask(1, "session/load", sessionId="s1", cwd="/w", mcpServers=[])]


def answer_to_initialize(**fields: Any) -> list[Frame]:
    return [START[0], result(0, **({"protocolVersion": 1} | fields))]


GOOD = {
    "a whole turn": [
        *PROMPT,
        update("current_mode_update", currentModeId="ask"),
        chunk("hm", "agent_thought_chunk"),
        chunk(),
        tool(),
        permission(),
        sent({"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}}),
        update("tool_call_update", toolCallId="t1", status="in_progress"),
        call(1, "fs/write_text_file", path="/w/a.txt", content="b"),
        update("tool_call_update", toolCallId="t1", status="completed", content=[DIFF], rawOutput={"none": None}),
        update("plan", entries=[{"content": "x", "priority": "high", "status": "in_progress"}]),
        *END,
        update("session_info_update", title="A title"),
    ],
    "a replay between the load request and its result": [
        *LOAD,
        chunk("hello", "user_message_chunk", messageId="u1"),
        chunk(),
        tool(status="failed"),
        result(1, modes=MODES),
    ],
    "loading the session again while its turn runs": [
        *PROMPT,
        tool(status="in_progress"),
        ask(3, "session/load", sessionId="s1", cwd="/w", mcpServers=[]),
        tool(status="in_progress"),
        result(3),
        update("tool_call_update", toolCallId="t1", status="completed"),
        *END,
    ],
    "errors to bad input": [
        Frame("client", 0.0, b"{nonsense"),
        error(None, -32700),
        ask("x", "session/nothing"),
        error("x", -32601, data={"method": "session/nothing"}),
        *PROMPT,
        error(2, -32603, data={"details": "The disk is full."}),
    ],
    "a terminal that the client created": [
        *PROMPT,
        call(0, "terminal/create", command="ls", cwd="/w"),
        sent({"jsonrpc": "2.0", "id": 0, "result": {"terminalId": "term"}}),
        tool(status="completed", content=[{"type": "terminal", "terminalId": "term"}]),
        *END,
    ],
}

BAD: dict[str, tuple[list[Frame], str]] = {
    "not JSON": ([got(b"Traceback (most recent call last):")], "rule 4"),
    "an array": ([got(b"[]")], "rule 4"),
    "NaN": ([got(b'{"jsonrpc":"2.0","method":"_x","params":{"a":NaN}}')], "rule 4"),
    "no version": ([got({"method": "_x"})], "jsonrpc"),
    "an extra key": ([got({"jsonrpc": "2.0", "method": "_x", "extra": 1})], "keys that JSON-RPC"),
    "result and error": ([*PROMPT, got({"jsonrpc": "2.0", "id": 2, "result": {}, "error": {}})], "exactly one"),
    "a response without id": ([got({"jsonrpc": "2.0", "result": {}})], "without id"),
    "id echoed as another type": ([START[0], result("0", protocolVersion=1)], "rule 5"),
    "a second response": ([*PROMPT, *END, *END], "rule 5"),
    "a null result": ([*PROMPT, got({"jsonrpc": "2.0", "id": 2, "result": None})], "rule 19"),
    "a result without what it needs": ([*PROMPT, result(2)], "stopReason: Field required"),
    "an unknown stop reason": ([*PROMPT, result(2, stopReason="done")], "stopReason"),
    "an unknown notification": ([got({"jsonrpc": "2.0", "method": "session/what", "params": {}})], "not a method"),
    "an unknown update": ([*PROMPT, update("agent_says")], "sessionUpdate"),
    "a key that the schema does not have": ([*PROMPT, chunk(colour="red"), *END], "colour: not in the schema"),
    "a text that is a number": ([*PROMPT, chunk(5), *END], "text"),  # type: ignore[arg-type]  # wrong on purpose
    "update before the new session's result": ([*START[:3], update("usage_update", used=1, size=2)], "rule 2"),
    "update after a failed load": ([*LOAD, error(1, -32002), update("usage_update", used=1, size=2)], "rule 2"),
    "a request for an unknown session": ([*PROMPT, call(0, "fs/read_text_file", sessionId="s9", path="/a")], "rule 2"),
    "update after close": (
        [*START, ask(2, "session/close", sessionId="s1"), result(2), update("usage_update", used=1, size=2)],
        "rule 2",
    ),
    "chunk without a prompt": ([*START, chunk()], "rule 3"),
    "chunk after the response": ([*PROMPT, *END, chunk()], "rule 3"),
    "replay after the load result": ([*LOAD, result(1), chunk()], "rule 3"),
    "replay while resuming": (
        [*START[:2], ask(1, "session/resume", sessionId="s1", cwd="/w"), chunk(), result(1)],
        "rule 2",
    ),
    "echo of the prompt": ([*PROMPT, chunk("hello", "user_message_chunk"), *END], "echoes"),
    "permission outside a turn": ([*PROMPT, *END, permission()], "rule 3"),
    "a string id": ([*PROMPT, call("a", "_x")], "rule 6"),
    "an id used twice": ([*PROMPT, call(0, "_x"), call(0, "_x")], "rule 6"),
    "a method not offered": (
        [ask(0, "initialize", clientCapabilities={}), call(0, "fs/read_text_file", path="/a")],
        "rule 7",
    ),
    "a terminal not offered": ([ask(0, "initialize"), call(0, "terminal/create", command="ls")], "rule 7"),
    "a boolean option": (
        [
            *START[:3],
            result(
                1, sessionId="s1", configOptions=[{"type": "boolean", "id": "b", "name": "B", "currentValue": True}]
            ),
        ],
        "rule 8",
    ),
    "plan_removed": ([*PROMPT, update("plan_removed", planId="p")], "rule 8: plan_removed"),
    "a terminal auth method": (
        answer_to_initialize(authMethods=[{"type": "terminal", "id": "t", "name": "T"}]),
        "rule 8",
    ),
    "mode update without modes": (
        [*START[:3], result(1, sessionId="s1"), update("current_mode_update", currentModeId="ask")],
        "rule 8",
    ),
    "option update without options": ([*START, update("config_option_update", configOptions=[])], "rule 8"),
    "loadSession false": (answer_to_initialize(agentCapabilities={"loadSession": False}), "rule 9"),
    "a boolean capability": (answer_to_initialize(agentCapabilities={"sessionCapabilities": {"list": True}}), "rule 9"),
    "a null capability": (answer_to_initialize(agentCapabilities={"sessionCapabilities": {"list": None}}), "rule 10"),
    "a null in an update": ([*PROMPT, chunk(messageId=None), *END], "rule 10"),
    "a null in a result": ([*PROMPT, result(2, stopReason="end_turn", usage=None)], "rule 10"),
    "a null in an error": ([*PROMPT, error(2, -32000, data=None)], "rule 10"),
    "rawInput a text": ([*PROMPT, tool(rawInput="x")], "rule 11"),
    "rawOutput null": ([*PROMPT, tool(rawOutput=None)], "rule 11"),
    "an unknown kind": ([*PROMPT, tool(kind="run")], "kind: 'run' is not in the schema"),
    "an unknown status": ([*PROMPT, tool(status="done")], "status: 'done'"),
    "an unknown priority": (
        [*PROMPT, update("plan", entries=[{"content": "x", "priority": "urgent", "status": "pending"}])],
        "entries",
    ),
    "an unknown content block": ([*PROMPT, tool(content=[{"type": "table"}])], "0 of 1 items"),
    "two plan entries in progress": (
        [*PROMPT, update("plan", entries=[{"content": "x", "priority": "low", "status": "in_progress"}] * 2)],
        "more than one",
    ),
    "update before its call": ([*PROMPT, update("tool_call_update", toolCallId="t", status="failed")], "rule 13"),
    "update without status": (
        [*PROMPT, tool(), update("tool_call_update", toolCallId="t1", title="x")],
        "rule 13: tool_call_update without status",
    ),
    "a call announced twice": ([*PROMPT, tool(), tool()], "announced twice"),
    "a call that goes back": (
        [
            *PROMPT,
            tool(status="completed"),
            update("tool_call_update", toolCallId="t1", status="in_progress"),
        ],
        "went back",
    ),
    "a call left open by a turn": ([*PROMPT, tool(), *END], "still pending when the prompt"),
    "a call left open by a replay": (
        [*LOAD, tool(), result(1)],
        "still pending when session/load",
    ),
    "an unknown terminal": (
        [*PROMPT, tool(content=[{"type": "terminal", "terminalId": "nope"}])],
        "did not create",
    ),
    "permission for an unknown call": ([*PROMPT, permission()], "not announced"),
    "permission for a running call": (
        [*PROMPT, tool(status="in_progress"), permission()],
        "rule 13: a permission request for a call that is in_progress",
    ),
    "permission that says running": ([*PROMPT, tool(), permission(status="failed")], "rule 15"),
    "permission without the diff": ([*PROMPT, tool(), permission(content=[])], "rule 15"),
    "permission whose diff is not first": (
        [
            *PROMPT,
            tool(),
            permission(content=[{"type": "content", "content": {"type": "text", "text": "x"}}, DIFF]),
        ],
        "rule 15: the first content block",
    ),
    "permission without locations": ([*PROMPT, tool(), permission(locations=[])], "locations"),
    "options in another order": ([*PROMPT, tool(), permission(kinds=KINDS[::-1])], "rule 16"),
    "two options of a kind": ([*PROMPT, tool(), permission(kinds=KINDS + KINDS)], "rule 16"),
    "no way to say no": ([*PROMPT, tool(), permission(kinds=KINDS[:2])], "rule 16"),
    "a relative location": ([*PROMPT, tool(locations=[{"path": "a.txt"}])], "rule 21"),
    "a file uri": ([*PROMPT, tool(content=[{**DIFF, "path": "file:///a"}])], "rule 21"),
    "a relative read": ([*PROMPT, call(0, "fs/read_text_file", path="a.txt")], "rule 21"),
    "line 0": ([*PROMPT, tool(locations=[{"path": "/a", "line": 0}])], "rule 21"),
    "empty text": ([*PROMPT, chunk(""), *END], "empty text"),
    "no messageId": ([*PROMPT, update("agent_message_chunk", content={"type": "text", "text": "x"})], "messageId"),
    "internal error without details": ([*PROMPT, error(2, -32603)], "rule 22"),
    "internal error with more": ([*PROMPT, error(2, -32603, data={"details": "x", "trace": "y"})], "rule 22"),
    "error code as text": ([*PROMPT, got({"jsonrpc": "2.0", "id": 2, "error": {"code": "x"}})], "integer code"),
    "a cancelled prompt that fails": (
        [
            *PROMPT,
            sent({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}),
            error(2, -32800),
        ],
        "rule 1",
    ),
}

"""What a single frame from an agent must look like so that every known editor can draw it (editors §1, ACP schema).

Owns the rules that need no memory; rules about order are `order`'s. Each rule yields one sentence per violation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from tests.support.schema import mapping, mappings, param_problems, result_problems

__all__ = ["shape_problems"]

FREE_FORM = {"rawInput", "rawOutput", "_meta"}
FRAME_KEYS = {"jsonrpc", "id", "method", "params", "result", "error"}
OPTION_ORDER = ["allow_once", "allow_always", "reject_once", "reject_always"]


def shape_problems(message: dict[str, Any], answers: str | None) -> Iterator[str]:
    """Check one frame; `answers` is the method of the client request that a response belongs to."""
    yield from _envelope_problems(message)
    if "method" in message:
        params = message.get("params", {})
        yield from param_problems(message["method"], params)
        yield from _null_problems(params, "params")
        if isinstance(params, dict):
            yield from _param_rules(message["method"], params)
    elif "error" in message:
        yield from _error_problems(message["error"])
    else:
        result = message.get("result")
        if not isinstance(result, dict):
            yield f"rule 19: the result is not an object: {result!r:.80}"
            return
        yield from result_problems(answers, result)
        yield from _null_problems(result, "result")
        yield from _result_rules(answers, result)


def _envelope_problems(message: dict[str, Any]) -> Iterator[str]:
    if message.get("jsonrpc") != "2.0":
        yield 'jsonrpc is not "2.0"'
    if extra := sorted(message.keys() - FRAME_KEYS):
        yield f"keys that JSON-RPC does not have: {extra}"
    if len(message.keys() & {"method", "result", "error"}) != 1:
        yield "not exactly one of method, result and error"
    if "method" not in message and "id" not in message:
        yield "a response without id"


def _param_rules(method: str, params: dict[str, Any]) -> Iterator[str]:
    if method == "session/update":
        yield from _update_problems(mapping(params.get("update")))
    elif method == "session/request_permission":
        call = mapping(params.get("toolCall"))
        yield from _tool_call_problems(call)
        yield from _permission_problems(call, mappings(params.get("options")))
    for key in ("path", "cwd"):
        if key in params:
            yield from _path_problems(params[key], key)


def _update_problems(update: dict[str, Any]) -> Iterator[str]:
    kind = update.get("sessionUpdate")
    if kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        yield from _chunk_problems(update, kind)
    elif kind in ("tool_call", "tool_call_update"):
        yield from _tool_call_problems(update)
        if kind == "tool_call_update" and "status" not in update:
            yield "rule 13: tool_call_update without status"
    elif [entry.get("status") for entry in mappings(update.get("entries"))].count("in_progress") > 1:
        yield "a plan has more than one entry in_progress"


def _chunk_problems(update: dict[str, Any], kind: str) -> Iterator[str]:
    content = mapping(update.get("content"))
    if content.get("type") == "text" and not content.get("text"):
        yield f"{kind} with empty text"
    if kind != "user_message_chunk" and not update.get("messageId"):
        yield f"{kind} without messageId"


def _tool_call_problems(call: dict[str, Any]) -> Iterator[str]:
    for key in ("rawInput", "rawOutput"):
        if key in call and not isinstance(call[key], dict):
            yield f"rule 11: {key} is not an object: {call[key]!r:.80}"
    for location in mappings(call.get("locations")):
        yield from _path_problems(location.get("path"), "location")
        if location.get("line") == 0:
            yield "rule 21: lines of locations are counted from 1"
    for block in mappings(call.get("content")):
        if block.get("type") == "diff":
            yield from _path_problems(block.get("path"), "diff")


def _permission_problems(call: dict[str, Any], options: list[dict[str, Any]]) -> Iterator[str]:
    missing = [key for key in ("title", "kind", "status", "rawInput") if key not in call]
    kind = call.get("kind")
    if kind in ("edit", "execute") and not call.get("content"):
        missing.append("content")
    if kind in ("read", "edit", "delete", "move") and not call.get("locations"):
        missing.append("locations")
    if missing:
        yield f"rule 15: a permission request without {', '.join(missing)}"
    if call.get("status", "pending") != "pending":
        yield f"rule 15: a permission request for a call that is {call['status']}"
    if kind == "edit" and [block.get("type") for block in mappings(call.get("content"))][:1] != ["diff"]:
        yield "rule 15: the first content block of an edit's permission request is not the diff"
    yield from _option_problems([str(option.get("kind")) for option in options])


def _option_problems(kinds: list[str]) -> Iterator[str]:
    if kinds != [kind for kind in OPTION_ORDER if kind in kinds]:
        yield f"rule 16: permission options are not one per kind in the usual order: {kinds}"
    if not {"allow_once", "reject_once"} <= set(kinds):
        yield f"rule 16: permission options lack allow_once or reject_once: {kinds}"


def _result_rules(method: str | None, result: dict[str, Any]) -> Iterator[str]:
    if method == "initialize":
        yield from _capability_problems(mapping(result.get("agentCapabilities")))
    for session in mappings(result.get("sessions")):
        yield from _path_problems(session.get("cwd"), "cwd")


def _capability_problems(capabilities: dict[str, Any]) -> Iterator[str]:
    if capabilities.get("loadSession", True) is not True:
        yield "rule 9: loadSession is there but not true"
    for group in ("sessionCapabilities", "auth"):
        for name, value in mapping(capabilities.get(group)).items():
            if not isinstance(value, dict):
                yield f"rule 9: capability {group}.{name} is not an object: {value!r}"


def _error_problems(error: Any) -> Iterator[str]:
    if not isinstance(error, dict) or not _is_int(error.get("code")) or not isinstance(error.get("message"), str):
        yield f"an error without integer code and text message: {error!r:.200}"
        return
    if not error["message"].strip():
        yield "rule 22: an error with an empty message"
    if extra := sorted(error.keys() - {"code", "message", "data"}):
        yield f"keys that a JSON-RPC error does not have: {extra}"
    data = error.get("data")
    if error["code"] == -32603 and not (
        isinstance(data, dict) and data.keys() == {"details"} and isinstance(data["details"], str) and data["details"]
    ):
        yield f"rule 22: the data of an internal error is not exactly details: {data!r:.200}"
    if "data" in error:
        yield from _null_problems({"data": data}, "error")


def _null_problems(payload: Any, path: str) -> Iterator[str]:
    items = payload.items() if isinstance(payload, dict) else enumerate(payload) if isinstance(payload, list) else ()
    for key, value in items:
        if value is None and key != "oldText":
            yield f"rule 10: explicit null at {path}.{key}"
        elif key not in FREE_FORM:
            yield from _null_problems(value, f"{path}.{key}")


def _path_problems(path: Any, name: str) -> Iterator[str]:
    if not isinstance(path, str) or not os.path.isabs(path):
        yield f"rule 21: {name} is not an absolute path: {path!r:.200}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

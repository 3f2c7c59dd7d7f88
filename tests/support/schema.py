"""Strict validation of agent payloads against the official SDK's schema models.

The SDK's models are lenient on purpose: a bad optional field becomes None, a bad list item vanishes, unknown keys are
ignored. Not all clients are so kind: here a payload passes only if the model keeps every key and value of it.
Knows single payloads, no frames and no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from acp import schema
from pydantic import TypeAdapter, ValidationError

__all__ = ["mapping", "mappings", "param_problems", "result_problems"]

PARAMS: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
    "elicitation/create": schema.CreateElicitationRequest,
    "elicitation/complete": schema.CompleteElicitationNotification,
    "$/cancel_request": schema.CancelRequestNotification,
}

RESULTS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "logout": schema.LogoutResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/close": schema.CloseSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}

# Keys that are older or newer than the schema and that clients read all the same: `models` next to modes
# (editors §1 rule 18) and the tool's `name` in a tool_call (editors §8.3).
EXTRA_KEYS = {".models", ".update.name"}


def param_problems(method: str, params: Any) -> Iterator[str]:
    """What the schema does not allow in the params of an agent's request or notification.

    An extension method (leading underscore) has no schema; any other method must be one that clients know.
    """
    if method in PARAMS:
        yield from _problems(_adapter(method, PARAMS[method]), params, "params")
    elif not method.startswith("_"):
        yield f"{method} is not a method of the client"


def result_problems(method: str | None, result: Any) -> Iterator[str]:
    """What the schema does not allow in the result of a client's request."""
    if method in RESULTS:
        yield from _problems(_adapter(method, RESULTS[method]), result, "result")


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; nothing for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


@cache
def _adapter(method: str, model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def _problems(adapter: TypeAdapter[Any], payload: Any, name: str) -> Iterator[str]:
    try:
        kept = adapter.dump_python(adapter.validate_python(payload), mode="json", by_alias=True, exclude_unset=True)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            yield f"{'.'.join([name, *map(str, fault['loc'])])}: {fault['msg']}"
    else:
        yield from (f"{name}{problem}" for problem in _lost(payload, kept, ""))


def _lost(sent: Any, kept: Any, path: str) -> Iterator[str]:
    if path.endswith(("._meta", ".rawInput", ".rawOutput")):
        return
    if isinstance(sent, dict) and isinstance(kept, dict):
        for key in sent:
            if key in kept:
                yield from _lost(sent[key], kept[key], f"{path}.{key}")
            elif f"{path}.{key}" not in EXTRA_KEYS:
                yield f"{path}.{key}: not in the schema"
    elif isinstance(sent, list) and isinstance(kept, list):
        if len(sent) != len(kept):
            yield f"{path}: the schema allows only {len(kept)} of {len(sent)} items: {sent!r:.200}"
        else:
            for number, (left, right) in enumerate(zip(sent, kept, strict=True)):
                yield from _lost(left, right, f"{path}.{number}")
    elif not _same(sent, kept):
        yield f"{path}: {sent!r:.80} is not in the schema (read as {kept!r:.80})"


def _same(sent: Any, kept: Any) -> bool:
    if isinstance(sent, bool) or isinstance(kept, bool):
        return sent is kept
    return bool(sent == kept)

"""From arguments to what will run, exactly (design §7, contracts §8.5).

Owns: the tool's arguments, their rules, and the plan. Must not know: processes, sandbox providers.
Invariant: pure; the command's bytes are never rewritten, and what cannot be run as given is refused before anybody
is asked.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.policy import MODES, SandboxMode, wider

__all__ = ["PARAMETERS", "Asked", "Plan", "asked", "narrower"]

# Linux takes no longer single argument (MAX_ARG_STRLEN, 32 pages), its final zero byte included.
_LONGEST_COMMAND = 131_071
_WIDER: tuple[SandboxMode, ...] = MODES[1:]

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "Shell command, run with `-c`. Its standard input is empty."},
        "cwd": {"type": "string", "description": "Directory to run in. Default: the session's folder."},
        "timeout_s": {"type": "number", "minimum": 1, "description": "Seconds until it is stopped. Default 120."},
        "sandbox_permissions": {
            "type": "string",
            "enum": list(_WIDER),
            "description": "A wider sandbox for this one call, only after a command failed for lack of it.",
        },
        "justification": {
            "type": "string",
            "description": "With sandbox_permissions: the reason in one sentence, shown to the user who is asked.",
        },
    },
    "required": ["command"],
}


class Asked(Struct, frozen=True):
    """Checked arguments. `mode` is the sandbox of this call, `widened` whether it is wider than the session's."""

    command: str
    cwd: str | None
    timeout_seconds: float
    mode: SandboxMode
    widened: bool = False
    justification: str | None = None


class Plan(Struct, frozen=True):
    """What runs: `argv` in `cwd` (canonical). `network` says whether a confined command has any."""

    argv: tuple[str, ...]
    cwd: str
    asked: Asked
    network: bool


def asked(
    arguments: dict[str, Any], session_mode: SandboxMode, *, default_seconds: float, longest_seconds: float
) -> Asked:
    """Arguments that fit `PARAMETERS`, checked for everything a schema cannot say. Raises ToolFailed INVALID_ARGS."""
    seconds = arguments.get("timeout_s", default_seconds)
    # Written so that NaN, which JSON parsers let in, fails as well.
    if not seconds <= longest_seconds:
        raise _invalid(f"arguments.timeout_s is in seconds and at most {longest_seconds:g}")
    command = _runnable(arguments["command"])
    mode, justification = _widening(arguments, session_mode)
    return Asked(
        command,
        arguments.get("cwd"),
        seconds,
        mode or session_mode,
        widened=mode is not None,
        justification=justification,
    )


def narrower(one: SandboxMode, other: SandboxMode) -> SandboxMode:
    return other if wider(one, other) else one


def _runnable(command: str) -> str:
    if not command.strip():
        raise _invalid("arguments.command is blank")
    if "\0" in command:
        raise _invalid("arguments.command holds a NUL character, which no shell takes")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise _invalid("arguments.command holds half of a surrogate pair, which is no text") from None
    if size > _LONGEST_COMMAND:
        raise _invalid(f"arguments.command has {size} bytes, at most {_LONGEST_COMMAND}; write a script file instead")
    return command


def _widening(arguments: dict[str, Any], session_mode: SandboxMode) -> tuple[SandboxMode | None, str | None]:
    requested: SandboxMode | None = arguments.get("sandbox_permissions")
    justification: str | None = arguments.get("justification")
    if requested is None and justification is None:
        return None, None
    if requested is None or justification is None:
        raise _invalid("sandbox_permissions and justification are given together or not at all")
    if not justification.strip():
        raise _invalid("arguments.justification is blank")
    if not wider(requested, session_mode):
        raise _invalid(f"sandbox_permissions {requested} is not wider than this session's {session_mode}; leave it out")
    return requested, justification


def _invalid(text: str) -> ToolFailed:
    return ToolFailed(text, "INVALID_ARGS")

"""What the model reads of a finished command (contracts §8.4, §8.6).

Owns: the text, its markers, the facts in `meta`, and telling a runner's failure and a denial. Must not know:
processes. Invariant: pure; no marker claims more than is known, and the exit code comes last.
"""

from __future__ import annotations

import signal
from typing import Any

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.sandbox.sandbox import Confined
from acp_bridge.session.events import ErrorInfo
from acp_bridge.tools.tool import ToolOutcome
from acp_bridge_plugins.tools_shell.output import shares
from acp_bridge_plugins.tools_shell.process import Finished

__all__ = ["never_ran", "outcome"]

# Shells say 128 + N for a program that signal N ended. Only signals that end programs in practice: git, for one,
# answers 129 to a wrong option, and that is no SIGHUP.
_FATAL = {
    128 + number: number.name
    for number in (
        *(signal.SIGINT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL),
        *(signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS),
    )
}
_HINT = (
    "[to write elsewhere, call again with sandbox_permissions and a justification; the user is asked, "
    "so do that only when the task needs it]"
)


def never_ran(finished: Finished, confined: Confined) -> str | None:
    """Why a confined command was not started at all, or None when it was.

    The command's shell reports its start through a pipe of its own, so text alone (which a command can print itself)
    proves nothing; the runner's words only give the reason.
    """
    if finished.reported or finished.ended_by == "abort":
        return None
    lines = finished.stderr.text().splitlines()
    said = next((line for line in lines if any(mark in line for mark in confined.runner_failure)), None)
    reason = said or next((line for line in lines if line.strip()), f"it ended with status {finished.code}")
    return f"The sandbox failed to start, so the command never ran: {reason}"


def outcome(finished: Finished, mode: SandboxMode, confined: Confined | None, timeout_seconds: float) -> ToolOutcome:
    denied = confined is not None and _denied(finished, confined)
    body = "\n".join([*_output(finished), *_markers(finished, mode, timeout_seconds, denied=denied)])
    meta = _meta(finished, mode, confined, denied=denied)
    if finished.ended_by == "abort":
        return ToolOutcome(f"Error: tool call aborted\n{body}", True, ErrorInfo("AbortError", "ABORTED"), meta)
    if finished.ended_by == "timeout":
        return ToolOutcome(body, True, ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT"), meta)
    return ToolOutcome(body, finished.code != 0, None, meta)


def _output(finished: Finished) -> list[str]:
    first, second = shares(finished.stdout.total, finished.stderr.total)
    stdout, stderr = finished.stdout.text(first), finished.stderr.text(second)
    parts = [stdout.rstrip("\n")] if stdout.strip() else []
    if stderr.strip():
        parts += ["[stderr]", stderr.rstrip("\n")]
    return parts or ["(no output)"]


def _markers(finished: Finished, mode: SandboxMode, timeout_seconds: float, *, denied: bool) -> list[str]:
    lines = []
    if finished.ended_by == "timeout":
        lines.append(f"[timed out after {timeout_seconds:g} s]")
    if denied:
        lines += [f"[sandbox: file access denied under {mode} mode]", _HINT]
    if finished.signal:
        lines.append(f"[killed by signal: {finished.signal}]")
    elif finished.code in _FATAL:
        lines.append(f"[128 + {finished.code - 128}: probably killed by signal {_FATAL[finished.code]}]")
    return [*lines, f"[exit code: {finished.code}]"]


def _denied(finished: Finished, confined: Confined) -> bool:
    """Only on failure: a program that prints such words and succeeds was not stopped by anything."""
    if finished.code == 0:
        return False
    said = finished.stderr.text().lower()
    return any(mark.lower() in said for mark in confined.denial)


def _meta(finished: Finished, mode: SandboxMode, confined: Confined | None, *, denied: bool) -> dict[str, Any]:
    return {
        "exitCode": finished.code,
        "signal": finished.signal,
        "durationMs": round(finished.seconds * 1000),
        "sandbox": {
            "mode": mode,
            "provider": confined.provider if confined else None,
            "enforcement": confined.enforcement if confined else None,
            "denied": denied,
        },
    }

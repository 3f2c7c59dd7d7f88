"""What a person sees of a command before it may run (field case A5, editors.md rule 15).

Owns: title and text. Must not know: processes, the sandbox's provider. Invariant: pure and total; the text holds the
whole command, with everything that hides in it made visible; nothing of it can end its own code block early.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import clipped, text
from acp_bridge.tools.visible import code_span, longest_run, visible, visible_line
from acp_bridge_plugins.tools_shell.command import Plan

__all__ = ["announced", "planned"]

_TITLE_LENGTH = 120
_WORDS: dict[SandboxMode, str] = {
    "read-only": "it can change no file",
    "workspace-write": "it can change files in the session's folders and a temporary directory only",
    "danger-full-access": "**no sandbox**: it can do whatever you can",
}


def announced(arguments: Any, cwd: str) -> Presentation:
    """From arguments of any shape, before they are checked."""
    command = text(arguments, "command")
    if command is None or not command.strip():
        return Presentation("Run a command", "execute")
    where = text(arguments, "cwd") or cwd
    return Presentation(_title(command), "execute", text=f"{_fenced(command)}\n\nIn {code_span(where)}")


def planned(plan: Plan) -> Presentation:
    """What will run, exactly."""
    asked = plan.asked
    lines = [
        f"In {code_span(plan.cwd)}, for at most {asked.timeout_seconds:g} s.",
        f"Sandbox {asked.mode}: {_limits(plan)}.",
    ]
    if asked.widened:
        lines.append(f"Wider than this session's sandbox, because: {code_span(asked.justification or '')}")
    return Presentation(_title(asked.command), "execute", text="\n\n".join([_fenced(asked.command), *lines]))


def _limits(plan: Plan) -> str:
    words = _WORDS[plan.asked.mode]
    if plan.asked.mode == "danger-full-access":
        return words
    return f"{words}, and {'it has network access' if plan.network else 'it has no network'}"


def _title(command: str) -> str:
    first, _, more = command.strip().partition("\n")
    line = clipped(visible_line(first.strip()), _TITLE_LENGTH)
    return code_span(line if not more.strip() or line.endswith("…") else f"{line} …")


def _fenced(command: str) -> str:
    """A code block that `command` cannot leave (CommonMark: fenced code blocks)."""
    fence = "`" * max(3, longest_run(command) + 1)
    return f"{fence}sh\n{visible(command)}\n{fence}"

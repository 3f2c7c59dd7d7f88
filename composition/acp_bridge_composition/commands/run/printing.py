"""What `acp-bridge run` prints: the reply as text, or everything as JSON lines (docs/run.md).

Owns: the two looks. Must not know: agents, how output is written.
Invariant: as text, stdout holds the reply and nothing else; as JSON it holds whole lines, `session` first and `end`
last. What a terminal shows has its control characters made visible.
"""

from __future__ import annotations

import os
from typing import Protocol

import msgspec
from msgspec import Struct

from acp_bridge.tools.visible import visible, visible_line
from acp_bridge_composition.commands.run.output import STDERR, STDOUT, Output
from acp_bridge_composition.embedded import Notice, Permission, Text, Told, ToolCall

__all__ = ["End", "JsonLines", "Plain", "Printer", "Session"]

_MARKS = {"completed": "✓", "failed": "✗"}
# Characters of a failed call's reason in a note.
SHOWN_REASON = 200


class Session(Struct, frozen=True, tag="session"):
    """`model` is `provider/model`."""

    session_id: str
    cwd: str
    mode: str
    model: str
    resumed: bool


class End(Struct, frozen=True, tag="end"):
    """`session_id` is None when no session was opened; `text` is the whole reply."""

    session_id: str | None
    stop_reason: str
    exit_status: int
    text: str = ""
    error: str | None = None
    code: str | None = None


class Printer(Protocol):
    def session(self, session: Session) -> None: ...

    def told(self, told: Told) -> None: ...

    def end(self, end: End) -> None: ...


class JsonLines:
    def __init__(self, output: Output) -> None:
        self._output = output

    def session(self, session: Session) -> None:
        self._line(session)

    def told(self, told: Told) -> None:
        self._line(told)

    def end(self, end: End) -> None:
        self._line(end)

    def _line(self, value: Struct) -> None:
        self._output.write_bytes(STDOUT, msgspec.json.encode(value) + b"\n")


class Plain:
    """The reply on stdout; calls, refusals and errors on stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._terminal = os.isatty(STDOUT)
        self._open_line = False
        self._titles: dict[str, str] = {}

    def session(self, session: Session) -> None:
        how = "resumed" if session.resumed else "new"
        self._note(f"session {session.session_id} ({how}), {session.model}, mode {session.mode}")

    def told(self, told: Told) -> None:
        if isinstance(told, Text):
            # Into a file or a pipe the reply goes as it is; only a terminal could be repainted by it.
            self._output.write(STDOUT, visible(told.text) if self._terminal else told.text)
            self._open_line = not told.text.endswith("\n")
        elif isinstance(told, ToolCall):
            self._call(told)
        elif isinstance(told, Notice):
            self._note(visible_line(told.text))
        elif isinstance(told, Permission) and told.outcome == "unavailable":
            title = visible_line(self._titles.get(told.call_id or "", told.tool))
            self._note(f"refused, because nobody could be asked: {title} (see --mode in docs/run.md)")

    def end(self, end: End) -> None:
        self._close_line()
        if end.error is not None:
            self._note(visible_line(end.error))
        elif end.stop_reason not in ("completed", "error"):
            self._note(f"the turn ended early: {end.stop_reason}")

    def _call(self, call: ToolCall) -> None:
        self._close_line()
        self._titles[call.call_id] = call.title
        if call.status in _MARKS:
            reason = f": {call.text[:SHOWN_REASON]}" if call.status == "failed" and call.text else ""
            self._note(visible_line(f"{_MARKS[call.status]} {call.title}{reason}"))

    def _close_line(self) -> None:
        """What comes next begins on a line of its own, on stdout and beside it."""
        if self._open_line:
            self._output.write(STDOUT, "\n")
            self._open_line = False

    def _note(self, text: str) -> None:
        self._output.write(STDERR, f"acp-bridge: {text}\n")

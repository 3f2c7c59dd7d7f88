"""What the demo prints: the editor's side of the conversation.

Owns: the look of updates and questions on a terminal. Must not know: the story, the process.
Invariant: everything from the agent is made visible before it is printed.
"""

from __future__ import annotations

import sys
from typing import Any

from acp_bridge.tools.visible import visible, visible_line

__all__ = ["Screen"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "36"}
_MARKS = {"pending": "…", "in_progress": "▶", "completed": "✓", "failed": "✗"}


class Screen:
    """One editor window as lines of text."""

    def __init__(self) -> None:
        self._color = sys.stdout.isatty()
        self._streaming: str | None = None
        self._titles: dict[str, str] = {}
        self._asked: dict[str, int] = {}

    def chapter(self, text: str) -> None:
        self.say("")
        self.say(self._paint(f"== {text}", "bold"))

    def note(self, text: str) -> None:
        self.say(self._paint(f"   {text}", "dim"))

    def user(self, text: str) -> None:
        self.say(self._paint(f"you   > {text}", "blue"))

    def say(self, text: str) -> None:
        self._end_stream()
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def update(self, update: dict[str, Any]) -> None:
        """Draw one session/update."""
        kind = update["sessionUpdate"]
        if kind == "agent_message_chunk":
            self._stream("agent > ", update["content"]["text"], None)
        elif kind == "agent_thought_chunk":
            self._stream("think > ", update["content"]["text"], "dim")
        elif kind == "user_message_chunk":
            self.user(visible_line(update["content"]["text"]))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)

    def question(self, request: dict[str, Any]) -> None:
        """Draw a permission request: the whole of what would run."""
        call = request["toolCall"]
        self.say(self._paint(f"ask   ? {visible_line(call['title'])}", "yellow"))
        for item in call["content"]:
            self._content(item)
        # A result repeats what was asked before its own text; the screen shows it once.
        self._asked[call["toolCallId"]] = len(call["content"])

    def _tool(self, update: dict[str, Any]) -> None:
        call_id, status = update["toolCallId"], update["status"]
        title = update.get("title") or self._titles.get(call_id, call_id)
        if update["sessionUpdate"] == "tool_call_update" and status == "pending" and title == self._titles.get(call_id):
            return  # the true diff or command came in: the question shows it
        self._titles[call_id] = title
        style = {"completed": "green", "failed": "red"}.get(status)
        self.say(self._paint(f"tool  {_MARKS[status]} {visible_line(title)} ({status})", style))
        if status in ("completed", "failed"):
            for item in update.get("content", ())[self._asked.get(call_id, 0) :]:
                self._content(item)

    def _content(self, item: dict[str, Any]) -> None:
        if item["type"] == "diff":
            self._diff(item["path"], item["oldText"] or "", item["newText"])
            return
        for line in visible(item["content"]["text"]).splitlines():
            self.say(self._paint(f"      | {line}", "dim"))

    def _diff(self, path: str, old: str, new: str) -> None:
        import difflib

        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="", n=1):
            style = {"+": "green", "-": "red"}.get(line[0], "dim")
            self.say(self._paint(f"      | {visible_line(line)}", style))

    def _stream(self, label: str, text: str, style: str | None) -> None:
        if self._streaming != label:
            self._end_stream()
            sys.stdout.write(self._paint(label, style))
            self._streaming = label
        sys.stdout.write(self._paint(visible(text).replace("\n", "\n        "), style))
        sys.stdout.flush()

    def _end_stream(self) -> None:
        if self._streaming is not None:
            sys.stdout.write("\n")
            self._streaming = None

    def _paint(self, text: str, style: str | None) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._color and style else text

"""The durable inbox of an agent (contracts §2.1).

Owns: the two queues and their events. Must not know: turns, prompts, ACP.
Invariant: every change is appended to the log before the in-memory list changes.
"""

from __future__ import annotations

from typing import Literal

from acp_bridge.session.content import Message
from acp_bridge.session.events import InboxSpliced
from acp_bridge.session.fold import inbox_lists
from acp_bridge.session.log import SessionLog

__all__ = ["Inbox", "Target"]

Target = Literal["next-turn", "next-step"]


class Inbox:
    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._lists = inbox_lists(log.events)

    def pending(self, target: Target) -> bool:
        return bool(self._lists[target])

    def send(self, message: Message, target: Target) -> None:
        queue = self._lists[target]
        self._splice(target, len(queue), 0, (message,))

    def claim(self, target: Target) -> tuple[Message, ...]:
        """For a step: all next-step messages; for a turn also the first next-turn message. A pure deletion."""
        claimed = self._take("next-step", len(self._lists["next-step"]))
        if target == "next-turn":
            claimed += self._take("next-turn", 1)
        return claimed

    def clear(self) -> tuple[Message, ...]:
        """Discard everything, next-step first. Returns what was discarded."""
        return self.discard("next-step") + self.discard("next-turn")

    def discard(self, target: Target) -> tuple[Message, ...]:
        return self._take(target, len(self._lists[target]), outcome="canceled")

    def _take(self, target: Target, count: int, *, outcome: Literal["canceled"] | None = None) -> tuple[Message, ...]:
        taken = tuple(self._lists[target][:count])
        if taken:
            self._splice(target, 0, len(taken), (), outcome)
        return taken

    def _splice(
        self,
        target: Target,
        start: int,
        removed: int,
        inserted: tuple[Message, ...],
        outcome: Literal["canceled"] | None = None,
    ) -> None:
        self._log.append(InboxSpliced(target, start, inserted, removed or None, outcome))
        self._lists[target][start : start + removed] = inserted

"""How many tool results each session has had.

Owns: the counts, and when they are noted. Must not know: tools, where notes go.
Invariant: never waits and keeps no session alive: it is asked while the agent works.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.session.events import Event, ToolResult
from acp_bridge.session.session import Session

__all__ = ["Audit", "audited"]


class Audit:
    def __init__(self, diagnostics: Diagnostics, every: int) -> None:
        self._diagnostics = diagnostics
        self._every = every
        self._counts: WeakKeyDictionary[Session, int] = WeakKeyDictionary()

    def hear(self, session: Session, event: Event) -> None:
        if not isinstance(event.data, ToolResult):
            return
        count = self._counts[session] = self.count(session) + 1
        if count % self._every == 0:
            self._note(session, count)

    def count(self, session: Session) -> int:
        return self._counts.get(session, 0)

    def note_all(self) -> None:
        for session, count in self._counts.items():
            self._note(session, count)

    def _note(self, session: Session, count: int) -> None:
        # Numbers and our own ids only: diagnostics hold no text of the model or the user.
        self._diagnostics.note(f"session {session.id}: {count} tool results")


@asynccontextmanager
async def audited(diagnostics: Diagnostics, every: int) -> AsyncIterator[Audit]:
    """The counts so far are noted when the plugin goes."""
    audit = Audit(diagnostics, every)
    try:
        yield audit
    finally:
        audit.note_all()

"""Offers `count_words`, and counts the results of all tools.

Owns: what is attached while the plugin is mounted. Must not know: other plugins. Invariant: everything is attached
through the context, so nothing is left when it is unmounted, fails to load or is cancelled.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.sandbox.paths import PRIVATE_DIRS
from acp_bridge.session.events import Event
from acp_bridge.session.session import Session
from acp_bridge.tools.registry import TOOLS
from acp_bridge_word_count.audit import Audit, audited
from acp_bridge_word_count.count_words import CountWords
from acp_bridge_word_count.settings import WordCountSettings

__all__ = ["WordCount"]


class WordCount:
    name = "word_count"
    needs: tuple[ServiceKey[Any], ...] = (TOOLS, PRIVATE_DIRS)
    Settings = WordCountSettings

    def __init__(self, settings: WordCountSettings) -> None:
        self._settings = settings
        self._audit: Audit | None = None

    async def mount(self, context: Context) -> None:
        self._audit = await context.effect("audit", audited(context.diagnostics, self._settings.note_every))
        tool = CountWords(context.require(PRIVATE_DIRS), self._settings.min_length)
        await context.effect(f"tool {tool.name}", entered(context.require(TOOLS).registered(tool)))

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        # Hooks are heard from before `mount` until after the last undo.
        if self._audit is not None:
            self._audit.hear(session, event)

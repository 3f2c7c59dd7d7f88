"""Session logs as zstd JSON lines under one root directory (design §9; the format: FORMAT.md beside this file).

Owns: the hook implementations and what is attached while mounted. Must not know: frames, files, locks.
Invariant: events reach the write handle of their session or nothing; leaving closes every handle, drained, and
raises what failed. Part of the start path: zstandard is imported with the first bytes to store.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.errors import CheckpointFailed, PluginRejected
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.persistence.persistence import PERSISTENCE
from acp_bridge.session.codec import Vocabulary
from acp_bridge.session.events import Event
from acp_bridge.session.session import Session
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog
from acp_bridge_plugins.persistence_jsonl.disk import LOCAL_DISK, Disk
from acp_bridge_plugins.persistence_jsonl.handle import JsonlHandle
from acp_bridge_plugins.persistence_jsonl.store import JsonlStore

__all__ = ["PersistenceJsonl"]


class PersistenceJsonl:
    """`root` is created when the first session is stored. `editor_name` is asked when a session is claimed."""

    name = "persistence_jsonl"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(
        self,
        root: Path,
        vocabulary: Vocabulary | None = None,
        *,
        editor_name: Callable[[], str | None] = lambda: None,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        self._root = Path(os.path.abspath(root))  # noqa: PTH100  # Path.absolute keeps `..`
        self._vocabulary = vocabulary or Vocabulary()
        self._editor_name = editor_name
        self._disk = disk
        self._handles: dict[str, JsonlHandle] = {}

    async def mount(self, context: Context) -> None:
        """Raises PluginRejected when the root is there but is not a directory."""
        _require_directory(self.name, self._root)
        store = await context.effect("write handles", self._storing(context.diagnostics))
        context.provide(PERSISTENCE, store)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        handle = self._handles.get(session.id)
        if handle is not None:
            handle.admit(event)

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        handle = self._handles.get(session.id)
        if handle is not None:
            await handle.flush()

    @hookimpl
    async def session_pressure(self, session: Session) -> None:
        handle = self._handles.get(session.id)
        if handle is not None:
            try:
                await handle.relieve()
            except OSError as error:
                raise CheckpointFailed(session.id, error.strerror or type(error).__name__) from error

    @asynccontextmanager
    async def _storing(self, diagnostics: Diagnostics) -> AsyncIterator[JsonlStore]:
        failures: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            store = JsonlStore(
                Catalog(self._root, self._vocabulary, diagnostics, self._disk),
                self._vocabulary,
                tasks=tasks,
                diagnostics=diagnostics,
                handles=self._handles,
                editor_name=self._editor_name,
            )
            try:
                yield store
            finally:
                failures = await store.close()
                tasks.cancel_scope.cancel()
        if failures:
            raise ExceptionGroup("some sessions could not be saved to the end", failures)


def _require_directory(plugin: str, root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise PluginRejected(plugin, f"root {root}", "it is not a directory")

"""The `Persistence` of this plugin: handles by session id (contracts §5.1).

Owns: in-process claims, and the set of open handles. Must not know: frames, records, hooks.
Invariant: a claim is taken before the first await and is gone when its handle is closed, or was never made, whatever
failed; at most one handle of a session exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import TaskGroup

from acp_bridge.errors import SessionAlreadyExists, SessionClosed, SessionNotFound
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.persistence.persistence import SessionSnapshot
from acp_bridge.session.codec import FORMAT_VERSION, Vocabulary
from acp_bridge.session.events import Event, Header
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog
from acp_bridge_plugins.persistence_jsonl.handle import JsonlHandle
from acp_bridge_plugins.persistence_jsonl.lock import Holder, this_process
from acp_bridge_plugins.persistence_jsonl.session_file import SessionFile
from acp_bridge_plugins.persistence_jsonl.threads import Threads
from acp_bridge_plugins.persistence_jsonl.window import Clock

__all__ = ["JsonlStore"]


class JsonlStore:
    """`tasks` hosts the background task of each handle; `handles` is filled with the open ones, by session id."""

    def __init__(
        self,
        catalog: Catalog,
        vocabulary: Vocabulary,
        *,
        tasks: TaskGroup,
        diagnostics: Diagnostics,
        handles: dict[str, JsonlHandle],
        editor_name: Callable[[], str | None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._catalog = catalog
        self._vocabulary = vocabulary
        self._tasks = tasks
        self._diagnostics = diagnostics
        self._handles = handles
        self._editor_name = editor_name
        self._clock = clock or Clock()
        self._threads = Threads()
        self._claims: dict[str, Holder] = {}
        self._closed = False

    async def create(self, header: Header) -> JsonlHandle:
        """Raises SessionAlreadyExists; ValueError for an id no directory can carry or a foreign format version."""
        if header.version != FORMAT_VERSION:
            raise ValueError(f"sessions are written in format {FORMAT_VERSION}, not {header.version}")
        place = self._catalog.place(header)
        if header.id in self._claims:
            raise SessionAlreadyExists(header.id)
        with self._claim(header.id) as holder:
            if await self._threads.run(self._catalog.find, header.id) is not None:
                raise SessionAlreadyExists(header.id)
            return self._handle(SessionFile(self._catalog.disk, place, header, self._vocabulary, holder), [])

    async def open(self, session_id: str) -> JsonlHandle:
        with self._claim(session_id) as holder:
            file, events = await self._threads.run(self._open_file, session_id, holder)
            if not file.settled:
                self._diagnostics.note(
                    f"session {session_id} ends in a torn frame; {file.recovered} of its records count"
                )
            return self._handle(file, events)

    async def read(self, session_id: str) -> tuple[Header, list[Event]]:
        handle = self._handles.get(session_id)
        if handle is not None and not handle.published:
            return handle.header, []
        return await self._threads.run(self._catalog.read, session_id)

    async def close(self) -> list[Exception]:
        """Take nothing new, close every handle. Returns what failed; every handle is closed nevertheless."""
        self._closed = True
        failures: list[Exception] = []

        async def close(handle: JsonlHandle) -> None:
            try:
                await handle.close()
            except Exception as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for handle in list(self._handles.values()):
                tasks.start_soon(close, handle)
        return failures

    def _open_file(self, session_id: str, holder: Holder) -> tuple[SessionFile, list[Event]]:
        place = self._catalog.find(session_id)
        if place is None:
            raise SessionNotFound(session_id)
        return SessionFile.open(self._catalog.disk, place, session_id, self._vocabulary, holder)

    def _handle(self, file: SessionFile, events: list[Event]) -> JsonlHandle:
        session_id = file.header.id

        def closed() -> None:
            del self._handles[session_id]
            del self._claims[session_id]

        handle = self._handles[session_id] = JsonlHandle(
            file,
            events,
            vocabulary=self._vocabulary,
            threads=self._threads,
            diagnostics=self._diagnostics,
            clock=self._clock,
            on_closed=closed,
        )
        self._tasks.start_soon(handle.run, name=f"write-behind {session_id}")
        return handle

    @contextmanager
    def _claim(self, session_id: str) -> Iterator[Holder]:
        """Raises SessionAlreadyOwned. Kept when the block succeeds."""
        if self._closed:
            raise SessionClosed(session_id)
        owner = self._claims.get(session_id)
        if owner is not None:
            raise owner.owns(session_id)
        holder = self._claims[session_id] = this_process(self._editor_name())
        try:
            yield holder
        except BaseException:
            del self._claims[session_id]
            raise

    async def list(self) -> list[SessionSnapshot]:
        """Sessions of this instance that are not on disk yet are in it, too; other processes cannot see those."""
        stored = await self._threads.run(self._catalog.snapshots)
        seen = {snapshot.header.id for snapshot in stored}
        new = [handle.header for handle in self._handles.values() if not handle.published]
        return stored + [
            SessionSnapshot(header, "unsaved", header.created_at / 1000, 0) for header in new if header.id not in seen
        ]

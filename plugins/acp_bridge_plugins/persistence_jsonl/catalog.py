"""Which sessions are on disk (contracts §5.4): finding one by id, reading it unowned, listing all.

Owns: walking the root, choosing the generation, checking that a header belongs where it lies. Must not know: locks,
handles. Invariant: never writes; only absence means absent; one unreadable session does not hide the others.
Listing reads the first bytes of each file and remembers them by revision. Runs in worker threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from acp_bridge.errors import LogCorrupt, SessionFormatUnsupported, SessionNotFound
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.persistence.persistence import SessionSnapshot
from acp_bridge.session.codec import Vocabulary
from acp_bridge.session.events import Event, Header
from acp_bridge_plugins.persistence_jsonl.disk import LOCAL_DISK, Disk
from acp_bridge_plugins.persistence_jsonl.files import file_revision, read_committed, read_start
from acp_bridge_plugins.persistence_jsonl.layout import (
    CURRENT,
    GENERATION,
    Place,
    id_segment,
    newest_generation,
    project_segment,
)
from acp_bridge_plugins.persistence_jsonl.records import load_log, read_head

__all__ = ["Catalog", "check_header", "current_log"]

# Header and title are among the first batches; more would make listing cost what the logs weigh.
HEAD_BYTES = 64 * 1024


def current_log(disk: Disk, place: Place) -> Path | None:
    """The file to read, if there is any. Raises SessionFormatUnsupported, naming the file, when it is not ours."""
    return place.log if _readable(place, _names(disk, place.path)) else None


def check_header(place: Place, header: Header, session_id: str | None = None) -> None:
    """The header must lead back to the directory it was found in. Raises LogCorrupt."""
    path = f"{place.path}/{CURRENT.name}"
    if header.id != session_id if session_id is not None else id_segment(header.id) != place.session:
        raise LogCorrupt(path, 0, "the header names another session")
    if place.project == project_segment(header.cwd):
        return
    # A symlinked working directory has two names, and either may have made the directory.
    if header.cwd is None or place.project != project_segment(os.path.realpath(header.cwd)):
        raise LogCorrupt(path, 0, "the header names another working directory than the one it is stored under")


class Catalog:
    def __init__(self, root: Path, vocabulary: Vocabulary, diagnostics: Diagnostics, disk: Disk = LOCAL_DISK) -> None:
        self.disk = disk
        self._root = root
        self._vocabulary = vocabulary
        self._diagnostics = diagnostics
        self._seen: dict[Place, SessionSnapshot] = {}
        self._noted: set[str] = set()

    def place(self, header: Header) -> Place:
        """Where a new session goes. Raises ValueError for an id that no directory can carry."""
        return Place(self._root, project_segment(header.cwd), id_segment(header.id))

    def find(self, session_id: str) -> Place | None:
        """Raises SessionFormatUnsupported when two projects hold the id, OSError."""
        try:
            segment = id_segment(session_id)
        except ValueError:
            return None
        places = [Place(self._root, project, segment) for project in _names(self.disk, self._root)]
        found = [place for place in places if newest_generation(_names(self.disk, place.path))]
        if len(found) > 1:
            raise SessionFormatUnsupported(
                str(found[0].directory), f"the same session is also in {found[1].directory}; move one of them away"
            )
        return found[0] if found else None

    def read(self, session_id: str) -> tuple[Header, list[Event]]:
        """Committed events only: what a torn tail holds may still be taken back by whoever writes.

        Raises SessionNotFound, LogCorrupt, SessionFormatUnsupported, OSError.
        """
        place = self.find(session_id)
        path = current_log(self.disk, place) if place else None
        if place is None or path is None:
            raise SessionNotFound(session_id)
        data, _ = read_committed(self.disk, path)
        loaded = load_log(str(path), data, self._vocabulary, recover=False)
        check_header(place, loaded.header, session_id)
        return loaded.header, loaded.events

    def snapshots(self) -> list[SessionSnapshot]:
        """Raises OSError only when the root itself cannot be read."""
        found = (self._snapshot(place) for place in self._places())
        return [snapshot for snapshot in found if snapshot is not None]

    def _places(self) -> Iterator[Place]:
        for project in _names(self.disk, self._root):
            try:
                sessions = _names(self.disk, self._root / project)
            except OSError as error:
                self._note_once(str(error))
                continue
            for session in sessions:
                yield Place(self._root, project, session)

    def _snapshot(self, place: Place) -> SessionSnapshot | None:
        try:
            name = _readable(place, _names(self.disk, place.path))
            if name is None:
                return None
            path = f"{place.path}/{name}"
            known = self._seen.get(place)
            if known is None or known.revision != file_revision(self.disk.stat(path)):
                known = self._seen[place] = self._look(place, path)
        except (OSError, LogCorrupt, SessionFormatUnsupported) as error:
            self._note_once(str(error))
            return None
        return known

    def _look(self, place: Place, path: str) -> SessionSnapshot:
        head, found = read_start(self.disk, path, HEAD_BYTES)
        header, title = read_head(path, head, self._vocabulary)
        check_header(place, header)
        return SessionSnapshot(header, file_revision(found), found.st_mtime, found.st_size, title)

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._diagnostics.note(f"left out of the list of sessions: {text}")


def _readable(place: Place, names: Iterable[str]) -> str | None:
    newest = newest_generation(names)
    if newest is None or newest == CURRENT:
        return newest.name if newest else None
    path = f"{place.path}/{newest.name}"
    if newest.number > GENERATION:
        raise SessionFormatUnsupported(path, "written by a newer acp-bridge; upgrade to open it")
    if newest.number < GENERATION:
        raise SessionFormatUnsupported(path, f"format {newest.number} cannot be opened by this version")
    raise SessionFormatUnsupported(path, "an uncompressed log, in a store of compressed ones")


def _names(disk: Disk, directory: str | Path) -> list[str]:
    try:
        return disk.names(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []

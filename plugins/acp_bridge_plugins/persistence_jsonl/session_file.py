"""One session's file while we own it: publish once, then append batches (contracts §5.7, §5.8).

Owns: the steps between "events were accepted" and "they are durable", torn-tail commit included, and the lock.
Must not know: the event loop, write-behind. Invariant: each step is durable before the next, and after a failure
the same call can be made again: it goes on with the step that failed. Runs in worker threads, one call at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from acp_bridge.errors import SessionNotFound
from acp_bridge.session.codec import Vocabulary, encode_header
from acp_bridge.session.events import Event, Header
from acp_bridge_plugins.persistence_jsonl.catalog import check_header, current_log
from acp_bridge_plugins.persistence_jsonl.disk import Disk
from acp_bridge_plugins.persistence_jsonl.files import AppendFile, make_directory, publish, read_committed
from acp_bridge_plugins.persistence_jsonl.frames import frame_encoder
from acp_bridge_plugins.persistence_jsonl.layout import Place
from acp_bridge_plugins.persistence_jsonl.lock import Holder, SessionLock
from acp_bridge_plugins.persistence_jsonl.records import load_log

__all__ = ["SessionFile"]


class SessionFile:
    """`published` says that the file exists; `settled` that it also has no torn tail left to commit.

    `recovered` counts the records of a torn tail that are kept and not rewritten yet.
    """

    def __init__(self, disk: Disk, place: Place, header: Header, vocabulary: Vocabulary, holder: Holder) -> None:
        self.header = header
        self._disk = disk
        self._place = place
        self._vocabulary = vocabulary
        self._holder = holder
        self._lock: SessionLock | None = None
        self._file: AppendFile | None = None
        self._recovered: list[bytes] = []

    @classmethod
    def open(
        cls, disk: Disk, place: Place, session_id: str, vocabulary: Vocabulary, holder: Holder
    ) -> tuple[SessionFile, list[Event]]:
        """Own an existing session: lock first, then read. Nothing is written yet, a torn tail included.

        Raises SessionNotFound, SessionAlreadyOwned, LogCorrupt, SessionFormatUnsupported, OSError; the lock is then
        free again.
        """
        lock = SessionLock.acquire(disk, place.lock, session_id, holder)
        try:
            path = current_log(disk, place)
            if path is None:
                raise SessionNotFound(session_id)
            data, found = read_committed(disk, path)
            loaded = load_log(str(path), data, vocabulary, recover=True)
            check_header(place, loaded.header, session_id)
        except BaseException:
            lock.release()
            raise
        self = cls(disk, place, loaded.header, vocabulary, holder)
        self._lock = lock
        self._recovered = loaded.recovered
        self._file = AppendFile(disk, path, found, loaded.committed, loaded.last_frame, excess=loaded.torn)
        return self, loaded.events

    @property
    def published(self) -> bool:
        return self._file is not None

    @property
    def settled(self) -> bool:
        return self._file is not None and not self._file.excess and not self._recovered

    @property
    def recovered(self) -> int:
        return len(self._recovered)

    def store(self, lines: Sequence[bytes]) -> None:
        """Make the records durable as one batch; with none, make durable what the file still owes.

        Raises OSError, SessionAlreadyOwned, or an ExceptionGroup when a rollback failed; nothing of the batch counts.
        """
        if self._file is None:
            self._publish(lines)
            return
        self._file.cut_excess()
        if self._recovered:
            self._file.append(self._encode(b"".join(self._recovered)))
            self._recovered = []
        if lines:
            self._file.append(self._encode(b"".join(lines)))

    def read_back(self) -> list[Event]:
        """What is stored, and the recovered records that are not rewritten yet. Raises like `open`."""
        if self._file is None:
            return []
        data, _ = read_committed(self._disk, self._place.log)
        # What a failed rollback left behind them is not stored, and is in front of the queue again.
        committed = data[: self._file.committed]
        events = load_log(str(self._place.log), committed, self._vocabulary, recover=False).events
        return events + [self._vocabulary.decode_event(line) for line in self._recovered]

    def close(self) -> None:
        """Let the lock go, whatever else fails."""
        try:
            if self._file is not None:
                self._file.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    @cached_property
    def _encode(self) -> Callable[[bytes], bytes]:
        return frame_encoder()

    def _publish(self, lines: Sequence[bytes]) -> None:
        place = self._place
        made = make_directory(self._disk, place.directory)
        self._hold_lock()
        head = self._encode(encode_header(self.header))
        body = self._encode(b"".join(lines)) if lines else b""
        # Every entry on the way to the file, and the parents of directories that did not exist before.
        entries = dict.fromkeys([place.directory, place.directory.parent, place.root, *(path.parent for path in made)])
        found = publish(self._disk, place.log, head + body, entries)
        last_frame = len(head) if body else 0
        self._file = AppendFile(self._disk, place.log, found, len(head) + len(body), last_frame)

    def _hold_lock(self) -> None:
        """Right before the first bytes: a session that is never stored leaves no trace."""
        if self._lock is not None and not self._lock.is_current():
            self._lock.release()
            self._lock = None
        if self._lock is None:
            self._lock = SessionLock.acquire(self._disk, self._place.lock, self.header.id, self._holder)

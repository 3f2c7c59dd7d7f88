"""A live session and the store of live sessions (contracts §1.11).

Owns: identity (id, header, log), publishing events to hooks, and `flush`. Must not know: which plugin stores.
Invariant: `flush` returns only when every listener has made the log durable, or raises; a session that is not
in the store cannot be flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from acp_bridge import hookspecs
from acp_bridge.errors import BridgeError, CheckpointFailed, SessionAlreadyExists, SessionClosed
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.session.events import Event, Header
from acp_bridge.session.log import SessionLog, now_ms

__all__ = ["Session", "SessionStore"]


class Session:
    """`roots` are the absolute directories of the session, the first one its cwd."""

    """`hooks` reach whoever listens to every session, and whoever was mounted for this one."""

    def __init__(self, log: SessionLog, roots: tuple[str, ...], hooks: Hooks) -> None:
        self.log = log
        self.roots = roots
        self.hooks = hooks

    @property
    def id(self) -> str:
        return self.log.header.id

    @property
    def cwd(self) -> str:
        return self.roots[0]


class SessionStore:
    def __init__(self, hooks: Hooks, *, clock: Callable[[], int] = now_ms) -> None:
        self._hooks = hooks
        self._clock = clock
        self._live: dict[str, Session] = {}

    @contextmanager
    def entered(self, header: Header, roots: tuple[str, ...], events: Iterable[Event] = ()) -> Iterator[Session]:
        """Publish a session over `events` until the context is left. Its appends reach `session_event`.

        Raises SessionAlreadyExists for an id that is live: events of two logs must never mix.
        """
        if header.id in self._live:
            raise SessionAlreadyExists(header.id)

        def publish(event: Event) -> None:
            hooks.emit(hookspecs.session_event, session, event)

        hooks = self._hooks.of(header.id)
        session = Session(SessionLog(header, events, observer=publish, clock=self._clock), roots, hooks)
        self._live[session.id] = session
        try:
            yield session
        finally:
            del self._live[session.id]

    def get(self, session_id: str) -> Session | None:
        return self._live.get(session_id)

    async def flush(self, session: Session) -> bool:
        """Make the log durable. Returns whether anybody stores it. Raises CheckpointFailed or SessionClosed."""
        if self._live.get(session.id) is not session:
            raise SessionClosed(session.id)
        try:
            return await session.hooks.parallel(hookspecs.session_flush, session) > 0
        except BridgeError:
            raise
        except Exception as error:
            raise CheckpointFailed(session.id, _reason(error)) from error


def _reason(error: Exception) -> str:
    """Why, in a few words, whatever the storage raised."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    named = isinstance(error, OSError) and error.strerror
    return named or type(error).__name__

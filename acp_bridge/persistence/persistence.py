"""The persistence seam: durable session logs behind handles (contracts §5.1).

Owns: the Protocols and what each method promises. Must not know: files, frames, locks.
Invariant: `flush` is the one durability promise; a handle opened for writing is the only writer of its session,
in this process and in every other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from acp_bridge.lifecycle.kernel import ServiceKey
from acp_bridge.session.events import Event, Header

__all__ = ["PERSISTENCE", "Persistence", "SessionSnapshot", "WriteHandle"]


class SessionSnapshot(Struct, frozen=True):
    """`revision` is opaque: equal means unchanged. `updated_at` is epoch seconds."""

    header: Header
    revision: str
    updated_at: float
    size_bytes: int | None = None
    title: str | None = None


class WriteHandle(Protocol):
    """Owns its session until closed. Live events reach it through `session_event` by session id."""

    @property
    def header(self) -> Header: ...

    async def read(self) -> list[Event]:
        """Every event stored or appended so far. Raises LogCorrupt, SessionFormatUnsupported, SessionClosed."""

    async def append(self, events: Sequence[Event]) -> None:
        """Durable on return. The first seq must be the next one. Raises OSError with nothing of the batch stored,
        ValueError naming expected and actual seq, SessionClosed."""

    async def flush(self) -> None:
        """Drain what is buffered; everything is durable on return, an empty session's header included.
        Raises OSError; the batch is then kept, in front of later events."""

    async def close(self) -> None:
        """Idempotent. Drains, then releases ownership even if draining failed; the failure is raised."""


class Persistence(Protocol):
    async def create(self, header: Header) -> WriteHandle:
        """Writes nothing yet. Raises SessionAlreadyExists; ValueError for an id or a version it cannot store."""

    async def open(self, session_id: str) -> WriteHandle:
        """Claim the single-writer right, then read. Raises SessionNotFound, SessionAlreadyOwned, LogCorrupt,
        SessionFormatUnsupported; a failed open releases its claim."""

    async def read(self, session_id: str) -> tuple[Header, list[Event]]:
        """Read without owning, also while another process writes. Never writes. Raises like `open`.

        Committed events only; what a torn tail still holds is for the owner, who may yet take it back.
        """

    async def list(self) -> list[SessionSnapshot]:
        """All sessions, in no promised order, from headers alone. An unreadable one does not hide the others.

        Sessions created here that are not stored yet are among them.
        """


PERSISTENCE = ServiceKey[Persistence]("persistence")

"""The abort signal of one turn.

Owns: whether and why a turn is being aborted. Must not know: who waits on it.
Invariant: a passive flag; the first cause wins and is read from here, never from an exception. Work that may be
dropped at once (a model stream, a permission question) runs inside `cancels()`; tool bodies look and finish.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from acp_bridge.session.events import AbortReason

__all__ = ["Signal"]


class Signal:
    def __init__(self) -> None:
        self.cause: AbortReason | None = None
        self._scopes: list[anyio.CancelScope] = []
        self._event = anyio.Event()

    @property
    def aborted(self) -> bool:
        return self.cause is not None

    def abort(self, cause: AbortReason) -> None:
        """First cause wins; later ones are ignored."""
        if self.cause is not None:
            return
        self.cause = cause
        self._event.set()
        for scope in self._scopes:
            scope.cancel()

    async def wait(self) -> None:
        await self._event.wait()

    @contextmanager
    def cancels(self) -> Iterator[anyio.CancelScope]:
        """A scope that is cancelled when the signal is. After it, look at `aborted`."""
        with anyio.CancelScope() as scope:
            if self.aborted:
                scope.cancel()
            self._scopes.append(scope)
            try:
                yield scope
            finally:
                self._scopes.remove(scope)

"""Parts that write down when they come and go, for tests of scopes and effects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

__all__ = ["Journal", "Make"]

Make = Callable[[], AbstractAsyncContextManager[str]]


class Journal(list[str]):
    """What happened, in order."""

    @asynccontextmanager
    async def part(
        self,
        name: str,
        *,
        entering: anyio.Event | None = None,
        leaving: anyio.Event | None = None,
        deaf: bool = False,
        fails_entering: BaseException | None = None,
        fails_leaving: BaseException | None = None,
    ) -> AsyncIterator[str]:
        """Entering and leaving wait for their event; `deaf` entering takes no notice of a cancellation."""
        self.append(f"{name} enters")
        if entering is not None:
            with anyio.CancelScope(shield=deaf):
                await entering.wait()
        if fails_entering is not None:
            raise fails_entering
        self.append(f"{name} entered")
        try:
            yield name
        finally:
            self.append(f"{name} leaves")
            if leaving is not None:
                await leaving.wait()
            # A real undo awaits; under a cancelled scope it would end here.
            await anyio.lowlevel.checkpoint()
            if fails_leaving is not None:
                raise fails_leaving
            self.append(f"{name} left")

    def make(self, name: str, **options: object) -> tuple[str, Make]:
        """A part for `Scope.composite`."""
        return name, lambda: self.part(name, **options)  # type: ignore[arg-type]  # as `part` takes them

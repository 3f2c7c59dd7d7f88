"""The answer that one prompt is owed.

Owns: waiting for a turn's ending. Must not know: stop reasons, ACP. Invariant: settled exactly once.
"""

from __future__ import annotations

import anyio

from acp_bridge.session.events import TurnEndReason

__all__ = ["Ticket"]


class Ticket:
    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._settled = anyio.Event()
        self._reason: TurnEndReason | None = None

    def settle(self, reason: TurnEndReason) -> None:
        self._reason = reason
        self._settled.set()

    async def ending(self) -> TurnEndReason:
        """Wait for the turn's end, its final flush included."""
        await self._settled.wait()
        if self._reason is None:
            raise RuntimeError("a ticket was settled without a reason")
        return self._reason

"""The three durability barriers (design §8, contracts §4).

Owns: which flush must succeed before what. Must not know: how a flush is done, or by whom.
Invariant: stateless and fail closed. A rejected flush means the step, the model request or the tool body does not
happen; a flush under way is always awaited to its end, and the abort signal is looked at again after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel

from acp_bridge.agent.hooks import PreStep, StepEntry
from acp_bridge.errors import BridgeError
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.llm.model import ModelCall
from acp_bridge.session.chunks import Chunk
from acp_bridge.session.session import Session, SessionStore
from acp_bridge.tools.outcomes import aborted_before_dispatch, failed
from acp_bridge.tools.tool import Execution, ToolOutcome

__all__ = ["CheckpointPolicy"]


class CheckpointPolicy:
    name = "checkpoint_policy"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    async def agent_pre_step(self, step: PreStep, next: Next[StepEntry]) -> StepEntry:
        await self._flush(step.session)
        return await next()

    @hookimpl
    async def llm_stream(self, call: ModelCall, next: Next[AsyncIterator[Chunk]]) -> AsyncIterator[Chunk]:
        if call.session is None or self._store.get(call.session.id) is not call.session:
            return await next()
        return self._checkpointed(call.session, next)

    @hookimpl
    async def tools_execute(self, execution: Execution, next: Next[ToolOutcome]) -> ToolOutcome:
        if execution.parent is not None:
            return await next()
        try:
            await self._flush(execution.session)
        except BridgeError as error:
            return failed(str(error))
        if execution.signal.aborted:
            return aborted_before_dispatch()
        return await next()

    async def _checkpointed(self, session: Session, next: Next[AsyncIterator[Chunk]]) -> AsyncIterator[Chunk]:
        # Lazy: a stream that nobody consumes reaches no provider, so it needs no flush.
        await self._flush(session)
        # An abort during the flush is seen here, not at the adapter's first wait, when the request may be out.
        await anyio.lowlevel.checkpoint_if_cancelled()
        stream = await next()
        async with aclosing(stream) as chunks:  # type: ignore[type-var]  # streams are async generators by the seam
            async for chunk in chunks:
                yield chunk

    async def _flush(self, session: Session) -> None:
        with anyio.CancelScope(shield=True):
            await self._store.flush(session)

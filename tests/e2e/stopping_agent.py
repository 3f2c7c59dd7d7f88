"""The real agent with stopping points: a session that reaches its point says so in a marker file and goes no further.

A program of its own, started instead of `acp-bridge`. A session stops where the file `stop` in its folder says; it
then writes the point into the file `marker` beside it. Points are `step N` and `request N` (before the Nth model
request of the session), `call ID` and `done ID` (before and after a tool's body). All lie right inside the
checkpoint policy, so whatever a barrier promises is durable there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge_composition import main, order

__all__ = ["STOPPING_AGENT"]

STOPPING_AGENT = [sys.executable, __file__]


class StopWhereTold:
    name = "stop_where_told"
    needs: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    async def mount(self, context: Any) -> None:
        """Hooks only."""

    async def _reach(self, session: Any, point: str) -> None:
        folder = Path(session.cwd)
        if (folder / "stop").exists() and (folder / "stop").read_text() == point:
            (folder / "marker").write_text(point)
            with anyio.CancelScope(shield=True):
                await anyio.sleep_forever()

    def _next(self, session: Any, what: str) -> str:
        self._counts[session.id, what] += 1
        return f"{what} {self._counts[session.id, what]}"

    @hookimpl
    async def agent_pre_step(self, step: Any, next: Callable[[], Awaitable[Any]]) -> Any:
        await self._reach(step.session, self._next(step.session, "step"))
        return await next()

    @hookimpl
    async def llm_stream(self, call: Any, next: Callable[[], Awaitable[AsyncIterator[Any]]]) -> AsyncIterator[Any]:
        await self._reach(call.session, self._next(call.session, "request"))
        return await next()

    @hookimpl
    async def tools_execute(self, execution: Any, next: Callable[[], Awaitable[Any]]) -> Any:
        await self._reach(execution.session, f"call {execution.call_id}")
        outcome = await next()
        await self._reach(execution.session, f"done {execution.call_id}")
        return outcome


def run() -> None:
    """Mount the stopping points right inside the checkpoint policy, then be the agent."""
    table = list(order.DURABLE_ORDER)
    place = [entry.name for entry in table].index("checkpoint_policy") + 1
    table.insert(place, order.Entry(StopWhereTold.name, "for the test", lambda shop, own: StopWhereTold()))
    order.DURABLE_ORDER = tuple(table)
    main.main()


if __name__ == "__main__":
    run()

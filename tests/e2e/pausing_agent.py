"""The real agent that pauses between two calls: before the call whose id is in the session's file `pause`.

A program of its own, started instead of `acp-bridge`. The paused agent writes the id into `marker` and goes on when
`go` exists. It pauses in the policy hook, so the call before has ended and the paused one has not been asked about.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge_composition import main, order

__all__ = ["PAUSING_AGENT"]

PAUSING_AGENT = [sys.executable, __file__]
POLL_S = 0.005


class Pausing:
    name = "pausing"
    needs: tuple[Any, ...] = ()

    async def mount(self, context: Any) -> None:
        """Hooks only."""

    @hookimpl
    async def tools_pre_execute(self, execution: Any, next: Callable[[], Awaitable[Any]]) -> Any:
        folder = Path(execution.session.cwd)
        pause = folder / "pause"
        if pause.exists() and pause.read_text() == execution.call_id:
            (folder / "marker").write_text(execution.call_id)
            while not (folder / "go").exists():
                await anyio.sleep(POLL_S)
        return await next()


if __name__ == "__main__":
    order.PLUGINS = (order.Entry(Pausing.name, "for the test", lambda shop, own: Pausing()), *order.PLUGINS)
    main.main()

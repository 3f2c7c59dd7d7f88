"""The kernel's own costs: unloading a tree in which nothing blocks, and calling a hook that nobody listens to."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from acp_bridge import hookspecs
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.lifecycle.scope import Scope, open_scope

EFFECTS, ROUNDS, CALLS = 200, 7, 200_000


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


async def unloading() -> float:
    """Median seconds to unload 200 effects: ten scopes of twenty."""
    figures = []
    for _ in range(ROUNDS):
        async with open_scope("root") as root:
            for number in range(EFFECTS // 20):
                await _filled(await root.child(f"scope {number}"))
            begun = time.perf_counter()
            await root.dispose()
            figures.append(time.perf_counter() - begun)
    return statistics.median(figures)


async def _filled(scope: Scope) -> None:
    for number in range(19):
        await scope.effect(f"effect {number}", _nothing())


def unheard() -> tuple[float, float]:
    """Seconds for each call of a hook without listeners, through one session's view; and of an empty function."""
    hooks = Kernel(hookspecs, Silent()).hooks.of("session")
    emit, spec = hooks.emit, hookspecs.session_event
    return _each(lambda: emit(spec, None, None)), _each(lambda: None)  # type: ignore[arg-type]  # nobody looks at them


def _each(call: object) -> float:
    assert callable(call)
    figures = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        figures.append((time.perf_counter() - begun) / CALLS)
    return min(figures)

"""A plugin's whole life, again and again, with something going wrong at each of its steps.

Owns: the lives a plugin is led through and what counts as wrong. Must not know: any plugin.
Invariant: each life is led in a fresh kernel, event loop and thread, so that a plugin which blocks, or shields itself
from every cancellation, is reported as one that hangs and cannot hang the check.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct

from acp_bridge.errors import UndoTimedOut
from acp_bridge.lifecycle.kernel import Kernel, Mount, Plugin, ServiceKey
from acp_bridge.lifecycle.states import State
from acp_bridge.llm.model import MODELS, Models
from acp_bridge.sandbox.paths import PRIVATE_DIRS
from acp_bridge.testing.leaks import Findings
from acp_bridge.testing.remains import Attached, CheckedKernel, attached
from acp_bridge.testing.steps import How, Injected, Steps
from acp_bridge.tools.registry import TOOLS, Tools

__all__ = ["check_plugin"]

ServiceMap = Mapping[ServiceKey[Any], object]
Use = Callable[[Kernel], Awaitable[object]]
HOWS: tuple[How, ...] = ("fails", "is cancelled")


async def check_plugin(
    make: Callable[[], Plugin],
    *,
    services: ServiceMap | None = None,
    use: Use | None = None,
    undo_seconds: float = 1.0,
    seconds: float = 10.0,
) -> None:
    """Raises PluginLeaks, naming all that the plugin leaves behind and each step at which it does.

    It is loaded, unloaded and loaded again; loses and regains each service that it needs; and fails, or is cancelled,
    at each step. After each of these nothing of it may be left: tasks, descriptors, listeners, services, entries in
    the registries that it was given. `make` gives a new plugin for every life. `services` are what it needs; an empty
    registry of tools, one of models, and no private directories are there without being given. `use` is awaited while
    it is loaded. `undo_seconds` bounds the undo of each effect, `seconds` one life.

    Lives are led in threads with event loops of their own: services must not be bound to the caller's loop.
    Descriptors are looked at for the whole process, so nothing else may open some meanwhile.
    """
    options = _Options(make, services or {}, use, undo_seconds, seconds)
    plugin, findings = make(), Findings()
    await _lead(_Life(options, findings, Steps()), _Life.twice)
    for key in plugin.needs:
        if not findings.fatal:
            await _lead(_Life(options, findings, Steps()), partial(_Life.without, key=key))
    for how in HOWS:
        await _injected(options, findings, how)
    findings.raise_if_any(plugin.name)


class _Options(Struct, frozen=True):
    make: Callable[[], Plugin]
    services: ServiceMap
    use: Use | None
    undo_seconds: float
    seconds: float


async def _injected(options: _Options, findings: Findings, how: How) -> None:
    at = 1
    while not findings.fatal:
        steps = Steps(at, how)
        await _lead(_Life(options, findings, steps), _Life.interrupted)
        if steps.hit is None:
            return
        at += 1


async def _lead(life: _Life, course: Callable[[_Life], Awaitable[None]]) -> None:
    """In a thread of its own, which is left behind if it does not come to an end. Raises what `make` raises."""
    options = life.options

    def run() -> None:
        try:
            anyio.run(life.begin, course)
        except BaseException as error:
            life.broken = error

    # A daemon: the interpreter's exit must not wait for it.
    thread = threading.Thread(target=run, name="Thread-0 (check_plugin)", daemon=True)
    thread.start()
    bound = options.seconds + 2 * options.undo_seconds + 1
    await anyio.to_thread.run_sync(thread.join, bound, abandon_on_cancel=True)
    if thread.is_alive():
        life.hangs()
    elif life.broken is not None:
        raise life.broken


class _Life:
    """One plugin in one kernel. `when` says what is being done to it."""

    def __init__(self, options: _Options, findings: Findings, steps: Steps) -> None:
        self.options = options
        self.broken: BaseException | None = None
        self._findings = findings
        self._steps = steps
        self._when = "it was loaded and unloaded"

    async def begin(self, course: Callable[[_Life], Awaitable[None]]) -> None:
        self._plugin = self.options.make()
        self._services = _needed(self._plugin, self.options.services)
        self._kernel = CheckedKernel(self._steps)
        with anyio.move_on_after(self.options.seconds) as patience:
            await course(self)
        if patience.cancelled_caught:
            self.hangs()

    def hangs(self) -> None:
        self._findings.add(f"it hangs where {self._steps.last}", self._now(), fatal=True)

    async def twice(self) -> None:
        before = await self._attached()
        for self._when in ("it was loaded and unloaded", "it was loaded and unloaded a second time"):
            await self._once()
            before = await self._compare(before)

    async def interrupted(self) -> None:
        """Fail or be cancelled at a step. One that was cancelled has to be loadable again: its needs may come back."""
        before = await self._attached()
        with anyio.CancelScope() as outside:
            self._steps.cancel = outside.cancel
            await self._once()
        hit = self._steps.hit
        if hit is None:
            return
        self._when = _circumstances(self._steps.how, hit)
        before = await self._compare(before)
        if self._steps.how == "is cancelled":
            self._steps.at = 0
            self._when += ", and loaded once more"
            await self._once()
            await self._compare(before)

    async def without(self, key: ServiceKey[Any]) -> None:
        """Load with all services, lose one, get it back."""
        self._when = f"the service {key.name!r} was withdrawn"
        one = {key: self._services[key]}
        others = {other: service for other, service in self._services.items() if other is not key}
        before = await self._attached()
        try:
            async with self._provided(others), self._mounted(vital=False) as mount:
                waiting = await self._attached()
                await self._loaded(one, mount)
                await self._compare(waiting)
                self._when = f"the service {key.name!r} was withdrawn and came back"
                if mount.state is not State.FAILED:
                    await self._loaded(one, mount)
        except (Exception, BaseExceptionGroup) as error:
            self._raised(error)
        await self._compare(before)

    async def _loaded(self, services: ServiceMap, mount: Mount) -> None:
        async with self._provided(services):
            while mount.state not in (State.ACTIVE, State.FAILED):
                await anyio.lowlevel.checkpoint()
            if mount.state is State.ACTIVE:
                await self._used()
        if mount.failure is not None:
            self._raised(mount.failure)

    async def _once(self) -> None:
        loaded = False
        try:
            async with self._provided(self._services), self._mounted(vital=True):
                loaded = True
                self._steps.point("it is loaded")
                await self._used()
        except (Exception, BaseExceptionGroup) as error:
            self._raised(error, fatal=not loaded and self._steps.hit is None)

    async def _used(self) -> None:
        if self.options.use is not None:
            await self.options.use(self._kernel)

    def _mounted(self, *, vital: bool) -> Any:
        return self._kernel.mounted(self._plugin, vital=vital, undo_seconds=self.options.undo_seconds)

    @asynccontextmanager
    async def _provided(self, services: ServiceMap) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for key, service in services.items():
                await stack.enter_async_context(self._kernel.providing(key, service, "check_plugin"))
            yield

    def _raised(self, error: BaseException, *, fatal: bool = False) -> None:
        for leaf in _leaves(error):
            if not _is_injected(leaf):
                what = f"it raised {type(leaf).__name__}: {leaf}"
                self._findings.add(what, self._now(), fatal=fatal or isinstance(leaf, UndoTimedOut))

    def _now(self) -> str:
        """Of a life that was interrupted and is not led once more yet, the interruption."""
        hit = self._steps.hit if self._steps.at else None
        return self._when if hit is None else _circumstances(self._steps.how, hit)

    async def _attached(self) -> Attached:
        # Tasks that have been told to end, and are about to, are no leak.
        await anyio.wait_all_tasks_blocked()
        return attached(self._kernel, self._services)

    async def _compare(self, before: Attached) -> Attached:
        """What is attached now, so that nothing is told twice."""
        now = await self._attached()
        for what in now - before:
            self._findings.add(what, self._when)
        return now


def _needed(plugin: Plugin, given: ServiceMap) -> dict[ServiceKey[Any], object]:
    usual: dict[ServiceKey[Any], object] = {TOOLS: Tools(), MODELS: Models(), PRIVATE_DIRS: ()}
    missing = [key.name for key in plugin.needs if key not in given and key not in usual]
    if missing:
        raise ValueError(f"{plugin.name!r} needs {', '.join(missing)}: pass it to check_plugin as services={{...}}")
    return {**{key: usual[key] for key in plugin.needs if key in usual}, **given}


def _circumstances(how: How, where: str) -> str:
    return f"a failure where {where}" if how == "fails" else f"a cancellation where {where}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _is_injected(error: BaseException | None) -> bool:
    """Also what a plugin made of it, saying so with `from`."""
    while error is not None and not isinstance(error, Injected):
        error = error.__cause__
    return error is not None

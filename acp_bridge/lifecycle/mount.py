"""One mounted plugin, from waiting for what it needs to being gone (design §4; contracts §10.1, §10.5).

Owns: the plugin's state and its lives: each loads it into a scope of its own, and ends when a need goes or the mount
is released. Must not know: any plugin, where the scope hangs in the tree.
Invariant: what a life provides is withdrawn, and all who live on it have gone, before its own effects are undone; its
hooks go last. A life that was given up, failed or was cancelled at any await leaves nothing attached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Protocol, runtime_checkable

import anyio
from anyio.abc import TaskStatus

from acp_bridge.lifecycle.context import Context
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.scope import Node, Scope, open_scope
from acp_bridge.lifecycle.services import ServiceKey, Services
from acp_bridge.lifecycle.states import State, advance

__all__ = ["Mount", "Plugin", "Reconfigurable"]


@runtime_checkable
class Plugin(Protocol):
    """One folder, one plugin. Its `@hookimpl` methods are registered before `mount` is called."""

    name: str
    needs: tuple[ServiceKey[Any], ...]

    async def mount(self, context: Context) -> None:
        """Attach everything through `context`. Raising unwinds what was attached.

        Called again, after everything was undone, when a service that it needs comes back.
        """


@runtime_checkable
class Reconfigurable(Protocol):
    """A plugin that can take other settings while it stays mounted."""

    def reconfigure(self, settings: Any) -> None:
        """Called only while no turn runs, with a value of the plugin's own settings type."""


class Mount:
    """`vital`: its needs must be there already, and its failure is the tree's. Else it waits, and fails alone."""

    def __init__(
        self,
        name: str,
        plugin: Plugin,
        services: Services,
        hooked: Callable[[], AbstractContextManager[None]],
        context: Callable[[Scope], Context],
        diagnostics: Diagnostics,
        *,
        vital: bool,
        undo_seconds: float,
    ) -> None:
        self.name = name
        self.plugin = plugin
        self.vital = vital
        self.state = State.PENDING
        self.failure: BaseException | None = None
        self._services = services
        self._hooked = hooked
        self._context = context
        self._diagnostics = diagnostics
        self._undo_seconds = undo_seconds
        self._scope: Scope | None = None
        self._loading = anyio.CancelScope()
        self._released = anyio.Event()
        self._ending = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._settled: Callable[[], None] = lambda: None

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The names of the services without which it cannot load."""
        return tuple(key.name for key in self._services.missing(self.plugin.needs))

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Mount]:
        """Entered once it has loaded, or waits. Raises what its first loading raised."""
        raised: BaseException | None = None
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    await tasks.start(self._lives)
                    yield self
                finally:
                    self._release()
                    with anyio.CancelScope(shield=True):
                        await self._idle.wait()
        except BaseExceptionGroup as group:
            if len(group.exceptions) != 1:
                raise
            raised = group.exceptions[0]
        if raised is not None:
            raise raised

    async def give_up(self) -> None:
        """A need goes: unload, and wait until nothing is left."""
        self._end()
        await self._idle.wait()

    def describe(self) -> Node:
        children = self._scope.describe().children if self._scope is not None else ()
        return Node(self.name, self.state.value, children)

    def _release(self) -> None:
        self._released.set()
        self._end()

    def _end(self) -> None:
        self._ending.set()
        if self.state is State.LOADING:
            self._loading.cancel()

    async def _lives(self, *, task_status: TaskStatus[None]) -> None:
        waited = False

        def settled() -> None:
            nonlocal waited
            if not waited:
                waited = True
                task_status.started()

        self._settled = settled
        while not self._released.is_set():
            if self._services.missing(self.plugin.needs):
                if self.vital:
                    self._services.require(self._services.missing(self.plugin.needs)[0], self.name)
                settled()
                await self._something_new()
                continue
            try:
                await self._life()
            except Exception as error:
                # Released, it is the undo that failed, and whoever released it is told.
                if self.vital or not waited or self._released.is_set():
                    raise
                self._fail(error)
                await self._released.wait()
        self._move(State.DISPOSED)

    async def _something_new(self) -> None:
        async with anyio.create_task_group() as tasks:

            async def released() -> None:
                await self._released.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(released)
            await self._services.changed()
            tasks.cancel_scope.cancel()

    async def _life(self) -> None:
        self._loading, self._ending, self._idle = anyio.CancelScope(), anyio.Event(), anyio.Event()
        self._move(State.LOADING)
        try:
            with self._services.used(self.plugin.needs, self), self._loading:
                await self._loaded()
        except BaseException:
            self._move(State.FAILED)
            raise
        else:
            self._move(State.PENDING)
        finally:
            self._scope = None
            self._idle.set()

    async def _loaded(self) -> None:
        with self._hooked():
            async with open_scope(self.name, undo_seconds=self._undo_seconds) as scope:
                self._scope = scope
                context = self._context(scope)
                await self.plugin.mount(context)
                self._services.publish(context.provided, self.name)
                try:
                    # Loading may have been given up without an await that could be cancelled.
                    if not self._ending.is_set():
                        self._move(State.ACTIVE)
                        self._settled()
                        await self._ending.wait()
                        self._move(State.UNLOADING)
                finally:
                    await self._services.withdraw(context.provided)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._diagnostics.failure(f"the plugin {self.name} failed", error)

    def _move(self, target: State) -> None:
        self.state = advance(self.name, self.state, target)

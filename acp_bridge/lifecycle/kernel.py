"""The kernel: mounts plugins into scopes and hands services from providers to consumers.

Owns: the plugin shape, service keys, and what a plugin may reach (its `Context`). Must not know any plugin.
Invariant: everything is validated before anything changes; whatever a plugin attaches goes through its own
scope, so leaving `mounted` removes every trace of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from acp_bridge.errors import PluginRejected
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.lifecycle.scope import UNDO_SECONDS, Scope, open_scope

__all__ = ["Context", "Kernel", "Plugin", "ServiceKey", "entered"]

T = TypeVar("T")


class ServiceKey(Generic[T]):
    """Names a service and carries its type: `PERSISTENCE = ServiceKey[Persistence]("persistence")`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ServiceKey({self.name!r})"


@runtime_checkable
class Plugin(Protocol):
    """One folder, one plugin. Its `@hookimpl` methods are registered before `mount` is called."""

    name: str
    needs: tuple[ServiceKey[Any], ...]

    async def mount(self, context: Context) -> None:
        """Attach everything through `context`. Raising unwinds what was attached."""


class Kernel:
    def __init__(self, specs: ModuleType, diagnostics: Diagnostics) -> None:
        self.hooks = Hooks(specs, lambda hook, error: diagnostics.failure(f"an observer of {hook} failed", error))
        self.diagnostics = diagnostics
        self._services: dict[ServiceKey[Any], Any] = {}

    def get(self, key: ServiceKey[T]) -> T | None:
        """Opportunistic: None when nobody provides it."""
        return self._services.get(key)

    def require(self, key: ServiceKey[T], plugin: str) -> T:
        """Raises PluginRejected when nobody provides it."""
        if key not in self._services:
            raise PluginRejected(plugin, f"need {key.name}", "no mounted plugin provides it")
        service: T = self._services[key]
        return service

    @asynccontextmanager
    async def mounted(self, plugin: Plugin, *, undo_seconds: float = UNDO_SECONDS) -> AsyncIterator[Scope]:
        """Mount `plugin` until the context is left. `undo_seconds` bounds the undo of each of its effects."""
        for key in plugin.needs:
            self.require(key, plugin.name)
        # Hooks outlast the plugin's own effects: while those come to rest, their events still arrive.
        with self.hooks.registered(plugin.name, plugin):
            async with open_scope(plugin.name, undo_seconds=undo_seconds) as scope:
                await plugin.mount(Context(self, plugin.name, scope))
                yield scope

    @contextmanager
    def providing(self, key: ServiceKey[T], service: T, plugin: str) -> Iterator[T]:
        if key in self._services:
            raise PluginRejected(plugin, f"service {key.name}", "another mounted plugin provides it")
        self._services[key] = service
        try:
            yield service
        finally:
            del self._services[key]


class Context:
    """What a plugin may reach while it is mounted."""

    def __init__(self, kernel: Kernel, plugin: str, scope: Scope) -> None:
        self._kernel = kernel
        self._plugin = plugin
        self.scope = scope
        self.hooks = kernel.hooks
        self.diagnostics = kernel.diagnostics

    async def effect(self, name: str, manager: AbstractAsyncContextManager[T]) -> T:
        return await self.scope.effect(name, manager)

    async def provide(self, key: ServiceKey[T], service: T) -> None:
        """Offer `service` to plugins mounted later. Raises PluginRejected on a second provider."""
        manager = entered(self._kernel.providing(key, service, self._plugin))
        await self.scope.effect(f"service {key.name}", manager)

    def get(self, key: ServiceKey[T]) -> T | None:
        return self._kernel.get(key)

    def require(self, key: ServiceKey[T]) -> T:
        return self._kernel.require(key, self._plugin)


@asynccontextmanager
async def entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A synchronous context manager as an effect: `await context.effect(name, entered(manager))`."""
    with manager as value:
        yield value

"""The kernel: mounts plugins, dispatches hooks, and hands services from providers to consumers.

Owns: the plugins that are mounted now. Must not know any plugin.
Invariant: everything is validated before anything changes; leaving `mounted` removes every trace of a plugin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType
from typing import TypeVar

from acp_bridge.lifecycle.context import Context, entered
from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.lifecycle.mount import Mount, Plugin
from acp_bridge.lifecycle.scope import UNDO_SECONDS, Scope
from acp_bridge.lifecycle.services import ServiceKey, Services

__all__ = ["Context", "Kernel", "Mount", "Plugin", "ServiceKey", "entered"]

T = TypeVar("T")


class Kernel:
    """`mounts` holds every plugin from the start of its mounting until it is gone, by name."""

    def __init__(self, specs: ModuleType, diagnostics: Diagnostics) -> None:
        self.hooks = Hooks(specs, lambda hook, error: diagnostics.failure(f"an observer of {hook} failed", error))
        self.diagnostics = diagnostics
        self.services = Services()
        self.mounts: dict[str, Mount] = {}

    def get(self, key: ServiceKey[T]) -> T | None:
        return self.services.get(key)

    def require(self, key: ServiceKey[T], plugin: str) -> T:
        return self.services.require(key, plugin)

    @asynccontextmanager
    async def providing(self, key: ServiceKey[T], service: T, provider: str) -> AsyncIterator[T]:
        """A service that is no plugin's. Leaving waits for all who live on it."""
        self.services.publish({key: service}, provider)
        try:
            yield service
        finally:
            await self.services.withdraw([key])

    @asynccontextmanager
    async def mounted(
        self,
        plugin: Plugin,
        *,
        vital: bool = True,
        order: int | None = None,
        session: str | None = None,
        name: str | None = None,
        undo_seconds: float = UNDO_SECONDS,
    ) -> AsyncIterator[Mount]:
        """Keep `plugin` mounted until the context is left.

        A `vital` plugin is loaded when this is entered, or has raised PluginRejected or what its loading raised; any
        other may still wait for a service. `order` is its place among the listeners of each hook (default: last).
        Mounted for one `session` it hears that session only. `name` stands for the plugin's own. `undo_seconds`
        bounds the undo of each of its effects.
        """
        mounted_as = name or plugin.name
        mount = Mount(
            mounted_as,
            plugin,
            self.services,
            lambda: self.hooks.registered(mounted_as, plugin, order=order, session=session),
            lambda scope: self._context(mounted_as, scope),
            self.diagnostics,
            vital=vital,
            undo_seconds=undo_seconds,
        )
        with self._listed(mount):
            async with mount.held():
                yield mount

    def _context(self, name: str, scope: Scope) -> Context:
        return Context(name, scope, self.services, self.hooks, self.diagnostics)

    @contextmanager
    def _listed(self, mount: Mount) -> Iterator[None]:
        self.hooks.verify(mount.name, mount.plugin, taken=mount.name in self.mounts)
        self.mounts[mount.name] = mount
        try:
            yield
        finally:
            del self.mounts[mount.name]

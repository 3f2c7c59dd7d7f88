"""What a plugin may reach while it is mounted.

Owns: the handle given to `mount`. Must not know: how services, hooks and scopes work.
Invariant: whatever a plugin attaches goes through here, so leaving its scope removes every trace of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, TypeVar

from acp_bridge.lifecycle.diagnostics import Diagnostics
from acp_bridge.lifecycle.hooks import Hooks
from acp_bridge.lifecycle.scope import Scope
from acp_bridge.lifecycle.services import ServiceKey, Services

__all__ = ["Context", "entered"]

T = TypeVar("T")


class Context:
    """`provided` is what the plugin offers; others see it once `mount` has returned."""

    def __init__(self, plugin: str, scope: Scope, services: Services, hooks: Hooks, diagnostics: Diagnostics) -> None:
        self._plugin = plugin
        self._services = services
        self.scope = scope
        self.hooks = hooks
        self.diagnostics = diagnostics
        self.provided: dict[ServiceKey[Any], Any] = {}

    async def effect(self, name: str, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter `manager` and leave it when the plugin goes. Raises ScopeClosed, or what entering raised."""
        return await self.scope.effect(name, manager)

    def provide(self, key: ServiceKey[T], service: T) -> None:
        """Offer `service` to other plugins. Raises PluginRejected on a second provider."""
        self._services.check_free(key, self._plugin)
        self.provided[key] = service

    def get(self, key: ServiceKey[T]) -> T | None:
        """Opportunistic: None when nobody provides it now. Whoever gets it this way does not wait for it."""
        return self._services.get(key)

    def require(self, key: ServiceKey[T]) -> T:
        """What `needs` names is there. Raises PluginRejected for anything else that is not."""
        return self._services.require(key, self._plugin)


@asynccontextmanager
async def entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A synchronous context manager as an effect: `await context.effect(name, entered(manager))`."""
    with manager as value:
        yield value

"""Services: one provider each, and the plugins that live on them (design §4, contracts §10.5).

Owns: what is provided now, and who must go before it does. Must not know: plugins, effects, hooks.
Invariant: a service that is being withdrawn is given to nobody new, and its provider goes on only when every
plugin that was loaded upon it has unloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import anyio

from acp_bridge.errors import PluginRejected

__all__ = ["Dependent", "ServiceKey", "Services"]

T = TypeVar("T")


class ServiceKey(Generic[T]):
    """Names a service and carries its type: `PERSISTENCE = ServiceKey[Persistence]("persistence")`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ServiceKey({self.name!r})"


class Dependent(Protocol):
    async def give_up(self) -> None:
        """Unload, and return when nothing is left. Never raises: how it went is its own affair."""


class Services:
    def __init__(self) -> None:
        self._values: dict[ServiceKey[Any], Any] = {}
        self._providers: dict[ServiceKey[Any], str] = {}
        self._dependents: dict[ServiceKey[Any], list[Dependent]] = {}
        self._changed = anyio.Event()

    def get(self, key: ServiceKey[T]) -> T | None:
        """Opportunistic: None when nobody provides it now."""
        return self._values.get(key)

    def require(self, key: ServiceKey[T], plugin: str) -> T:
        """Raises PluginRejected when nobody provides it."""
        if key not in self._values:
            raise PluginRejected(plugin, f"need {key.name}", "no mounted plugin provides it")
        service: T = self._values[key]
        return service

    def missing(self, needs: Iterable[ServiceKey[Any]]) -> tuple[ServiceKey[Any], ...]:
        return tuple(key for key in needs if key not in self._values)

    async def changed(self) -> None:
        """Wait until something was provided since this was called."""
        await self._changed.wait()

    def check_free(self, key: ServiceKey[Any], plugin: str) -> None:
        """Raises PluginRejected when another plugin provides it, or has not let go of it yet."""
        holder = self._providers.get(key)
        if holder is not None:
            raise PluginRejected(plugin, f"service {key.name}", f"the mounted plugin {holder} provides it")

    def publish(self, services: Mapping[ServiceKey[Any], Any], plugin: str) -> None:
        """All or none. Raises PluginRejected."""
        for key in services:
            self.check_free(key, plugin)
        self._values.update(services)
        self._providers.update(dict.fromkeys(services, plugin))
        if services:
            self._changed.set()
            self._changed = anyio.Event()

    async def withdraw(self, keys: Iterable[ServiceKey[Any]]) -> None:
        """Take back what was published: at once for everybody new, then wait until all dependents are gone."""
        held = [key for key in keys if key in self._values]
        for key in held:
            del self._values[key]
        leaving = {id(dependent): dependent for key in held for dependent in self._dependents.get(key, ())}
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for dependent in leaving.values():
                    tasks.start_soon(dependent.give_up)
        for key in held:
            del self._providers[key]

    @contextmanager
    def used(self, keys: Iterable[ServiceKey[Any]], dependent: Dependent) -> Iterator[None]:
        """While this is held, whoever withdraws one of `keys` makes `dependent` give up first."""
        for key in keys:
            self._dependents.setdefault(key, []).append(dependent)
        try:
            yield
        finally:
            for key in keys:
                self._dependents[key].remove(dependent)

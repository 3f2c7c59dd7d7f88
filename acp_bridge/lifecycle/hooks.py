"""Hook dispatch: pluggy declares, validates and registers; this awaits.

Owns: the modes (emit, bail, parallel, serial, waterfall) and the order. Must not know: what any hook means.
Invariant: order is the composition's table, then registration; a call works on the listeners as of the call; an
`emit` observer that fails is contained and reported to `on_observer_failure`. Nothing is paid when nobody
listens: the listeners of a hook are cached until the next registration.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from types import ModuleType
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

import anyio
import pluggy

from acp_bridge.errors import PluginRejected

__all__ = ["Hooks", "Next", "hookimpl", "hookspec", "mode_of"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])

Next = Callable[[], Awaitable[R]]
Listener = Callable[..., Any]

PROJECT = "acp_bridge"
SYNCHRONOUS = ("emit", "bail")
_marker = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


def hookspec(mode: str) -> Callable[[F], F]:
    """Declare a hook with its mode: emit, bail, parallel, serial or waterfall."""

    def declare(function: F) -> F:
        function.__hook_mode__ = mode  # type: ignore[attr-defined]  # the one attribute that pluggy has no place for
        return _marker(function)

    return declare


def mode_of(spec: Callable[..., Any]) -> str:
    mode: str = getattr(spec, "__hook_mode__")  # noqa: B009  # set above; a plain attribute would not type-check
    return mode


class Hooks:
    """Dispatch to every listener, or, seen through `of(session)`, to the general ones and those of that session.

    `on_observer_failure(hook name, error)` is told of every contained failure.
    """

    def __init__(self, specs: ModuleType, on_observer_failure: Callable[[str, BaseException], None]) -> None:
        self._registry = _Registry(specs)
        self._on_observer_failure = on_observer_failure
        self._session: str | None = None
        self._cache = self._registry.cache()

    def of(self, session: str) -> Hooks:
        """The same hooks as one session's: cheap, to be kept as long as the session."""
        seen = copy(self)
        seen._session, seen._cache = session, self._registry.cache()
        return seen

    @contextmanager
    def registered(
        self, name: str, plugin: object, *, order: int | None = None, session: str | None = None
    ) -> Iterator[None]:
        """Attach every hookimpl of `plugin`, until the context is left. Raises PluginRejected, changing nothing."""
        self.verify(name, plugin)
        self._registry.add(name, plugin, order, session)
        try:
            yield
        finally:
            self._registry.remove(name, plugin)

    def verify(self, name: str, plugin: object, *, taken: bool = False) -> None:
        """Raises PluginRejected, naming the hook and the reason."""
        if taken or self._registry.has(name, plugin):
            raise PluginRejected(name, "name", "a plugin of that name is mounted already")
        self._registry.check(name, plugin)

    def emit(self, spec: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Synchronous observers, one by one; a failing one never stops the others or the caller."""
        found = self._cache.get(spec)  # here too, since this is called for every chunk
        for listener in self._listeners(spec) if found is None else found:
            try:
                listener(*args, **kwargs)
            except Exception as error:
                self._on_observer_failure(spec.__name__, error)

    def bail(self, spec: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Synchronous, in order; the first answer that is not None wins."""
        for listener in self._listeners(spec):
            answer: R | None = listener(*args, **kwargs)
            if answer is not None:
                return answer
        return None

    async def parallel(self, spec: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> int:
        """Start all, await all, raise the failures together. Returns how many listened."""
        listeners = self._listeners(spec)
        if len(listeners) == 1:
            await listeners[0](*args, **kwargs)
        elif listeners:
            await _all(listeners, args, kwargs)
        return len(listeners)

    async def serial(self, spec: Callable[P, Awaitable[R | None]], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Awaited in order; the first answer that is not None wins."""
        for listener in self._listeners(spec):
            answer: R | None = await listener(*args, **kwargs)
            if answer is not None:
                return answer
        return None

    async def waterfall(
        self, spec: Callable[Concatenate[S, Next[R], ...], Awaitable[R]], subject: S, default: Next[R]
    ) -> R:
        """An onion: a listener awaits `next()` to delegate, or answers by itself."""
        listeners = self._listeners(spec)

        async def call(index: int) -> R:
            if index == len(listeners):
                return await default()
            answer: R = await listeners[index](subject, lambda: call(index + 1))
            return answer

        return await call(0)

    def listening(self, spec: Callable[..., Any]) -> bool:
        return bool(self._listeners(spec))

    def _listeners(self, spec: Callable[..., Any]) -> tuple[Listener, ...]:
        found = self._cache.get(spec)
        if found is None:
            found = self._cache[spec] = self._registry.listeners(spec.__name__, self._session)
        return found


class _Cache(dict[Listener, tuple[Listener, ...]]):
    """By declaration. Hashed by identity, to be held weakly: it goes with its view."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a dict forbids it


class _Place(NamedTuple):
    order: float
    number: int
    session: str | None


class _Registry:
    """Who listens to what, in which order, for which session. Every change empties the caches of every view."""

    def __init__(self, specs: ModuleType) -> None:
        self._count = 0
        self._caches: WeakSet[_Cache] = WeakSet()
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(specs)
        self._places: dict[str, _Place] = {}

    def cache(self) -> _Cache:
        cache = _Cache()
        self._caches.add(cache)
        return cache

    def add(self, name: str, plugin: object, order: int | None, session: str | None) -> None:
        self._manager.register(plugin, name)
        self._count += 1
        self._places[name] = _Place(math.inf if order is None else order, self._count, session)
        self._changed()

    def remove(self, name: str, plugin: object) -> None:
        self._manager.unregister(plugin)
        del self._places[name]
        self._changed()

    def _changed(self) -> None:
        for cache in self._caches:
            cache.clear()

    def listeners(self, hook: str, session: str | None) -> tuple[Listener, ...]:
        impls = getattr(self._manager.hook, hook).get_hookimpls()
        heard = [impl for impl in impls if self._places[impl.plugin_name].session in (None, session)]
        # A plugin that was reloaded is registered last, and still has its place.
        heard.sort(key=lambda impl: self._places[impl.plugin_name])
        return tuple(impl.function for impl in heard)

    def has(self, name: str, plugin: object) -> bool:
        return self._manager.has_plugin(name) or self._manager.is_registered(plugin)

    def check(self, name: str, plugin: object) -> None:
        """pluggy only warns about missing arguments and validates after it has begun to register."""
        for attribute in dir(type(plugin)):
            options = self._manager.parse_hookimpl_opts(plugin, attribute)
            if options is not None:
                complaint = self._complaint(attribute, getattr(plugin, attribute), options)
                if complaint:
                    raise PluginRejected(name, f"hook {attribute}", complaint)

    def _complaint(self, hook: str, implementation: Listener, options: Mapping[str, Any]) -> str | None:
        spec = getattr(self._manager.hook, hook, None)
        if spec is None or not spec.has_spec():
            return "there is no hook of that name"
        if any(options.get(option) for option in ("tryfirst", "trylast", "wrapper", "hookwrapper")):
            return "order is the composition's table"
        wanted = spec.spec.argnames
        if tuple(pluggy._hooks.varnames(implementation)[0]) != tuple(wanted):
            return f"its arguments must be ({', '.join(wanted)})"
        # A coroutine that an emit never awaits would be an observer that never runs.
        asynchronous = mode_of(spec.spec.function) not in SYNCHRONOUS
        if inspect.iscoroutinefunction(implementation) is not asynchronous:
            return "it must be a coroutine function" if asynchronous else "it must be a plain function"
        return None


async def _all(listeners: tuple[Listener, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    failures: list[BaseException] = []

    async def one(listener: Listener) -> None:
        try:
            await listener(*args, **kwargs)
        except Exception as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for listener in listeners:
            tasks.start_soon(one, listener)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup("several listeners failed", failures)

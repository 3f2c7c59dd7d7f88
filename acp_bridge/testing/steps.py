"""The steps of a plugin's mounting and unmounting, each of which can be made to fail or be cancelled.

Owns: counting steps, and putting a failure or a cancellation into one. Must not know: what is compared afterwards.
Invariant: what is injected never keeps a manager from being left: a failure comes before it is entered, after it was
entered, or after it was left.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal, TypeVar

from acp_bridge.lifecycle.context import Context
from acp_bridge.lifecycle.scope import Node, Part, Scope
from acp_bridge.lifecycle.services import ServiceKey

__all__ = ["How", "Injected", "SteppedContext", "SteppedScope", "Steps"]

T = TypeVar("T")
How = Literal["fails", "is cancelled"]

# Awaits of one entry that are steps of their own. An entry that polls would have no end of them.
MOST_AWAITS = 20


class Injected(Exception):
    """The failure that is put into a step."""


class Steps:
    """At step number `at` (from 1; 0 for never) `how` happens. `hit` is where it did, `last` where the life is now."""

    def __init__(self, at: int = 0, how: How = "fails") -> None:
        self.at = at
        self.how = how
        self.taken = 0
        self.last = "it is about to be loaded"
        self.hit: str | None = None
        self.cancel: Callable[[], None] = lambda: None

    def point(self, where: str, *, fails: bool = True) -> None:
        """`fails` False: only a cancellation may happen here. Raises Injected."""
        self.last = where
        if self.how == "fails" and not fails:
            return
        self.taken += 1
        if self.taken != self.at:
            return
        self.hit = where
        if self.how == "fails":
            raise Injected(where)
        # No await here: the cancellation is to meet the plugin's own next one.
        self.cancel()


class SteppedContext(Context):
    def __init__(self, steps: Steps, plugin: str, scope: Scope, *others: Any) -> None:
        super().__init__(plugin, SteppedScope(scope, steps), *others)
        self._steps = steps
        steps.point("its mounting begins")

    def provide(self, key: ServiceKey[T], service: T) -> None:
        super().provide(key, service)
        self._steps.point(f"the service {key.name!r} was provided")


class SteppedScope(Scope):
    """A scope seen through its steps."""

    def __init__(self, inner: Scope, steps: Steps) -> None:
        self.name = inner.name
        self._inner = inner
        self._steps = steps

    @property
    def closed(self) -> bool:
        return self._inner.closed

    async def effect(
        self, name: str, manager: AbstractAsyncContextManager[T], *, undo_seconds: float | None = None
    ) -> T:
        value = await self._inner.effect(name, _Stepped(name, manager, self._steps), undo_seconds=undo_seconds)
        self._steps.point(f"the effect {name!r} was entered")
        return value

    async def child(self, name: str, *, undo_seconds: float | None = None) -> Scope:
        scope = await self._inner.child(name, undo_seconds=undo_seconds)
        self._steps.point(f"the scope {name!r} was opened")
        return SteppedScope(scope, self._steps)

    async def composite(self, name: str, parts: Sequence[Part], *, undo_seconds: float | None = None) -> None:
        stepped: list[Part] = [(part, partial(self._part, part, factory)) for part, factory in parts]
        await self._inner.composite(name, stepped, undo_seconds=undo_seconds)
        self._steps.point(f"the composite effect {name!r} was entered")

    async def dispose(self) -> None:
        await self._inner.dispose()

    async def detach(self, value: object) -> None:
        await self._inner.detach(value._inner if isinstance(value, SteppedScope) else value)

    def describe(self) -> Node:
        return self._inner.describe()

    def _part(self, name: str, factory: Callable[[], AbstractAsyncContextManager[T]]) -> AbstractAsyncContextManager[T]:
        return _Stepped(name, factory(), self._steps)


class _Stepped(AbstractAsyncContextManager[T]):
    def __init__(self, name: str, manager: AbstractAsyncContextManager[T], steps: Steps) -> None:
        self._name = name
        self._manager = manager
        self._steps = steps

    async def __aenter__(self) -> T:
        self._steps.point(f"the effect {self._name!r} is about to be entered")
        return await _watched(self._manager.__aenter__(), self._waits)

    async def __aexit__(self, *raised: Any) -> bool | None:
        self._steps.point(f"the effect {self._name!r} is about to be left", fails=False)
        suppresses = await self._manager.__aexit__(*raised)
        self._steps.point(f"the effect {self._name!r} was left")
        return suppresses

    def _waits(self, number: int) -> None:
        if number <= MOST_AWAITS:
            self._steps.point(f"the effect {self._name!r} is being entered (its await {number})", fails=False)


@types.coroutine
def _watched(awaitable: Awaitable[T], waits: Callable[[int], None]) -> Generator[Any, Any, T]:
    """`await awaitable`, telling of each suspension by its number."""
    inner = awaitable.__await__()
    resume: Callable[[Any], Any] = inner.send
    value: Any = None
    number = 0
    while True:
        try:
            waited = resume(value)
        except StopIteration as done:
            result: T = done.value
            return result
        number += 1
        waits(number)
        try:
            value = yield waited
            resume = inner.send
        except BaseException as error:
            resume, value = inner.throw, error

"""Scopes: the nodes of the lifecycle tree.

Owns: which effects are attached where, and the order of undoing them. Must not know: plugins, hooks, sessions.
Invariant: `effect` and `composite` are the only ways in. Siblings unload concurrently (started in reverse
order, all awaited); the parts of a composite unload strictly in reverse, one after the other has finished.
A closed scope takes nothing new. Failures are gathered and raised, never only logged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from acp_bridge.errors import ScopeClosed
from acp_bridge.lifecycle.effect import Effect

__all__ = ["UNDO_SECONDS", "Node", "Part", "Scope", "open_scope"]

T = TypeVar("T")
Part = tuple[str, Callable[[], AbstractAsyncContextManager[Any]]]

# Seconds. Far above what a healthy undo takes; a setting in the composition bounds the product's own parts tighter.
UNDO_SECONDS = 5.0


class Node(Struct, frozen=True):
    """A printable node of the tree; tests compare whole trees."""

    name: str
    state: str
    children: tuple[Node, ...] = ()


@runtime_checkable
class Described(Protocol):
    """What an effect's value can be, to have its own insides printed below it."""

    def describe(self) -> Node: ...


class Scope:
    def __init__(self, name: str, tasks: TaskGroup, *, undo_seconds: float = UNDO_SECONDS) -> None:
        self.name = name
        self._tasks = tasks
        self._undo_seconds = undo_seconds
        self._effects: list[Effect[Any]] = []
        self._disposal: anyio.Event | None = None
        self._failure: BaseException | None = None

    @property
    def closed(self) -> bool:
        return self._disposal is not None

    async def effect(
        self, name: str, manager: AbstractAsyncContextManager[T], *, undo_seconds: float | None = None
    ) -> T:
        """Enter `manager` and keep it until this scope is disposed. Raises ScopeClosed, or what entering raised."""
        effect = Effect(name, manager, undo_seconds=undo_seconds or self._undo_seconds)
        return await self._attach(effect)

    async def child(self, name: str, *, undo_seconds: float | None = None) -> Scope:
        """A scope of its own, disposed with this one."""
        seconds = undo_seconds or self._undo_seconds
        return await self._attach(Effect(name, open_scope(name, undo_seconds=seconds), undo_seconds=seconds))

    async def composite(self, name: str, parts: Sequence[Part], *, undo_seconds: float | None = None) -> None:
        """Enter the parts in order; undo them in reverse, each finished before the next begins.

        Each part gets the whole of `undo_seconds`, so that a hanging part cannot eat the time of the next.
        """
        seconds = undo_seconds or self._undo_seconds
        composite = _Composite(parts, self._tasks, undo_seconds=seconds)
        await self._attach(Effect(name, composite.mounted(), undo_seconds=seconds * len(parts) + 1))

    async def dispose(self) -> None:
        """Undo everything. A second call joins the first and raises the same failure."""
        with anyio.CancelScope(shield=True):
            if self._disposal is not None:
                await self._disposal.wait()
            else:
                self._disposal = anyio.Event()
                self._failure = await _undo_together(self.name, self._effects)
                self._disposal.set()
        if self._failure is not None:
            raise self._failure

    async def detach(self, value: object) -> None:
        """Undo one effect (or child scope) now, by its value, ahead of this scope. Raises what its undo raised."""
        effect = next((effect for effect in self._effects if effect.value is value), None)
        if effect is None:
            return
        try:
            await effect.undo()
        finally:
            # Only now: a dispose of this scope in the meantime has to wait for it, too.
            if effect in self._effects:
                self._effects.remove(effect)

    def describe(self) -> Node:
        return Node(self.name, "disposed" if self.closed else "active", tuple(map(_node, self._effects)))

    async def _attach(self, effect: Effect[T]) -> T:
        if self.closed:
            raise ScopeClosed(self.name, effect.name)
        self._effects.append(effect)
        try:
            value = await effect.start(self._tasks)
        except BaseException:
            self._effects.remove(effect)
            raise
        return value


class _Composite:
    def __init__(self, parts: Sequence[Part], tasks: TaskGroup, *, undo_seconds: float) -> None:
        self._parts = parts
        self._tasks = tasks
        self._undo_seconds = undo_seconds
        self._entered: list[Effect[Any]] = []

    @asynccontextmanager
    async def mounted(self) -> AsyncIterator[_Composite]:
        try:
            for name, factory in self._parts:
                part: Effect[Any] = Effect(name, factory(), undo_seconds=self._undo_seconds)
                await part.start(self._tasks)
                self._entered.append(part)
            yield self
        except BaseException as error:
            failures = await self._unwind()
            if failures:
                raise _group("composite effect", [error, *failures]) from None
            raise
        failures = await self._unwind()
        if failures:
            raise _group("composite effect", failures)

    async def _unwind(self) -> list[BaseException]:
        failures: list[BaseException] = []
        with anyio.CancelScope(shield=True):
            for part in reversed(self._entered):
                failures += await _failure_of(part)
        return failures

    def describe(self) -> Node:
        return Node("composite", "", tuple(map(_node, self._entered)))


def _node(effect: Effect[Any]) -> Node:
    inner = effect.value
    if not isinstance(inner, Described):
        return Node(effect.name, effect.state)
    # A plugin may wait, or have failed, while the effect that holds it is in order.
    own = inner.describe()
    return Node(effect.name, own.state or effect.state, own.children)


@asynccontextmanager
async def open_scope(name: str, *, undo_seconds: float = UNDO_SECONDS) -> AsyncIterator[Scope]:
    """The root of a tree (or a child of one). Leaving it, or being cancelled, disposes it first.

    What the body or the disposal raises comes out as it is, not inside a task group's group of one.
    """
    raised: BaseException | None = None
    alone = False
    try:
        async with anyio.create_task_group() as tasks:
            scope = Scope(name, tasks, undo_seconds=undo_seconds)
            try:
                try:
                    yield scope
                finally:
                    await scope.dispose()
            except BaseException as error:
                raised = error
                raise
    except BaseExceptionGroup as group:
        alone = group.exceptions == (raised,)
        if not alone:
            raise
    if alone and raised is not None:
        raise raised


async def _undo_together(name: str, effects: list[Effect[Any]]) -> BaseException | None:
    failures: list[BaseException] = []

    async def undo(effect: Effect[Any]) -> None:
        failures.extend(await _failure_of(effect))

    async with anyio.create_task_group() as tasks:
        for effect in reversed(effects):
            tasks.start_soon(undo, effect)
    return _group(f"scope {name}", failures) if failures else None


async def _failure_of(effect: Effect[Any]) -> list[BaseException]:
    try:
        await effect.undo()
    except BaseException as error:
        return [error]
    return []


def _group(what: str, failures: list[BaseException]) -> BaseExceptionGroup[BaseException]:
    return BaseExceptionGroup(f"{what}: {len(failures)} of its effects failed to unload", failures)

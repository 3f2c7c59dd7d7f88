"""One effect: an acquire that carries its own undo.

Owns: running one async context manager in a task of its own, from entry until its undo has finished.
Must not know: plugins, hooks, sessions. Invariant: the undo runs exactly once, shielded from outside
cancellation and bounded by a deadline; a second undo joins the first. A task per effect is what lets
siblings unload at the same time: an anyio cancel scope must be left in the task that entered it.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from acp_bridge.errors import ScopeClosed, UndoTimedOut
from acp_bridge.lifecycle.states import State, advance

__all__ = ["Effect"]

T = TypeVar("T")


class Effect(Generic[T]):
    """Times are seconds. `undo_seconds` bounds the manager's exit."""

    def __init__(self, name: str, manager: AbstractAsyncContextManager[T], *, undo_seconds: float) -> None:
        self.name = name
        self.state = State.PENDING
        self.value: T | None = None
        self._manager = manager
        self._undo_seconds = undo_seconds
        # Two scopes, because a cancelled one cannot be taken back: an entry that ends well although it was cancelled
        # is followed by a whole undo, under the inner scope alone.
        self._loading = anyio.CancelScope()
        self._scope = anyio.CancelScope()
        self._release = anyio.Event()
        self._entered = False
        self._settled = anyio.Event()
        self._gone = anyio.Event()
        self._refusal: BaseException | None = None
        self._failure: BaseException | None = None

    async def start(self, tasks: TaskGroup) -> T:
        """Enter the manager; whatever it raises is raised here and nothing stays attached."""
        # Not TaskGroup.start: cancelled at the moment in which the manager has been entered, it would wait for ever for
        # a task that is shielded from it.
        tasks.start_soon(self._host, name=f"effect {self.name}")
        try:
            await self._settled.wait()
        except BaseException:
            self._begin_undo()
            with anyio.CancelScope(shield=True):
                await self._gone.wait()
            raise
        if self._entered:
            return self.value  # type: ignore[return-value]  # set by the manager's entry, whatever T is
        # A cancellation belongs to the task that it reached; here it was somebody else's.
        raise self._refusal if isinstance(self._refusal, Exception) else ScopeClosed("(cancelled)", self.name)

    async def undo(self) -> None:
        """Leave the manager. Raises what its exit raised, or UndoTimedOut; joins an undo under way."""
        self._begin_undo()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()
        if self._failure is not None:
            raise self._failure

    def _begin_undo(self) -> None:
        if self._release.is_set():
            return
        if self.state is State.ACTIVE:
            self.state = advance(self.name, self.state, State.UNLOADING)
        else:
            self._loading.cancel()
        self._scope.deadline = anyio.current_time() + self._undo_seconds
        self._release.set()

    async def _host(self) -> None:
        self.state = advance(self.name, self.state, State.LOADING)
        try:
            with self._loading, self._scope:
                async with self._manager as value:
                    self._scope.shield = True
                    if not self._release.is_set():
                        self._activate(value)
                        await self._release.wait()
            self._left(self.state)
        except BaseException as error:
            self._fail(self.state, error)
        finally:
            self._gone.set()
            self._settled.set()
            if self.state is not State.ACTIVE:
                self.value = None

    def _activate(self, value: T) -> None:
        self.value = value
        self.state = advance(self.name, self.state, State.ACTIVE)
        self._entered = True
        self._settled.set()

    def _left(self, last: State) -> None:
        # Called, not caught: a manager that absorbs the cancellation in a task group of its own was late all the same.
        if self._scope.cancel_called:
            raise UndoTimedOut(self.name, self._undo_seconds)
        if last is State.LOADING:
            raise ScopeClosed("(disposed while loading)", self.name)
        if last is State.ACTIVE:
            raise RuntimeError(f"effect {self.name} ended although nobody had undone it")
        self.state = advance(self.name, last, State.DISPOSED)

    def _fail(self, last: State, error: BaseException) -> None:
        """To whoever waits for it: `start` while it loads, `undo` while it unloads. In between, up the tree."""
        self.state = advance(self.name, last, State.FAILED)
        if last is State.LOADING:
            self._refusal = error
        if last is not State.LOADING or isinstance(error, UndoTimedOut):
            self._failure = error
        if last is State.ACTIVE or not isinstance(error, Exception | BaseExceptionGroup):
            raise error

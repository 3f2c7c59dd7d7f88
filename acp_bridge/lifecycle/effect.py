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
from anyio.abc import TaskGroup, TaskStatus

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
        self._gone = anyio.Event()
        self._failure: BaseException | None = None

    async def start(self, tasks: TaskGroup) -> T:
        """Enter the manager; whatever it raises is raised here and nothing stays attached."""
        value: T = await tasks.start(self._host, name=f"effect {self.name}")
        return value

    async def undo(self) -> None:
        """Leave the manager. Raises what its exit raised, or UndoTimedOut; joins an undo under way."""
        if not self._release.is_set():
            self._begin_undo()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()
        if self._failure is not None:
            raise self._failure

    def _begin_undo(self) -> None:
        if self.state is State.ACTIVE:
            self.state = advance(self.name, self.state, State.UNLOADING)
        else:
            self._loading.cancel()
        self._scope.deadline = anyio.current_time() + self._undo_seconds
        self._release.set()

    async def _host(self, *, task_status: TaskStatus[T]) -> None:
        self.state = advance(self.name, self.state, State.LOADING)
        try:
            with self._loading, self._scope:
                async with self._manager as value:
                    self._scope.shield = True
                    if not self._release.is_set():
                        self._activate(value, task_status)
                        await self._release.wait()
        except BaseException as error:
            used = self.state is State.UNLOADING
            self._failed(error)
            # Failed while loading: that is for `start`. Died while in use: nobody waits for an undo, so up the tree.
            if not used:
                raise
        else:
            self._settled(self.state)
        finally:
            self.value = None
            self._gone.set()

    def _activate(self, value: T, task_status: TaskStatus[T]) -> None:
        self.value = value
        self.state = advance(self.name, self.state, State.ACTIVE)
        task_status.started(value)

    def _failed(self, error: BaseException) -> None:
        self.state = advance(self.name, self.state, State.FAILED)
        self._failure = error

    def _settled(self, left: State) -> None:
        # Called, not caught: a manager that absorbs the cancellation in a task group of its own was late all the same.
        if self._scope.cancel_called:
            self._failed(UndoTimedOut(self.name, self._undo_seconds))
        else:
            self.state = advance(self.name, left, State.DISPOSED if left is State.UNLOADING else State.FAILED)
        if left is State.LOADING:
            raise ScopeClosed("(disposed while loading)", self.name)
        if left is State.ACTIVE:
            raise RuntimeError(f"effect {self.name} ended although nobody had undone it")

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
        self._manager = manager
        self._undo_seconds = undo_seconds
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
        if self.state is State.LOADING:
            self._scope.cancel()
        elif self.state is State.ACTIVE:
            self.state = advance(self.name, self.state, State.UNLOADING)
            self._scope.deadline = anyio.current_time() + self._undo_seconds
            self._release.set()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()
        if self._failure is not None:
            raise self._failure

    async def _host(self, *, task_status: TaskStatus[T]) -> None:
        self.state = advance(self.name, self.state, State.LOADING)
        entered = False
        try:
            with self._scope:
                async with self._manager as value:
                    entered = True
                    self._scope.shield = True
                    self.state = advance(self.name, self.state, State.ACTIVE)
                    task_status.started(value)
                    await self._release.wait()
        except BaseException as error:
            self._failed(error)
            # Died while in use: nobody is waiting for an undo, so the failure goes up the tree.
            if not entered or not self._release.is_set():
                raise
        else:
            self._settled(entered)
        finally:
            self._gone.set()

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        self.state = State.FAILED

    def _settled(self, entered: bool) -> None:
        if not entered:
            self.state = State.FAILED
            raise ScopeClosed("(disposed while loading)", self.name)
        if self._scope.cancelled_caught:
            self._failed(UndoTimedOut(self.name, self._undo_seconds))
        else:
            self.state = advance(self.name, self.state, State.DISPOSED)

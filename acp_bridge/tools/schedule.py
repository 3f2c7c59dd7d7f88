"""Scheduling the calls of one step (contracts §3.5).

Owns: which calls overlap, and the order of results. Must not know: what the calls do.
Invariant: policy runs in model order; an exclusive call is a barrier; results are committed in model order, however
the bodies settle; every call gets exactly one result. Started work is awaited, never abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import anyio

from acp_bridge.tools.outcomes import aborted_before_dispatch
from acp_bridge.tools.tool import Execution, ToolOutcome

__all__ = ["Runner", "run_calls"]


class Runner(Protocol):
    """What the schedule drives; `Pipeline` is the one in use."""

    def parallel(self, execution: Execution) -> bool: ...

    async def admit(self, execution: Execution) -> ToolOutcome | None: ...

    async def dispatch(self, execution: Execution) -> ToolOutcome: ...


class _Slots:
    """Outcomes by position, committed over the contiguous settled prefix."""

    def __init__(self, executions: Sequence[Execution], commit: Callable[[Execution, ToolOutcome], None]) -> None:
        self._executions = executions
        self._commit = commit
        self._outcomes: dict[int, ToolOutcome] = {}
        self._cursor = 0

    def settle(self, index: int, outcome: ToolOutcome) -> None:
        self._outcomes[index] = outcome
        while self._cursor in self._outcomes:
            settled = self._cursor
            self._cursor += 1
            self._commit(self._executions[settled], self._outcomes.pop(settled))


async def run_calls(
    executions: Sequence[Execution],
    runner: Runner,
    *,
    begin: Callable[[Execution], None],
    commit: Callable[[Execution, ToolOutcome], None],
    refused: Callable[[Execution], ToolOutcome | None],
    cap: int,
) -> None:
    """Run all calls. `begin` records the call, `commit` its result; `refused` settles a call that must not run.

    Raises the first failure of `begin`, `admit` or `commit` after all started work has ended; it fabricates nothing.
    """
    slots = _Slots(executions, commit)
    position = 0
    while position < len(executions):
        position = await _group(executions, position, runner, slots, begin, refused, cap)


async def _group(
    executions: Sequence[Execution],
    start: int,
    runner: Runner,
    slots: _Slots,
    begin: Callable[[Execution], None],
    refused: Callable[[Execution], ToolOutcome | None],
    cap: int,
) -> int:
    """One exclusive call, or a run of overlapping ones. Returns the next position."""
    failures: list[Exception] = []
    limiter = anyio.Semaphore(cap)

    async def body(index: int) -> None:
        async with limiter:
            try:
                slots.settle(index, await runner.dispatch(executions[index]))
            except Exception as error:
                failures.append(error)

    index = start
    async with anyio.create_task_group() as tasks:
        while index < len(executions) and not failures:
            execution = executions[index]
            overlaps = runner.parallel(execution)
            if index > start and not overlaps:
                break
            try:
                begin(execution)
                outcome = await _admitted(execution, runner, refused)
                if outcome is not None:
                    slots.settle(index, outcome)
                else:
                    tasks.start_soon(body, index)
            except Exception as error:
                failures.append(error)
            index += 1
            if not overlaps:
                break
    if failures:
        raise failures[0]
    return index


async def _admitted(
    execution: Execution, runner: Runner, refused: Callable[[Execution], ToolOutcome | None]
) -> ToolOutcome | None:
    if execution.signal.aborted:
        return aborted_before_dispatch()
    return refused(execution) or await runner.admit(execution)

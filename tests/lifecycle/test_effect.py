"""One effect: entered once, undone once, whole or not at all (design §4, contracts §10.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from acp_bridge.errors import ScopeClosed, UndoTimedOut
from acp_bridge.lifecycle.effect import Effect
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.lifecycle.states import MOVES, State, advance
from tests.lifecycle.parts import Journal

pytestmark = pytest.mark.anyio


async def test_the_value_of_the_manager_is_the_value_of_the_effect() -> None:
    journal = Journal()
    async with anyio.create_task_group() as tasks:
        effect = Effect("a", journal.part("a"), undo_seconds=5)
        assert await effect.start(tasks) == "a"
        assert effect.state is State.ACTIVE
        await effect.undo()
    assert effect.state is State.DISPOSED
    assert journal == ["a enters", "a entered", "a leaves", "a left"]


async def test_undo_runs_once_and_a_second_call_waits_for_the_first() -> None:
    journal, gate = Journal(), anyio.Event()
    async with open_scope("root") as root:
        await root.effect("a", journal.part("a", leaving=gate))
        finished = []

        async def dispose(number: int) -> None:
            await root.dispose()
            finished.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dispose, 1)
            tasks.start_soon(dispose, 2)
            await anyio.wait_all_tasks_blocked()
            assert finished == []
            gate.set()
    assert finished == [1, 2]
    assert journal.count("a leaves") == 1


async def test_a_second_undo_raises_what_the_first_raised() -> None:
    async with anyio.create_task_group() as tasks:
        effect = Effect("a", Journal().part("a", fails_leaving=OSError("busy")), undo_seconds=5)
        await effect.start(tasks)
        for _ in range(2):
            with pytest.raises(OSError, match="busy"):
                await effect.undo()
    assert effect.state is State.FAILED


async def test_a_failed_entry_is_raised_to_the_one_who_attached_and_leaves_nothing() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        with pytest.raises(ValueError, match="no"):
            await root.effect("a", journal.part("a", fails_entering=ValueError("no")))
        assert root.describe().children == ()
    assert journal == ["a enters"]


async def test_an_undo_that_hangs_is_cancelled_at_its_deadline_and_named() -> None:
    journal = Journal()

    async def live() -> None:
        async with open_scope("root") as root:
            await root.effect("stuck", journal.part("stuck", leaving=anyio.Event()), undo_seconds=0.01)
            await root.effect("other", journal.part("other"))

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        await live()
    (failure,) = caught.value.exceptions
    assert isinstance(failure, UndoTimedOut)
    assert (failure.effect, failure.seconds) == ("stuck", 0.01)
    assert "other left" in journal


async def test_cancellation_from_outside_does_not_cut_an_undo_short() -> None:
    journal, gate = Journal(), anyio.Event()

    async def live(task_status: anyio.abc.TaskStatus[None]) -> None:
        async with open_scope("root") as root:
            await root.effect("a", journal.part("a", leaving=gate))
            task_status.started()
            await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            await tasks.start(live)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                assert journal[-1] == "a leaves"
                gate.set()
    assert journal[-1] == "a left"


async def test_cancelling_the_one_who_attaches_undoes_a_half_done_entry() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        with anyio.move_on_after(0.01):
            await root.effect("a", journal.part("a", entering=anyio.Event()))
        assert root.describe().children == ()
        assert not root.closed
    assert journal == ["a enters"]


async def test_disposing_while_loading_cancels_the_entry_and_tells_the_one_who_attached() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        raised = []

        async def attach() -> None:
            try:
                await root.effect("a", journal.part("a", entering=anyio.Event()))
            except ScopeClosed as error:
                raised.append(error.effect)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attach)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(5):
                await root.dispose()
    assert raised == ["a"]
    assert journal == ["a enters"]


async def test_an_entry_that_ends_well_although_it_was_cancelled_is_undone_whole() -> None:
    journal, gate = Journal(), anyio.Event()
    async with open_scope("root") as root:

        async def attach() -> None:
            with pytest.raises(ScopeClosed):
                await root.effect("a", journal.part("a", entering=gate, deaf=True))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attach)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(root.dispose)
            await anyio.wait_all_tasks_blocked()
            gate.set()
    assert journal == ["a enters", "a entered", "a leaves", "a left"]


async def test_disposing_before_an_effect_has_begun_to_load_does_not_wait_for_ever() -> None:
    journal = Journal()
    with anyio.fail_after(5):
        async with open_scope("root") as root:

            async def attach() -> None:
                with pytest.raises(ScopeClosed):
                    await root.effect("a", journal.part("a", entering=anyio.Event()))

            async with anyio.create_task_group() as tasks:
                # Both in one tick: the effect's own task has not run when the disposal comes.
                tasks.start_soon(attach)
                tasks.start_soon(root.dispose)
    assert "a entered" not in journal


async def test_an_effect_that_dies_in_use_takes_its_tree_down_and_the_rest_is_undone() -> None:
    journal, trigger = Journal(), anyio.Event()

    @asynccontextmanager
    async def mortal() -> AsyncIterator[None]:
        async def crash() -> None:
            await trigger.wait()
            raise OSError("the reader died")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crash)
            yield

    async def live() -> None:
        async with open_scope("root") as root:
            await root.effect("a", journal.part("a"))
            await root.effect("mortal", mortal())
            trigger.set()
            await anyio.sleep_forever()

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        await live()
    assert caught.group_contains(OSError, match="the reader died")
    assert journal[-1] == "a left"


async def test_an_effect_that_ends_by_itself_is_a_failure_and_not_a_silent_loss() -> None:
    @asynccontextmanager
    async def leaver() -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.lowlevel.checkpoint)
            tasks.cancel_scope.cancel()
            yield

    async def live() -> None:
        async with open_scope("root") as root:
            await root.effect("leaver", leaver())
            await anyio.sleep_forever()

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        await live()
    assert caught.group_contains(RuntimeError, match="leaver ended although nobody had undone it")


@pytest.mark.parametrize("state", State)
def test_a_move_that_the_table_does_not_list_raises_with_state_and_move(state: State) -> None:
    for target in State:
        if target in MOVES[state]:
            assert advance("x", state, target) is target
        else:
            with pytest.raises(Exception, match=f"the move '{target}' is not allowed in state '{state}'"):
                advance("x", state, target)

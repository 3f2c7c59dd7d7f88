"""Loads and closes of one session happen in the order in which they were read, whatever becomes of each."""

from __future__ import annotations

import anyio
import pytest

from acp_bridge.bridge.changes import Changes

pytestmark = pytest.mark.anyio

ID = "session"


async def test_places_are_entered_in_the_order_they_were_taken_and_others_wait_for_the_last() -> None:
    changes = Changes()
    first, second = changes.place(ID), changes.place(ID)
    happened: list[str] = []

    async def settled() -> None:
        await changes.settled(ID)
        happened.append("settled")

    async def enter_second() -> None:
        async with second:
            happened.append("second")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settled)
            tasks.start_soon(enter_second)
            await anyio.wait_all_tasks_blocked()
            async with first:
                await anyio.wait_all_tasks_blocked()
                happened.append("first")
    assert happened == ["first", "second", "settled"]
    assert not changes.under_way(ID)


async def test_a_place_that_is_given_up_lets_nobody_pass_those_before_it() -> None:
    changes = Changes()
    first, given_up = changes.place(ID), changes.place(ID)
    happened: list[str] = []

    async def enter_last() -> None:
        async with changes.place(ID):
            happened.append("last")

    with anyio.fail_after(5):
        async with first, anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with given_up:
                    pytest.fail("it was entered although the one before it is not over")
            assert changes.under_way(ID)
            tasks.start_soon(enter_last)
            await anyio.wait_all_tasks_blocked()
            assert happened == []
            tasks.cancel_scope.cancel()
        async with changes.place(ID):
            happened.append("next")
    assert happened == ["next"]
    assert not changes.under_way(ID)


async def test_sessions_do_not_wait_for_each_other_and_a_failed_change_frees_the_way() -> None:
    changes = Changes()
    with anyio.fail_after(5), pytest.raises(OSError, match="no disk"):
        async with changes.place("one"), changes.place("other"):
            raise OSError("no disk")
    assert not changes.under_way("one")
    with anyio.fail_after(5):
        await changes.settled("one")

"""The abort signal: a passive flag, and scopes that go with it (contracts §2.7)."""

from __future__ import annotations

import anyio
import pytest

from acp_bridge.session.events import AbortReason
from acp_bridge.session.signal import Signal

pytestmark = pytest.mark.anyio

USER = AbortReason("user")


async def test_the_first_cause_wins_and_wakes_whoever_waits() -> None:
    signal = Signal()
    assert not signal.aborted
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(signal.wait)
        signal.abort(USER)
        signal.abort(AbortReason("parent"))
    assert (signal.aborted, signal.cause) == (True, USER)


async def test_an_abort_cancels_what_runs_under_it_and_what_comes_later_but_nothing_outside() -> None:
    signal = Signal()
    entered = anyio.Event()

    async def under() -> None:
        with signal.cancels() as scope:
            entered.set()
            await anyio.sleep_forever()
        assert scope.cancelled_caught

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(under)
            await entered.wait()
            signal.abort(USER)
        with signal.cancels():
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()


async def test_work_that_ended_is_not_touched_by_a_later_abort() -> None:
    signal = Signal()
    with signal.cancels():
        pass
    signal.abort(USER)
    await anyio.lowlevel.checkpoint()

"""Scopes: siblings at once, a composite one by one, nothing lost and nothing left (design §4, contracts §10.3)."""

from __future__ import annotations

import anyio
import pytest

from acp_bridge.errors import ScopeClosed
from acp_bridge.lifecycle.scope import Node, Scope, open_scope
from tests.lifecycle.parts import Journal

pytestmark = pytest.mark.anyio


async def test_siblings_start_to_unload_in_reverse_and_do_not_wait_for_each_other() -> None:
    journal, gate = Journal(), anyio.Event()
    async with open_scope("root") as root:
        for name in ("a", "b", "c"):
            await root.effect(name, journal.part(name, leaving=gate))
        journal.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(root.dispose)
            await anyio.wait_all_tasks_blocked()
            assert journal == ["c leaves", "b leaves", "a leaves"]
            gate.set()


async def test_a_composite_unloads_in_reverse_and_each_part_has_finished_before_the_next_begins() -> None:
    journal, gate = Journal(), anyio.Event()
    async with open_scope("root") as root:
        await root.composite("product", [journal.make("a"), journal.make("b", leaving=gate), journal.make("c")])
        assert journal[1::2] == ["a entered", "b entered", "c entered"]
        journal.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(root.dispose)
            await anyio.wait_all_tasks_blocked()
            assert journal == ["c leaves", "c left", "b leaves"]
            gate.set()
    assert journal == ["c leaves", "c left", "b leaves", "b left", "a leaves", "a left"]


async def test_a_half_done_composite_unwinds_in_reverse_at_once() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        parts = [journal.make("a"), journal.make("b"), journal.make("c", fails_entering=OSError("no disk"))]
        with pytest.raises(OSError, match="no disk"):
            await root.composite("product", parts)
        assert journal[4:] == ["c enters", "b leaves", "b left", "a leaves", "a left"]
        assert root.describe() == Node("root", "active")


async def test_what_fails_while_a_half_done_composite_unwinds_is_raised_with_the_first_cause() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        first, second = OSError("no disk"), RuntimeError("stuck")
        parts = [journal.make("a", fails_leaving=second), journal.make("b", fails_entering=first)]
        with pytest.raises(BaseExceptionGroup) as caught:
            await root.composite("product", parts)
        assert caught.value.exceptions == (first, second)


async def test_disposing_while_a_composite_loads_unwinds_what_had_been_entered() -> None:
    journal = Journal()
    async with open_scope("root") as root:

        async def attach() -> None:
            with pytest.raises(ScopeClosed):
                await root.composite("product", [journal.make("a"), journal.make("b", entering=anyio.Event())])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attach)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(5):
                await root.dispose()
    assert journal == ["a enters", "a entered", "b enters", "a leaves", "a left"]


async def test_cancellation_does_not_break_the_order_of_a_composite() -> None:
    journal = Journal()

    async def live(task_status: anyio.abc.TaskStatus[None]) -> None:
        async with open_scope("root") as root:
            await root.composite("product", [journal.make("a"), journal.make("b")])
            task_status.started()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        await tasks.start(live)
        tasks.cancel_scope.cancel()
    assert journal[4:] == ["b leaves", "b left", "a leaves", "a left"]


async def test_a_part_that_hangs_does_not_eat_the_time_of_the_parts_before_it() -> None:
    journal = Journal()

    async def live() -> None:
        async with open_scope("root") as root:
            parts = [journal.make("a"), journal.make("stuck", leaving=anyio.Event()), journal.make("c")]
            await root.composite("product", parts, undo_seconds=0.01)

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        await live()
    assert caught.group_contains(Exception, match="'stuck' did not finish its undo within 0.01 s")
    assert journal[-1] == "a left"


async def test_failures_of_siblings_are_gathered_and_every_sibling_is_undone() -> None:
    journal = Journal()
    one, two = OSError("one"), OSError("two")

    async def live() -> None:
        async with open_scope("root") as root:
            await root.effect("a", journal.part("a", fails_leaving=one))
            await root.effect("b", journal.part("b"))
            await root.effect("c", journal.part("c", fails_leaving=two))

    with pytest.raises(BaseExceptionGroup) as caught:
        await live()
    assert set(caught.value.exceptions) == {one, two}
    assert "scope root: 2 of its effects failed" in str(caught.value)
    assert "b left" in journal


async def test_every_dispose_raises_the_failure_of_the_first() -> None:
    async with anyio.create_task_group() as tasks:
        scope = Scope("bare", tasks)
        await scope.effect("a", Journal().part("a", fails_leaving=OSError("busy")))
        for _ in range(2):
            with pytest.raises(BaseExceptionGroup, match="1 of its effects"):
                await scope.dispose()


async def test_a_disposed_scope_refuses_new_effects() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        await root.dispose()
        with pytest.raises(ScopeClosed) as caught:
            await root.effect("late", journal.part("late"))
        assert (caught.value.scope, caught.value.effect) == ("root", "late")
    assert journal == []


async def test_what_the_body_raises_comes_out_as_it_is_after_the_disposal() -> None:
    journal = Journal()

    async def live() -> None:
        async with open_scope("root") as root:
            await root.effect("a", journal.part("a"))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await live()
    assert journal[-1] == "a left"


async def test_a_child_scope_goes_with_its_parent_or_ahead_of_it_and_then_leaves_no_trace() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        ahead, later = await root.child("ahead"), await root.child("later")
        await ahead.effect("a", journal.part("a"))
        await later.effect("b", journal.part("b"))
        await root.detach(ahead)
        assert journal[-1] == "a left"
        assert ahead.closed
        assert [child.name for child in root.describe().children] == ["later"]
        await root.detach(ahead)
    assert journal.count("a leaves") == 1
    assert journal[-1] == "b left"


async def test_a_failure_of_a_detached_child_is_raised_there_and_not_again_by_the_parent() -> None:
    async with open_scope("root") as root:
        child = await root.child("child")
        await child.effect("a", Journal().part("a", fails_leaving=OSError("busy")))
        with pytest.raises(BaseExceptionGroup) as caught:
            await root.detach(child)
        assert caught.group_contains(OSError, match="busy")


async def test_the_parent_waits_for_a_child_that_is_being_detached() -> None:
    journal, gate = Journal(), anyio.Event()
    async with open_scope("root") as root:
        child = await root.child("child")
        await child.effect("a", journal.part("a", leaving=gate))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(root.detach, child)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(root.dispose)
            await anyio.wait_all_tasks_blocked()
            assert not root._disposal.is_set()  # type: ignore[union-attr]  # begun above
            gate.set()
    assert journal[-1] == "a left"


async def test_the_live_tree_can_be_compared_whole() -> None:
    journal = Journal()
    async with open_scope("root") as root:
        child = await root.child("session 1")
        await child.effect("agent", journal.part("agent"))
        await root.composite("product", [journal.make("a"), ("inner", lambda: open_scope("inner"))])
        assert root.describe() == Node(
            "root",
            "active",
            (
                Node("session 1", "active", (Node("agent", "active"),)),
                Node("product", "active", (Node("a", "active"), Node("inner", "active"))),
            ),
        )
    assert root.describe().state == "disposed"

"""Plugins that wait, reload and fail: the life of a mount (design §4; contracts §10.1, §10.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from acp_bridge.errors import PluginRejected
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, Kernel, Mount, ServiceKey
from acp_bridge.lifecycle.scope import Node, Scope, open_scope
from acp_bridge.lifecycle.states import State
from tests.lifecycle import specs
from tests.lifecycle.parts import Journal

pytestmark = pytest.mark.anyio

CLOCK = ServiceKey[str]("clock")
BELL = ServiceKey[str]("bell")


class Part:
    """Writes its comings and goings, and what it found, into the journal."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        *,
        needs: tuple[ServiceKey[Any], ...] = (),
        provides: dict[ServiceKey[Any], Any] | None = None,
        on_mount: Callable[[], Awaitable[object]] | None = None,
        leaving: anyio.Event | None = None,
    ) -> None:
        self.name = name
        self.needs = needs
        self._journal = journal
        self._provides = provides or {}
        self._on_mount = on_mount
        self._leaving = leaving

    async def mount(self, context: Context) -> None:
        await context.effect("own", self._journal.part(self.name, leaving=self._leaving))
        found = [str(context.require(key)) for key in self.needs]
        if found:
            self._journal.append(f"{self.name} found {' '.join(found)}")
        for key, value in self._provides.items():
            context.provide(key, value)
        if self._on_mount is not None:
            await self._on_mount()

    @hookimpl
    def heard(self, word: str) -> None:
        self._journal.append(f"{self.name} heard {word}")


class Tree:
    """Plugins as siblings in a scope, as the composition mounts them."""

    def __init__(self, kernel: Kernel, scope: Scope) -> None:
        self.kernel = kernel
        self._scope = scope

    async def mount(self, part: Part, **options: Any) -> Mount:
        manager = self.kernel.mounted(part, vital=False, undo_seconds=1, **options)
        return await self._scope.effect(part.name, manager)

    async def undo(self, mount: Mount) -> None:
        await self._scope.detach(mount)

    def states(self) -> dict[str, str]:
        return {name: mount.state.value for name, mount in self.kernel.mounts.items()}


@asynccontextmanager
async def tree() -> AsyncIterator[Tree]:
    kernel = Kernel(specs, Silent())
    async with open_scope("root") as root:
        yield Tree(kernel, root)
    assert kernel.mounts == {}
    assert not any(kernel.hooks.listening(spec) for spec in (specs.heard, specs.told, specs.asked, specs.wrapped))


async def settled() -> None:
    await anyio.wait_all_tasks_blocked()


async def test_a_plugin_waits_for_what_it_needs_and_loads_when_that_comes() -> None:
    journal = Journal()
    async with tree() as plugins:
        await plugins.mount(Part("bell", journal, needs=(CLOCK,)))
        assert plugins.states() == {"bell": "pending"}
        assert plugins.kernel.mounts["bell"].waits_for == ("clock",)
        plugins.kernel.hooks.emit(specs.heard, "early")
        assert journal == []
        await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}))
        await settled()
        assert plugins.states() == {"bell": "active", "clock": "active"}
        assert "bell found noon" in journal


async def test_a_service_is_seen_only_once_its_provider_has_loaded() -> None:
    journal, loading = Journal(), anyio.Event()
    async with tree() as plugins, anyio.create_task_group() as tasks:
        await plugins.mount(Part("bell", journal, needs=(CLOCK,)))
        slow = Part("clock", journal, provides={CLOCK: "noon"}, on_mount=loading.wait)
        tasks.start_soon(plugins.mount, slow)
        await settled()
        assert plugins.states() == {"bell": "pending", "clock": "loading"}
        loading.set()
        await settled()
        assert plugins.states() == {"bell": "active", "clock": "active"}


async def test_dependents_have_unloaded_before_their_provider_begins_to() -> None:
    """A chain of three: the last one is slow to go, and the first one waits for it with all its own effects up."""
    journal, gate = Journal(), anyio.Event()
    async with tree() as plugins, anyio.create_task_group() as tasks:
        clock = await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}))
        await plugins.mount(Part("bell", journal, needs=(CLOCK,), provides={BELL: "ding"}))
        await plugins.mount(Part("ear", journal, needs=(BELL,), leaving=gate))
        del journal[:]
        tasks.start_soon(plugins.undo, clock)
        await settled()
        assert journal == ["ear leaves"]
        assert plugins.kernel.get(CLOCK) is None
        gate.set()
        await settled()
        assert journal == ["ear leaves", "ear left", "bell leaves", "bell left", "clock leaves", "clock left"]
        assert plugins.states() == {"bell": "pending", "ear": "pending"}


async def test_a_replaced_provider_reloads_its_dependents_with_the_new_service() -> None:
    journal = Journal()
    async with tree() as plugins:
        clock = await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}))
        await plugins.mount(Part("bell", journal, needs=(CLOCK,)))
        await plugins.undo(clock)
        await plugins.mount(Part("other clock", journal, provides={CLOCK: "midnight"}))
        await settled()
        assert plugins.states() == {"bell": "active", "other clock": "active"}
    assert [line for line in journal if "found" in line] == ["bell found noon", "bell found midnight"]


async def test_a_whole_tree_goes_with_providers_last_whatever_order_they_came_in() -> None:
    journal = Journal()
    async with tree() as plugins:
        await plugins.mount(Part("ear", journal, needs=(BELL,)))
        await plugins.mount(Part("bell", journal, needs=(CLOCK,), provides={BELL: "ding"}))
        await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}))
        await settled()
        del journal[:]
    assert [line for line in journal if line.endswith("left")] == ["ear left", "bell left", "clock left"]


async def test_a_need_that_goes_during_loading_takes_the_loading_back() -> None:
    journal, never = Journal(), anyio.Event()
    async with tree() as plugins, anyio.create_task_group() as tasks:
        clock = await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}))
        tasks.start_soon(plugins.mount, Part("bell", journal, needs=(CLOCK,), on_mount=never.wait))
        await settled()
        await plugins.undo(clock)
        assert plugins.states() == {"bell": "pending"}
        assert journal[-4:] == ["bell leaves", "bell left", "clock leaves", "clock left"]


async def test_a_plugin_that_fails_when_it_is_loaded_again_fails_alone_and_is_remembered() -> None:
    journal = Journal()

    async def fails() -> None:
        raise OSError("no bell")

    async with tree() as plugins:
        await plugins.mount(Part("bell", journal, needs=(CLOCK,), on_mount=fails))
        await plugins.mount(Part("other", journal))
        await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}))
        await settled()
        assert plugins.states() == {"bell": "failed", "other": "active", "clock": "active"}
        assert str(plugins.kernel.mounts["bell"].failure) == "no bell"
        assert not any(line.startswith("bell heard") for line in journal)


async def test_a_plugin_of_which_a_part_dies_in_use_is_failed_and_its_dependents_go_first() -> None:
    journal = Journal()

    @asynccontextmanager
    async def dies(when: anyio.Event) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:

            async def die() -> None:
                await when.wait()
                raise OSError("struck by lightning")

            tasks.start_soon(die)
            yield

    class Mortal(Part):
        async def mount(self, context: Context) -> None:
            await context.effect("mortal", dies(struck))
            await super().mount(context)

    struck = anyio.Event()
    async with tree() as plugins:
        await plugins.mount(Mortal("clock", journal, provides={CLOCK: "noon"}))
        await plugins.mount(Part("bell", journal, needs=(CLOCK,)))
        struck.set()
        with anyio.fail_after(5):
            # A cancellation on its way counts as blocked.
            while plugins.states() != {"clock": "failed", "bell": "pending"}:
                await settled()
        assert plugins.kernel.get(CLOCK) is None


async def test_a_vital_plugin_does_not_wait_and_its_failure_is_the_trees() -> None:
    journal = Journal()
    kernel = Kernel(specs, Silent())
    with pytest.raises(PluginRejected, match="no mounted plugin provides it"):
        async with kernel.mounted(Part("bell", journal, needs=(CLOCK,))):
            pytest.fail("it was mounted")
    assert (journal, kernel.mounts) == ([], {})


async def test_a_plugin_that_reloads_keeps_its_place_among_the_listeners() -> None:
    journal = Journal()
    async with tree() as plugins:
        clock = await plugins.mount(Part("clock", journal, provides={CLOCK: "noon"}), order=3)
        await plugins.mount(Part("first", journal, needs=(CLOCK,)), order=1)
        await plugins.mount(Part("second", journal), order=2)
        await plugins.undo(clock)
        await plugins.mount(Part("clock", journal, provides={CLOCK: "one"}), order=3)
        await settled()
        del journal[:]
        plugins.kernel.hooks.emit(specs.heard, "x")
        assert journal == ["first heard x", "second heard x", "clock heard x"]


async def test_a_plugin_for_one_session_hears_that_session_only() -> None:
    journal = Journal()
    async with tree() as plugins:
        await plugins.mount(Part("all", journal))
        await plugins.mount(Part("one", journal), session="s1")
        hooks = plugins.kernel.hooks
        one, two = hooks.of("s1"), hooks.of("s2")
        del journal[:]
        one.emit(specs.heard, "1")
        two.emit(specs.heard, "2")
        hooks.emit(specs.heard, "general")
        assert journal == ["all heard 1", "one heard 1", "all heard 2", "all heard general"]
        await plugins.mount(Part("late", journal), session="s2")
        del journal[:]
        two.emit(specs.heard, "2")
        assert journal == ["all heard 2", "late heard 2"]


async def test_the_tree_shows_who_waits_and_who_failed() -> None:
    journal = Journal()
    kernel = Kernel(specs, Silent())
    async with open_scope("root") as root:
        plugins = Tree(kernel, root)
        await plugins.mount(Part("bell", journal, needs=(CLOCK,)))
        await plugins.mount(Part("other", journal))
        own = (Node("own", "active"),)
        assert root.describe() == Node("root", "active", (Node("bell", "pending"), Node("other", "active", own)))


class Injected(Exception):
    """What a test lets fail."""


class Steps:
    """Counts every step that the parts of a tree take, and at one of them fails, or has the tree cancelled."""

    def __init__(self, at: int, how: str) -> None:
        self.taken = 0
        self.cancel: Callable[[], None] = lambda: None
        self._at = at
        self._how = how

    async def step(self) -> None:
        self.taken += 1
        if self.taken == self._at:
            if self._how == "fails":
                raise Injected(f"step {self._at}")
            self.cancel()
        await anyio.lowlevel.checkpoint()


class Balance:
    """What is attached now; empty when nothing leaks."""

    def __init__(self, steps: Steps) -> None:
        self.attached: list[str] = []
        self._steps = steps

    @asynccontextmanager
    async def part(self, name: str) -> AsyncIterator[str]:
        await self._steps.step()
        self.attached.append(name)
        try:
            await self._steps.step()
            yield name
        finally:
            try:
                await self._steps.step()
            finally:
                self.attached.remove(name)


class Stepping:
    def __init__(self, name: str, balance: Balance, needs: Any = (), provides: Any = None) -> None:
        self.name, self.needs = name, needs
        self._balance, self._provides = balance, provides

    async def mount(self, context: Context) -> None:
        await context.effect("a", self._balance.part(f"{self.name} a"))
        child = await context.scope.child("child")
        await child.composite("composite", [(part, partial(self._balance.part, part)) for part in ("b", "c")])
        if self._provides:
            context.provide(self._provides, self.name)

    @hookimpl
    def heard(self, word: str) -> None: ...


async def _decided(kernel: Kernel, name: str) -> None:
    while kernel.mounts[name].state not in (State.ACTIVE, State.FAILED):
        await anyio.lowlevel.checkpoint()


async def _whole_life(steps: Steps, balance: Balance, kernel: Kernel) -> None:
    """Three plugins, one waiting for another; the provider is taken away, comes back, and all goes down."""
    async with open_scope("root", undo_seconds=1) as root:

        async def mount(plugin: Any, *, vital: bool = False) -> Mount:
            return await root.effect(plugin.name, kernel.mounted(plugin, vital=vital, undo_seconds=1))

        await mount(Stepping("dependent", balance, needs=(CLOCK,)))
        clock = await mount(Stepping("clock", balance, provides=CLOCK))
        await _decided(kernel, "dependent")
        await mount(Stepping("vital", balance), vital=True)
        await root.detach(clock)
        await mount(Stepping("new clock", balance, provides=CLOCK))
        await _decided(kernel, "dependent")


async def _lived(at: int, how: str) -> int:
    steps = Steps(at, how)
    balance = Balance(steps)
    kernel = Kernel(specs, Silent())
    with anyio.fail_after(10):
        raised: BaseException | None = None
        try:
            with anyio.CancelScope() as outside:
                steps.cancel = outside.cancel
                await _whole_life(steps, balance, kernel)
        except (Injected, BaseExceptionGroup) as error:
            raised = error
    assert raised is None or (how == "fails" and _only_injected(raised)), f"step {at} {how}: {raised!r}"
    assert balance.attached == [], f"step {at} {how}"
    assert kernel.mounts == {}
    assert kernel.get(CLOCK) is None
    assert not kernel.hooks.listening(specs.heard)
    return steps.taken


def _only_injected(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_only_injected, error.exceptions))
    return isinstance(error, Injected)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_whatever_fails_or_is_cancelled_at_any_step_of_a_tree_nothing_stays_attached(how: str) -> None:
    count = await _lived(0, how)
    assert count == 5 * 9  # five loadings of three parts, three steps each
    for at in range(1, count + 1):
        await _lived(at, how)


def test_the_states_of_a_mount_are_moves_of_the_table() -> None:
    """Loaded, unloaded for a need, loaded again, gone: as `advance` allows it."""
    from acp_bridge.lifecycle.states import advance

    state = State.PENDING
    for target in ("loading", "active", "unloading", "pending", "loading", "pending", "loading", "failed", "disposed"):
        state = advance("p", state, State(target))
    assert state is State.DISPOSED

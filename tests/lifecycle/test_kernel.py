"""Mounting plugins: needs, services, and removal without a trace (design §4, contracts §10.5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from acp_bridge.errors import PluginRejected
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, Kernel, Plugin, ServiceKey
from tests.lifecycle import specs
from tests.lifecycle.parts import Journal

pytestmark = pytest.mark.anyio

CLOCK = ServiceKey[str]("clock")


class Simple:
    def __init__(
        self,
        name: str,
        *,
        needs: tuple[ServiceKey[Any], ...] = (),
        mount: Callable[[Context], Awaitable[object]] | None = None,
    ) -> None:
        self.name = name
        self.needs = needs
        self._mount = mount
        self.heard_words: list[str] = []

    async def mount(self, context: Context) -> None:
        if self._mount is not None:
            await self._mount(context)

    @hookimpl
    def heard(self, word: str) -> None:
        self.heard_words.append(word)


def providing(time: str) -> Callable[[Context], Awaitable[None]]:
    async def mount(context: Context) -> None:
        context.provide(CLOCK, time)

    return mount


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(specs, Silent())


def test_a_plugin_of_the_usual_shape_fits_the_protocol() -> None:
    assert isinstance(Simple("a"), Plugin)


async def test_an_unmet_need_rejects_the_plugin_before_anything_changes(kernel: Kernel) -> None:
    plugin = Simple("clocked", needs=(CLOCK,))
    with pytest.raises(PluginRejected) as caught:
        async with kernel.mounted(plugin):
            pytest.fail("it was mounted")
    assert (caught.value.plugin, caught.value.what) == ("clocked", "need clock")
    assert not kernel.hooks.listening(specs.heard)


async def test_a_service_is_there_for_later_plugins_and_goes_with_its_provider(kernel: Kernel) -> None:
    found = []

    async def find(context: Context) -> None:
        found.append(context.require(CLOCK))

    provider = Simple("provider", mount=providing("noon"))
    async with kernel.mounted(provider), kernel.mounted(Simple("consumer", needs=(CLOCK,), mount=find)):
        assert kernel.get(CLOCK) == "noon"
    assert found == ["noon"]
    assert kernel.get(CLOCK) is None


async def test_a_second_provider_is_rejected_and_the_first_one_stays(kernel: Kernel) -> None:
    async with kernel.mounted(Simple("first", mount=providing("noon"))):
        with pytest.raises(PluginRejected) as caught:
            async with kernel.mounted(Simple("second", mount=providing("midnight"))):
                pytest.fail("it was mounted")
        assert (caught.value.plugin, caught.value.what) == ("second", "service clock")
        assert kernel.get(CLOCK) == "noon"


async def test_a_mount_that_fails_half_way_is_unwound_whole(kernel: Kernel) -> None:
    journal = Journal()

    async def mount(context: Context) -> None:
        await context.effect("a", journal.part("a"))
        context.provide(CLOCK, "noon")
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        async with kernel.mounted(Simple("broken", mount=mount)):
            pytest.fail("it was mounted")
    assert journal[-1] == "a left"
    assert kernel.get(CLOCK) is None
    assert not kernel.hooks.listening(specs.heard)


async def test_hooks_of_a_plugin_are_still_heard_while_its_own_effects_come_to_rest(kernel: Kernel) -> None:
    journal, gate = Journal(), anyio.Event()
    plugin = Simple("a", mount=lambda context: context.effect("slow", journal.part("slow", leaving=gate)))

    async def live(mounted: anyio.Event, end: anyio.Event) -> None:
        async with kernel.mounted(plugin):
            mounted.set()
            await end.wait()

    async with anyio.create_task_group() as tasks:
        mounted, end = anyio.Event(), anyio.Event()
        tasks.start_soon(live, mounted, end)
        await mounted.wait()
        end.set()
        await anyio.wait_all_tasks_blocked()
        assert journal[-1] == "slow leaves"
        kernel.hooks.emit(specs.heard, "last words")
        gate.set()
    kernel.hooks.emit(specs.heard, "too late")
    assert plugin.heard_words == ["last words"]


async def test_the_deadline_of_a_mounted_plugin_bounds_its_own_effects(kernel: Kernel) -> None:
    stuck = Journal().part("stuck", leaving=anyio.Event())
    plugin = Simple("a", mount=lambda context: context.effect("stuck", stuck))
    with anyio.fail_after(3):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with kernel.mounted(plugin, undo_seconds=0.01):
                pass
    assert caught.group_contains(Exception, match="within 0.01 s")


async def test_a_failing_observer_is_written_down_and_hurts_nobody() -> None:
    class Notes(Silent):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def failure(self, what: str, error: BaseException) -> None:
            self.lines.append(f"{what}: {error}")

    class Broken(Simple):
        @hookimpl
        def heard(self, word: str) -> None:
            raise ValueError(word)

    notes = Notes()
    kernel = Kernel(specs, notes)
    other = Simple("other")
    async with kernel.mounted(Broken("broken")), kernel.mounted(other):
        kernel.hooks.emit(specs.heard, "x")
    assert notes.lines == ["an observer of heard failed: x"]
    assert other.heard_words == ["x"]

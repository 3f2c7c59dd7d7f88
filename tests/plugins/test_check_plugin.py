"""`check_plugin` finds each kind of thing that a plugin can leave behind, and says at which step."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, Kernel, Plugin, ServiceKey, entered
from acp_bridge.session.events import Event
from acp_bridge.session.session import Session
from acp_bridge.testing import PluginLeaks, check_plugin
from acp_bridge.tools.registry import TOOLS, Tools
from tests.support.fakes import FakeTool

pytestmark = pytest.mark.anyio

CLOCK = ServiceKey[str]("clock")


class Part:
    name = "part"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, mount: Callable[[Context], Any], needs: tuple[ServiceKey[Any], ...] = ()) -> None:
        self._mount = mount
        self.needs = needs

    async def mount(self, context: Context) -> None:
        await self._mount(context)


def makes(mount: Callable[[Context], Any], *needs: ServiceKey[Any]) -> Callable[[], Plugin]:
    return lambda: Part(mount, needs)


async def found(make: Callable[[], Plugin], **options: Any) -> dict[str, tuple[str, ...]]:
    with anyio.fail_after(60), pytest.raises(PluginLeaks) as caught:
        await check_plugin(make, **options)
    return caught.value.problems


@asynccontextmanager
async def quiet() -> AsyncIterator[None]:
    await anyio.lowlevel.checkpoint()
    try:
        yield
    finally:
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def open_pipe(*, careful: bool) -> AsyncIterator[None]:
    """Two descriptors, and an await between opening and the `try` that closes them unless it is careful."""
    fds = os.pipe()
    try:
        if careful:
            await anyio.lowlevel.checkpoint()
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    if not careful:
        await anyio.lowlevel.checkpoint()
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


async def test_a_plugin_that_puts_everything_back_passes() -> None:
    async def mount(context: Context) -> None:
        await context.effect("pipe", open_pipe(careful=True))
        await context.effect("tool", entered(context.require(TOOLS).registered(FakeTool("look"))))
        child = await context.scope.child("child")
        await child.composite("both", [("one", quiet), ("two", lambda: open_pipe(careful=True))])
        await context.scope.detach(child)
        context.provide(CLOCK, "noon")

    await check_plugin(makes(mount, TOOLS))


async def test_each_step_meets_a_failure_and_a_cancellation_and_each_need_goes_once() -> None:
    lives: list[str] = []

    @asynccontextmanager
    async def counted() -> AsyncIterator[None]:
        lives.append("entered")
        yield

    async def mount(context: Context) -> None:
        lives.append("mounted")
        await context.effect("counted", counted())

    await check_plugin(makes(mount, TOOLS))
    # Twice in one life; before and after the loss of tools; then failures where mounting begins (never mounted), the
    # effect is about to be entered, was entered, is in use, was left, and a life without any; then a cancellation
    # and a second loading at each of these and at the leaving, where there was one.
    failures = ["about to enter", "entered", "loaded", "left", "nothing injected"]
    cancelled = ["mounting begins", "about to enter", "entered", "loaded", "about to leave", "left"]
    assert lives.count("mounted") == 2 + 2 + len(failures) + 2 * len(cancelled) + 1


async def test_a_task_that_goes_on_is_named() -> None:
    kept: list[Any] = []

    async def mount(context: Context) -> None:
        import asyncio

        kept.append(asyncio.create_task(anyio.sleep_forever(), name="heartbeat"))

    problems = await found(makes(mount))
    assert "after it was loaded" not in problems
    assert problems["the task 'heartbeat' still runs"][0] == "it was loaded and unloaded"


async def test_a_descriptor_that_is_lost_between_its_opening_and_its_try_is_found_by_a_cancellation() -> None:
    async def mount(context: Context) -> None:
        await context.effect("pipe", open_pipe(careful=False))

    problems = await found(makes(mount))
    assert all(what.startswith("a descriptor of pipe:[") for what in problems)
    circumstances = {when for whens in problems.values() for when in whens}
    assert "a cancellation where the effect 'pipe' is being entered (its await 1)" in circumstances
    assert circumstances <= {
        f"a cancellation where {where}"
        for where in (
            "its mounting begins",
            "the effect 'pipe' is about to be entered",
            "the effect 'pipe' is being entered (its await 1)",
        )
    }


async def test_a_hook_registered_behind_the_kernels_back_is_found() -> None:
    class Listener:
        @hookimpl
        def session_event(self, session: Session, event: Event) -> None: ...

    kept: list[Any] = []

    async def mount(context: Context) -> None:
        kept.append(context.hooks.registered("spy", Listener()))
        kept[-1].__enter__()

    async def mount_for_a_session(context: Context) -> None:
        kept.append(context.hooks.registered("spy", Listener(), session="s-1"))
        kept[-1].__enter__()

    problems = await found(makes(mount))
    assert "the listener 'spy' (Listener) is still registered" in problems
    assert "somebody still listens to session_event" in problems
    problems = await found(makes(mount_for_a_session))
    assert "the listener 'spy' (Listener) is still registered" in problems


async def test_an_entry_left_in_a_registry_is_found_in_a_given_one_as_well() -> None:
    kept: list[Any] = []

    def enter(context: Context, name: str) -> None:
        kept.append(context.require(TOOLS).registered(FakeTool(name)))
        kept[-1].__enter__()

    async def mount(context: Context) -> None:
        enter(context, f"tool-{len(kept)}")

    problems = await found(makes(mount, TOOLS))
    assert "the registry 'tools' still holds 'tool-0'" in problems
    given = Tools()
    await found(makes(mount, TOOLS), services={TOOLS: given})
    assert given.schemas()


async def test_an_undo_that_fails_is_told_with_what_it_raised() -> None:
    @asynccontextmanager
    async def fails() -> AsyncIterator[None]:
        yield
        raise OSError("the socket is gone")

    async def mount(context: Context) -> None:
        await context.effect("socket", fails())

    problems = await found(makes(mount))
    assert set(problems) == {"it raised OSError: the socket is gone"}
    assert problems["it raised OSError: the socket is gone"][0] == "it was loaded and unloaded"


async def test_an_undo_that_waits_for_ever_is_cut_off_and_told() -> None:
    @asynccontextmanager
    async def hangs() -> AsyncIterator[None]:
        yield
        await anyio.sleep_forever()

    async def mount(context: Context) -> None:
        await context.effect("socket", hangs())

    problems = await found(makes(mount), undo_seconds=0.05)
    (what,) = problems
    assert what.startswith("it raised UndoTimedOut: Effect 'socket' did not finish its undo within 0.05 s")


@pytest.mark.parametrize("shielded", [False, True])
async def test_one_that_hangs_when_cancelled_is_told_with_the_step_and_cannot_hang_the_check(shielded: bool) -> None:
    over = threading.Event()

    async def deaf() -> None:
        while not over.is_set():
            with suppress(BaseException):
                await anyio.sleep_forever()

    @asynccontextmanager
    async def stubborn() -> AsyncIterator[None]:
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException:
            with anyio.CancelScope(shield=shielded):
                await (anyio.to_thread.run_sync(over.wait) if shielded else deaf())
            raise
        yield

    async def mount(context: Context) -> None:
        await context.effect("stubborn", stubborn())

    problems = await found(makes(mount), seconds=0.5, undo_seconds=0.05)
    over.set()
    assert next(iter(problems)).startswith("it hangs where the effect 'stubborn' is being entered")
    assert set(problems.values()) == {("a cancellation where its mounting begins",)}


async def test_a_plugin_that_blocks_its_thread_cannot_hang_the_check() -> None:
    over = threading.Event()

    async def mount(context: Context) -> None:
        over.wait()

    problems = await found(makes(mount), seconds=0.2, undo_seconds=0.05)
    over.set()
    assert problems == {"it hangs where its mounting begins": ("it was loaded and unloaded",)}


async def test_a_plugin_that_cannot_be_loaded_is_told_once_and_why() -> None:
    async def mount(context: Context) -> None:
        raise RuntimeError("no licence")

    assert await found(makes(mount)) == {
        "it raised RuntimeError: no licence": ("it was loaded and unloaded", "it was loaded and unloaded a second time")
    }


async def test_a_need_that_nobody_gave_is_the_callers_mistake() -> None:
    async def mount(context: Context) -> None: ...

    with pytest.raises(ValueError, match=r"'part' needs clock: pass it to check_plugin as services=\{...\}"):
        await check_plugin(makes(mount, CLOCK))
    await check_plugin(makes(mount, CLOCK), services={CLOCK: "noon"})


async def test_a_plugin_that_cannot_be_loaded_again_once_its_need_is_back_is_found() -> None:
    class Once(Part):
        loaded = 0

        async def mount(self, context: Context) -> None:
            self.loaded += 1
            if self.loaded == 2:
                raise RuntimeError("was here before")

    problems = await found(lambda: Once(lambda context: None, (TOOLS,)))
    assert "it was loaded and unloaded a second time" in problems["it raised RuntimeError: was here before"]


async def test_what_is_left_behind_by_use_is_found() -> None:
    class Lamp(Part):
        def light(self) -> None:
            self.fds = os.pipe()

    async def mount(context: Context) -> None: ...

    async def use(kernel: Kernel) -> None:
        lamp = kernel.mounts["part"].plugin
        assert isinstance(lamp, Lamp)
        lamp.light()

    problems = await found(lambda: Lamp(mount), use=use)
    assert all("pipe:[" in what for what in problems)


async def test_a_failure_that_a_plugin_handles_or_translates_is_not_its_fault() -> None:
    async def handles(context: Context) -> None:
        try:
            await context.effect("optional", quiet())
        except Exception:
            context.diagnostics.note("without it, then")

    async def translates(context: Context) -> None:
        try:
            await context.effect("needed", quiet())
        except Exception as error:
            raise RuntimeError("the part did not come") from error

    async def hides(context: Context) -> None:
        try:
            await context.effect("needed", quiet())
        except Exception:
            raise ValueError("who knows") from None

    await check_plugin(makes(handles))
    await check_plugin(makes(translates))
    problems = await found(makes(hides))
    assert (
        problems["it raised ValueError: who knows"][0] == "a failure where the effect 'needed' is about to be entered"
    )


async def test_the_report_names_each_problem_once_with_its_first_circumstances() -> None:
    kept: list[AbstractAsyncContextManager[None]] = []

    async def mount(context: Context) -> None:
        kept.append(entered(context.require(TOOLS).registered(FakeTool(f"t{len(kept)}"))))
        await kept[-1].__aenter__()

    with pytest.raises(PluginLeaks) as caught:
        await check_plugin(makes(mount, TOOLS))
    lines = str(caught.value).splitlines()
    assert lines[0] == "the plugin 'part' does not come and go cleanly:"
    assert lines[1] == "  - the registry 'tools' still holds 't0'"
    assert lines[2] == "      after it was loaded and unloaded"

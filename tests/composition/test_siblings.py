"""How the mounted plugins become others: nothing that did not change is touched, and a failed one gets another try."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.wire.transport import Transport
from acp_bridge_composition.choices import Chosen
from acp_bridge_composition.order import Entry, NoSettings
from acp_bridge_composition.settings import Settings
from acp_bridge_composition.siblings import Siblings
from acp_bridge_composition.workshop import Workshop

pytestmark = pytest.mark.anyio


class Counted:
    """Counts its lives."""

    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.lives = 0

    async def mount(self, context: Context) -> None:
        self.lives += 1


def nowhere() -> AbstractAsyncContextManager[Transport]:
    raise AssertionError("nobody is connected")


def chosen(plugin: Counted, place: int) -> Chosen:
    return Chosen(Entry(plugin.name, "a test's", lambda shop, own: plugin), place, NoSettings())


def shop(tmp_path: Path) -> Workshop:
    return Workshop(Settings(tmp_path / "state", tmp_path / "config"), {}, Silent(), "0", nowhere)


async def test_what_did_not_change_stays_mounted_and_a_replacement_makes_no_later_difference(tmp_path: Path) -> None:
    first, second = Counted("first"), Counted("second")
    siblings = Siblings(shop(tmp_path))
    async with open_scope("plugins") as siblings.scope:
        wanted = (chosen(first, 1), chosen(second, 2))
        await siblings.become(wanted)
        changed = (replace(wanted[0], place=3), wanted[1])
        assert siblings.differ_from(changed)
        await siblings.become(changed)
        assert (first.lives, second.lives) == (2, 1)
        # It was loaded last now, and still nothing differs.
        assert not siblings.differ_from(changed)


async def test_a_plugin_that_failed_meanwhile_differs_and_is_loaded_again(tmp_path: Path) -> None:
    plugin = Fragile()
    siblings = Siblings(shop(tmp_path))
    async with open_scope("plugins") as siblings.scope:
        wanted = (chosen(plugin, 1),)
        await siblings.become(wanted)
        plugin.fault.set()
        await plugin.failed.wait()
        await anyio.wait_all_tasks_blocked()
        assert "failed" in str(siblings.trouble())
        assert siblings.differ_from(wanted)
        plugin.fault = anyio.Event()
        await siblings.become(wanted)
        assert plugin.lives == 2
        assert siblings.trouble() is None
        assert not siblings.differ_from(wanted)


class Fragile(Counted):
    """A background task of it dies when `fault` is set."""

    def __init__(self) -> None:
        super().__init__("fragile")
        self.fault = anyio.Event()
        self.failed = anyio.Event()

    async def mount(self, context: Context) -> None:
        await super().mount(context)
        await context.effect("watch", self._watching())

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, self.fault)
            yield
            tasks.cancel_scope.cancel()

    async def _watch(self, fault: anyio.Event) -> None:
        await fault.wait()
        self.failed.set()
        raise RuntimeError("the watch broke")

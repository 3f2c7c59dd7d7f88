"""The plugin in a kernel: hooks reach the right handle, and leaving saves everything or says what it could not."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_bridge import hookspecs
from acp_bridge.errors import CheckpointFailed, PluginRejected
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.lifecycle.scope import Node
from acp_bridge.persistence.persistence import PERSISTENCE, Persistence
from acp_bridge.session.chunks import TextDelta
from acp_bridge.session.events import AssistantChunk, StepStart, TurnStart
from acp_bridge.session.session import Session, SessionStore
from acp_bridge_plugins.persistence_jsonl import handle as handle_module
from acp_bridge_plugins.persistence_jsonl.plugin import PersistenceJsonl
from tests.persistence.helpers import Disk, Notes, header, log_path, store_at

pytestmark = pytest.mark.anyio


class World:
    def __init__(self) -> None:
        self.notes = Notes()
        self.kernel = Kernel(hookspecs, self.notes)
        self.store = SessionStore(self.kernel.hooks)

    @property
    def persistence(self) -> Persistence:
        return self.kernel.require(PERSISTENCE, "test")


@asynccontextmanager
async def mounted(root: Path) -> AsyncIterator[World]:
    world = World()
    async with world.kernel.mounted(PersistenceJsonl(root, editor_name=lambda: "Zed")):
        yield world


@asynccontextmanager
async def live(world: World, session_id: str = "s1") -> AsyncIterator[Session]:
    handle = await world.persistence.create(header(session_id))
    with world.store.entered(handle.header, ("/project",)) as session:
        yield session


async def saved(root: Path, session_id: str = "s1") -> list[str]:
    async with store_at(root) as store:
        return [event.type for event in (await store.read(session_id))[1]]


async def test_session_event_reaches_the_open_handle_and_session_flush_makes_it_durable(tmp_path: Path) -> None:
    async with mounted(tmp_path) as world, live(world) as session:
        session.log.append(TurnStart(1))
        assert not log_path(tmp_path).exists()
        assert await world.store.flush(session)
        assert await saved(tmp_path) == ["turn/start"]


async def test_a_session_without_a_handle_is_not_stored_and_flushes_all_the_same(tmp_path: Path) -> None:
    async with mounted(tmp_path) as world:
        with world.store.entered(header(), ("/project",)) as session:
            session.log.append(TurnStart(1))
            await world.store.flush(session)
        assert await world.persistence.list() == []


async def test_session_events_of_two_sessions_do_not_mix(tmp_path: Path) -> None:
    async with mounted(tmp_path) as world, live(world, "one") as one, live(world, "two") as two:
        one.log.append(TurnStart(1))
        two.log.append(TurnStart(1))
        two.log.append(StepStart(1, 1))
        await world.store.flush(one)
        assert await saved(tmp_path, "one") == ["turn/start"]
        await world.store.flush(two)
        assert await saved(tmp_path, "two") == ["turn/start", "step/start"]


async def test_a_flush_that_fails_fails_the_checkpoint_with_a_plain_reason(tmp_path: Path, disk: Disk) -> None:
    async with mounted(tmp_path) as world, live(world) as session:
        session.log.append(TurnStart(1))
        disk.fail("write", errno.ENOSPC)
        with pytest.raises(CheckpointFailed) as caught:
            await world.store.flush(session)
        assert caught.value.reason == "No space left on device"
        await world.store.flush(session)
        assert await saved(tmp_path) == ["turn/start"]


async def test_session_pressure_waits_for_the_disk_and_fails_when_it_is_full(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle_module, "MOST_UNSAVED", 500)
    async with mounted(tmp_path) as world, live(world) as session:
        for _ in range(20):
            session.log.append(AssistantChunk(1, 1, TextDelta(0, "word")))
        disk.fail("write", errno.ENOSPC)
        with pytest.raises(CheckpointFailed, match="No space left"):
            await world.kernel.hooks.serial(hookspecs.session_pressure, session)
        await world.kernel.hooks.serial(hookspecs.session_pressure, session)
        assert len(await saved(tmp_path)) == 20


async def test_leaving_saves_what_is_not_saved_yet(tmp_path: Path) -> None:
    async with mounted(tmp_path) as world:
        for session_id in ("one", "two"):
            async with live(world, session_id) as session:
                session.log.append(TurnStart(1))
    assert world.kernel.get(PERSISTENCE) is None
    assert await saved(tmp_path, "one") == ["turn/start"]
    assert await saved(tmp_path, "two") == ["turn/start"]


async def leave_with_one_file_deleted(root: Path) -> None:
    async with mounted(root) as world:
        for session_id in ("healthy", "failing"):
            handle = await world.persistence.create(header(session_id))
            await handle.flush()
            with world.store.entered(handle.header, ("/project",)) as session:
                session.log.append(TurnStart(1))
        log_path(root, "failing").unlink()


async def test_leaving_raises_what_could_not_be_saved_and_saves_the_rest(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await leave_with_one_file_deleted(tmp_path)
    assert caught.value.subgroup(FileNotFoundError) is not None
    assert await saved(tmp_path, "healthy") == ["turn/start"]
    async with store_at(tmp_path) as store:
        await store.open("healthy")


async def test_a_closed_session_is_free_for_the_next_owner(tmp_path: Path) -> None:
    async with mounted(tmp_path) as world:
        handle = await world.persistence.create(header())
        await handle.flush()
        await handle.close()
        again = await world.persistence.open("s1")
        with world.store.entered(again.header, ("/project",), await again.read()) as session:
            session.log.append(TurnStart(1))
            await world.store.flush(session)
        assert await saved(tmp_path) == ["turn/start"]


async def test_a_root_that_is_a_file_is_refused_before_anything_is_attached(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("x")
    world = World()
    plugin = PersistenceJsonl(tmp_path / "root")
    with pytest.raises(PluginRejected, match="not a directory"):
        await world.kernel.mounted(plugin).__aenter__()
    assert world.kernel.get(PERSISTENCE) is None


async def test_what_is_attached_can_be_seen_and_is_gone_afterwards(tmp_path: Path) -> None:
    world = World()
    async with world.kernel.mounted(PersistenceJsonl(tmp_path)) as mount:
        assert mount.describe() == Node("persistence_jsonl", "active", (Node("write handles", "active"),))
        assert world.kernel.hooks.listening(hookspecs.session_event)
    assert not world.kernel.hooks.listening(hookspecs.session_event)

"""Handles and the store: who may open what, and what is read back (contracts §5.1)."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import anyio
import pytest

from acp_bridge.errors import (
    LogCorrupt,
    SessionAlreadyExists,
    SessionAlreadyOwned,
    SessionClosed,
    SessionNotFound,
)
from acp_bridge.session.events import Header
from tests.persistence.helpers import (
    Disk,
    chunk,
    chunks,
    header,
    log_bytes,
    log_path,
    store_at,
    stored,
    turn,
)

pytestmark = pytest.mark.anyio


async def test_a_created_session_leaves_no_trace_until_something_is_saved(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    async with store_at(root) as store:
        handle = await store.create(header())
        assert await store.read("s1") == (header(), [])
        assert [s.header.id for s in await store.list()] == ["s1"]
        assert await handle.read() == []
        await handle.close()
        assert not root.exists()
        with pytest.raises(SessionNotFound):
            await store.open("s1")
        await store.create(header())


async def test_a_flush_saves_an_empty_session_as_its_header(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.flush()
        assert log_path(tmp_path).read_bytes() == log_bytes()
        await handle.flush()
        assert log_path(tmp_path).read_bytes() == log_bytes()
    async with store_at(tmp_path) as store:
        assert await store.read("s1") == (header(), [])


async def test_the_file_is_the_header_frame_and_one_frame_per_batch(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(turn())
        await handle.append(chunks(6, 9))
        await handle.append([])
        await handle.close()
    assert log_path(tmp_path).read_bytes() == log_bytes(turn(), chunks(6, 9))


async def test_another_instance_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        await (await store.create(header())).append(turn())
    async with store_at(tmp_path) as store:
        handle = await store.open("s1")
        assert handle.header == header()
        assert await handle.read() == turn()
        await handle.append(chunks(6, 8))
        handle.admit(chunk(8))
        assert await handle.read() == turn() + chunks(6, 8) + [chunk(8)]
        await handle.flush()
        assert (await store.read("s1"))[1] == turn() + chunks(6, 8) + [chunk(8)]


async def test_opening_and_closing_changes_nothing(tmp_path: Path) -> None:
    path = stored(tmp_path, log_bytes(turn())[:-1])
    before = path.read_bytes()
    async with store_at(tmp_path) as store:
        revision = (await store.list())[0].revision
        handle = await store.open("s1")
        await handle.read()
        await handle.close()
        assert (await store.list())[0].revision == revision
    assert path.read_bytes() == before


@pytest.mark.parametrize(("seq", "due"), [(0, 6), (7, 6)])
async def test_a_batch_that_does_not_follow_is_refused_and_stores_nothing(tmp_path: Path, seq: int, due: int) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(turn())
        with pytest.raises(ValueError, match=f"event {seq} cannot be appended where event {due} is due"):
            await handle.append([chunk(seq)])
        with pytest.raises(ValueError, match="event 8 cannot be appended where event 7 is due"):
            await handle.append([chunk(6), chunk(8)])
        with pytest.raises(ValueError, match="not lossless JSON"):
            await handle.append([chunk(6), chunk(7, "\ud800")])
        assert (await store.read("s1"))[1] == turn()
        await handle.append([chunk(6)])


async def test_a_failed_append_stores_nothing_and_can_be_made_again(tmp_path: Path, disk: Disk) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(turn())
        disk.fail("fdatasync", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            await handle.append([chunk(6)])
        assert (await store.read("s1"))[1] == turn()
        await handle.append([chunk(6)])
        assert (await store.read("s1"))[1] == [*turn(), chunk(6)]


async def test_a_failed_rollback_is_one_os_error_that_says_both(tmp_path: Path, disk: Disk) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(turn())
        disk.fail("fdatasync", errno.EIO)
        disk.fail("ftruncate", errno.EROFS)
        handle.admit(chunk(6))
        with pytest.raises(OSError, match=r"Input/output error; taking it back failed too") as caught:
            await handle.flush()
        assert caught.value.errno == errno.EIO
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert await handle.read() == [*turn(), chunk(6)]
        await handle.flush()
        assert (await store.read("s1"))[1] == [*turn(), chunk(6)]


async def test_the_session_goes_on_when_the_disk_has_space_again(tmp_path: Path, disk: Disk) -> None:
    """Field case D8: no gap, no half record."""
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        disk.always("write", errno.ENOSPC)
        for seq in range(3):
            handle.admit(chunk(seq))
            with pytest.raises(OSError, match="No space left"):
                await handle.flush()
        assert not log_path(tmp_path).exists()
        disk.heal()
        await handle.flush()
        await handle.close()
        assert await (await store.open("s1")).read() == [chunk(0), chunk(1), chunk(2)]


async def test_a_deleted_directory_fails_every_flush_with_a_plain_reason(tmp_path: Path) -> None:
    """Field case D8. The events are no longer in memory, so nothing is made up in its place."""
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(turn())
        shutil.rmtree(log_path(tmp_path).parent)
        for seq in (6, 7):
            handle.admit(chunk(seq))
            with pytest.raises(FileNotFoundError, match="deleted or moved"):
                await handle.flush()
        assert not log_path(tmp_path).exists()
        with pytest.raises(FileNotFoundError, match="deleted or moved"):
            await handle.close()


async def test_a_directory_deleted_before_the_first_save_is_made_again_and_locked_again(
    tmp_path: Path, disk: Disk
) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        disk.fail("link", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            await handle.flush()
        shutil.rmtree(log_path(tmp_path).parent)
        await handle.flush()
        assert (await store.read("s1"))[1] == [chunk(0)]
        async with store_at(tmp_path) as other:
            with pytest.raises(SessionAlreadyOwned):
                await other.open("s1")


async def test_nobody_creates_a_session_twice(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store, store_at(tmp_path) as other:
        handle = await store.create(header())
        with pytest.raises(SessionAlreadyExists):
            await store.create(header())
        await handle.flush()
        with pytest.raises(SessionAlreadyExists):
            await other.create(header())
        with pytest.raises(SessionAlreadyExists):
            await other.create(header(cwd="/elsewhere"))
        await handle.close()
        with pytest.raises(SessionAlreadyExists):
            await store.create(header())


async def test_of_two_concurrent_creations_one_wins(tmp_path: Path) -> None:
    results: list[object] = []
    async with store_at(tmp_path) as store:

        async def create() -> None:
            try:
                results.append(await store.create(header()))
            except SessionAlreadyExists as error:
                results.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(create)
            tasks.start_soon(create)
    assert sum(isinstance(result, SessionAlreadyExists) for result in results) == 1


async def test_another_instance_that_saves_the_same_id_first_wins(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store, store_at(tmp_path) as other:
        late, early = await store.create(header()), await other.create(header())
        early.admit(chunk(0))
        late.admit(chunk(0, "another"))
        await early.flush()
        with pytest.raises(SessionAlreadyOwned):
            await late.flush()
        await early.close()
        with pytest.raises(FileExistsError):
            await late.flush()
        assert (await other.read("s1"))[1] == [chunk(0)]
        with pytest.raises(FileExistsError):
            await late.close()


async def test_one_writer_in_a_process_and_readers_as_many_as_like(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        with pytest.raises(SessionAlreadyOwned) as caught:
            await store.open("s1")
        assert (caught.value.pid, caught.value.editor) == (os.getpid(), "Zed")
        await handle.append(turn())
        assert (await store.read("s1"))[1] == turn()
        async with store_at(tmp_path) as other:
            with pytest.raises(SessionAlreadyOwned) as caught:
                await other.open("s1")
            assert (caught.value.pid, caught.value.editor) == (os.getpid(), "Zed")
            assert (await other.read("s1"))[1] == turn()
            await handle.close()
            await other.open("s1")


async def test_a_failed_open_releases_its_claim_and_its_lock(tmp_path: Path) -> None:
    path = stored(tmp_path, log_bytes(turn()))
    good = path.read_bytes()
    path.write_bytes(good[:-30] + bytes(30))
    async with store_at(tmp_path) as store, store_at(tmp_path) as other:
        for _ in range(2):
            with pytest.raises(LogCorrupt) as caught:
                await store.open("s1")
            assert caught.value.path == str(path)
        path.write_bytes(good)
        await other.open("s1")


@pytest.mark.parametrize("session_id", ["absent", "", "x" * 300, "../../etc", "a\x00b"])
async def test_an_id_that_is_not_stored_is_not_found(tmp_path: Path, session_id: str) -> None:
    stored(tmp_path, log_bytes())
    async with store_at(tmp_path) as store:
        for attempt in (store.open, store.read):
            with pytest.raises(SessionNotFound):
                await attempt(session_id)


async def test_a_header_that_cannot_be_stored_is_refused_at_once(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        with pytest.raises(ValueError, match="between 1 and 255"):
            await store.create(header(""))
        with pytest.raises(ValueError, match="format 1, not 2"):
            await store.create(Header(2, "s1", 0))


async def test_a_closed_handle_refuses_and_closing_again_is_fine(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(turn())
        await handle.close()
        await handle.close()
        for attempt in (handle.read, handle.flush, lambda: handle.append([])):
            with pytest.raises(SessionClosed):
                await attempt()
        with pytest.raises(SessionClosed):
            handle.admit(chunk(6))
        assert (await store.read("s1"))[1] == turn()


async def test_a_closed_store_takes_nothing_new(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        assert await store.close() == []
        with pytest.raises(SessionClosed):
            await store.create(header("s2"))
        with pytest.raises(SessionClosed):
            await store.open("s1")
        assert (await store.read("s1"))[1] == [chunk(0)]

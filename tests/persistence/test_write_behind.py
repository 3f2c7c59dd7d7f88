"""Write-behind with a clock that only the test moves: the window, flushes, failures, and the bound on memory."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from acp_bridge.session.events import StepStart
from acp_bridge_plugins.persistence_jsonl import handle as handle_module
from acp_bridge_plugins.persistence_jsonl.frames import scan
from acp_bridge_plugins.persistence_jsonl.handle import JsonlHandle
from acp_bridge_plugins.persistence_jsonl.session_file import SessionFile
from tests.persistence.helpers import Disk, HandClock, Notes, chunk, chunks, event, header, log_path, store_at

pytestmark = pytest.mark.anyio


def batches(root: Path) -> int:
    """Frames after the header's; -1 before the file exists."""
    path = log_path(root)
    return len(scan(path.read_bytes())[0]) - 1 if path.exists() else -1


async def at_rest(handle: JsonlHandle) -> None:
    """A read waits for the write under way."""
    with anyio.fail_after(5):
        await handle.read()


async def test_nothing_is_written_before_the_window_ends_and_later_events_do_not_move_it(tmp_path: Path) -> None:
    time = HandClock()
    async with store_at(tmp_path, clock=time.clock) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        await time.advance(0.150)
        handle.admit(chunk(1))
        await time.advance(0.049)
        assert batches(tmp_path) == -1
        await time.advance(0.001)
        await at_rest(handle)
        assert batches(tmp_path) == 1
        assert [e.seq for e in (await store.read("s1"))[1]] == [0, 1]


async def test_an_event_after_a_window_opens_the_next_one(tmp_path: Path) -> None:
    time = HandClock()
    async with store_at(tmp_path, clock=time.clock) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        await time.advance(0.2)
        await at_rest(handle)
        await time.advance(5)
        handle.admit(chunk(1))
        await time.advance(0.199)
        assert batches(tmp_path) == 1
        await time.advance(0.001)
        await at_rest(handle)
        assert batches(tmp_path) == 2


async def test_a_flush_bypasses_the_window_and_closes_it(tmp_path: Path) -> None:
    time = HandClock()
    async with store_at(tmp_path, clock=time.clock) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        await time.advance(0.1)
        await handle.flush()
        assert batches(tmp_path) == 1
        handle.admit(chunk(1))
        await time.advance(0.1)
        await at_rest(handle)
        assert batches(tmp_path) == 1, "the window of the flushed event is over, that of the new one is not"
        await time.advance(0.1)
        await at_rest(handle)
        assert batches(tmp_path) == 2


class Gate:
    """Holds `SessionFile.store` in its thread until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = anyio.Event()
        self.release = anyio.Event()
        self.batches: list[int] = []
        real: Callable[[SessionFile, list[bytes]], None] = SessionFile.store

        def gated(file: SessionFile, lines: list[bytes]) -> None:
            self.batches.append(len(lines))
            if len(self.batches) == 1:
                anyio.from_thread.run_sync(self.entered.set)
                anyio.from_thread.run(self.release.wait)
            real(file, lines)

        monkeypatch.setattr(SessionFile, "store", gated)


async def test_events_that_come_during_a_write_form_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, time = Gate(monkeypatch), HandClock()
    async with store_at(tmp_path, clock=time.clock) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        await time.advance(0.2)
        with anyio.fail_after(5):
            await gate.entered.wait()
        handle.admit(chunk(1))
        handle.admit(chunk(2))
        await time.advance(0.3)
        gate.release.set()
        await at_rest(handle)
        await anyio.wait_all_tasks_blocked()
        await at_rest(handle)
        assert gate.batches == [1, 2], "their window was over while the write went on, so they followed at once"


async def test_a_flush_drains_what_comes_while_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle.flush)
            with anyio.fail_after(5):
                await gate.entered.wait()
            handle.admit(chunk(1))
            gate.release.set()
        assert gate.batches == [1, 1]
        assert len((await store.read("s1"))[1]) == 2


async def test_concurrent_flushes_share_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(handle.flush)
            with anyio.fail_after(5):
                await gate.entered.wait()
            gate.release.set()
        assert gate.batches == [1]


async def test_concurrent_flushes_share_one_failure(tmp_path: Path, disk: Disk) -> None:
    failures: list[OSError] = []
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        disk.fail("write", errno.ENOSPC)

        async def flush() -> None:
            try:
                await handle.flush()
            except OSError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(flush)
        assert [error.errno for error in failures] == [errno.ENOSPC] * 3
        assert disk.calls["write"] == 1
        await handle.flush()
        assert batches(tmp_path) == 1


async def test_a_cancelled_flush_still_finishes_its_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle.flush)
            with anyio.fail_after(5):
                await gate.entered.wait()
            tasks.cancel_scope.cancel()
            gate.release.set()
        assert batches(tmp_path) == 1


async def test_a_background_failure_is_reported_once_and_nothing_is_retried_until_somebody_asks(
    tmp_path: Path, disk: Disk
) -> None:
    time, notes = HandClock(), Notes()
    async with store_at(tmp_path, clock=time.clock, diagnostics=notes) as store:
        handle = await store.create(header())
        await handle.append([chunk(0)])
        disk.always("fdatasync", errno.EIO)
        handle.admit(chunk(1))
        await time.advance(0.2)
        await at_rest(handle)
        tried = disk.calls["fdatasync"]
        for seq in range(2, 6):
            handle.admit(chunk(seq))
            await time.advance(1)
        await at_rest(handle)
        assert disk.calls["fdatasync"] == tried
        assert [type(error) for error in notes.failures] == [OSError]
        with pytest.raises(OSError, match="Input/output"):
            await handle.flush()
        disk.heal()
        await handle.flush()
        assert [e.seq for e in (await store.read("s1"))[1]] == list(range(6))
        handle.admit(chunk(6))
        await time.advance(0.2)
        await at_rest(handle)
        assert len((await store.read("s1"))[1]) == 7, "the window works again"


async def test_a_failed_batch_stays_in_front_of_later_events(tmp_path: Path, disk: Disk) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        for seq in range(3):
            handle.admit(chunk(seq))
        disk.fail("fsync", errno.ENOSPC)
        with pytest.raises(OSError, match="No space left"):
            await handle.flush()
        for seq in range(3, 6):
            handle.admit(chunk(seq))
        assert [e.seq for e in await handle.read()] == list(range(6))
        await handle.flush()
        assert [e.seq for e in (await store.read("s1"))[1]] == list(range(6))


async def test_a_full_buffer_makes_the_producer_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle_module, "MOST_UNSAVED", 2000)
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        for seq in range(10):
            handle.admit(chunk(seq))
        await handle.relieve()
        assert batches(tmp_path) == -1, "under the bound nobody waits"
        for seq in range(10, 30):
            handle.admit(chunk(seq))
        await handle.relieve()
        assert len((await store.read("s1"))[1]) == 30


async def test_a_full_buffer_and_a_full_disk_raise_instead_of_waiting_for_ever(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle_module, "MOST_UNSAVED", 1000)
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        disk.always("write", errno.ENOSPC)
        for seq in range(30):
            handle.admit(chunk(seq))
        for _ in range(2):
            with anyio.fail_after(5), pytest.raises(OSError, match="No space left"):
                await handle.relieve()
        disk.heal()
        await handle.relieve()
        assert batches(tmp_path) == 1


async def test_an_event_out_of_order_stops_the_log_and_every_flush_says_so(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        handle.admit(chunk(0))
        with pytest.raises(OSError, match="event 2 came where event 1 is due"):
            handle.admit(chunk(2))
        handle.admit(chunk(1))
        for _ in range(2):
            with pytest.raises(OSError, match="event 2 came where event 1 is due"):
                await handle.flush()
        assert [e.seq for e in (await store.read("s1"))[1]] == [0], "what came before it is saved"
        with pytest.raises(OSError, match="event 2 came"):
            await handle.close()


async def test_an_event_that_json_cannot_hold_stops_the_log_and_every_flush_says_so(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        with pytest.raises(OSError, match="not lossless JSON"):
            handle.admit(chunk(0, "lone \ud800 surrogate"))
        with pytest.raises(OSError, match="not lossless JSON"):
            await handle.flush()
        with pytest.raises(OSError, match="not lossless JSON"):
            await handle.close()


async def test_closing_drains_and_a_failing_drain_still_frees_the_session(tmp_path: Path, disk: Disk) -> None:
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(chunks(0, 2))
        handle.admit(event(2, StepStart(1, 1)))
        await handle.close()
        assert len((await store.read("s1"))[1]) == 3
        again = await store.open("s1")
        again.admit(chunk(3))
        disk.always("write", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            await again.close()
        disk.heal()
        assert len(await (await store.open("s1")).read()) == 3


async def test_no_write_happens_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()

    def spy(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            seen.add(threading.get_ident())
            return real(*args)

        return call

    for name in ("write", "fsync", "fdatasync", "link"):
        monkeypatch.setattr(os, name, spy(getattr(os, name)))
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append(chunks(0, 3))
        await handle.close()
    assert seen
    assert threading.get_ident() not in seen

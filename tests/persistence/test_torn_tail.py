"""Field case D3: the log is cut at every byte of its last frame, and two crash and load cycles agree."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from acp_bridge.session.events import Event, TurnStart
from acp_bridge_plugins.persistence_jsonl.frames import scan, torn_plaintext
from tests.persistence.helpers import (
    Disk,
    Notes,
    chunk,
    chunks,
    event,
    header,
    log_bytes,
    log_path,
    store_at,
    stored,
    turn,
)

pytestmark = pytest.mark.anyio

COMMITTED = log_bytes(turn())
LAST = chunks(6, 9)
WHOLE = log_bytes(turn(), LAST)


def whole_records(data: bytes) -> int:
    """How many records of the last batch the cut file still holds, by the bytes alone; the newline may be missing."""
    content = torn_plaintext(data, len(COMMITTED))
    return content.count(b"}\n") + content.endswith(b"}}}")


async def loaded(root: Path) -> list[Event]:
    async with store_at(root) as store:
        handle = await store.open("s1")
        return await handle.read()


@pytest.mark.parametrize("cut", range(len(COMMITTED), len(WHOLE)))
async def test_whole_records_are_kept_and_the_next_append_survives(tmp_path: Path, cut: int) -> None:
    path = stored(tmp_path, WHOLE[:cut])
    kept = turn() + LAST[: whole_records(WHOLE[:cut])]
    async with store_at(tmp_path) as store:
        assert (await store.read("s1"))[1] == turn(), "who does not own the session sees committed frames only"
        handle = await store.open("s1")
        assert await handle.read() == kept
        await handle.append([chunk(len(kept), "after the crash")])
        assert await handle.read() == [*kept, chunk(len(kept), "after the crash")]
    after_first = await loaded(tmp_path)
    assert after_first == [*kept, chunk(len(kept), "after the crash")]
    path.write_bytes(path.read_bytes()[:-1])
    assert await loaded(tmp_path) == after_first, "only the checksum was cut, so every record is there"


async def test_some_cuts_keep_some_records() -> None:
    """So that the cases above are not all alike."""
    kept = {whole_records(WHOLE[:cut]) for cut in range(len(COMMITTED), len(WHOLE))}
    assert kept >= {0, 3}


async def test_many_blocks_torn_in_the_middle_keep_the_records_of_the_whole_ones(tmp_path: Path) -> None:
    many = [chunk(6 + i, f"{i * i} words ") for i in range(8000)]
    whole = log_bytes(turn(), many)
    cut = (len(COMMITTED) + len(whole)) // 2
    stored(tmp_path, whole[:cut])
    events = await loaded(tmp_path)
    assert 500 < len(events) - 6 < 8000
    assert events == turn() + many[: len(events) - 6]


async def test_recovered_records_are_rewritten_as_a_frame_of_their_own_before_the_new_batch(tmp_path: Path) -> None:
    path = stored(tmp_path, WHOLE[:-1])
    notes = Notes()
    async with store_at(tmp_path, diagnostics=notes) as store:
        handle = await store.open("s1")
        handle.admit(chunk(9))
        await handle.flush()
    assert notes.notes == ["session s1 ends in a torn frame; 3 of its records count"]
    assert path.read_bytes() == log_bytes(turn(), LAST, [chunk(9)])


async def test_a_flush_alone_makes_recovered_records_durable(tmp_path: Path) -> None:
    path = stored(tmp_path, WHOLE[:-1])
    async with store_at(tmp_path) as store:
        await (await store.open("s1")).flush()
        assert path.read_bytes() == WHOLE
    path.write_bytes(COMMITTED + WHOLE[len(COMMITTED) : len(COMMITTED) + 7])
    async with store_at(tmp_path) as store:
        await (await store.open("s1")).flush()
    assert path.read_bytes() == COMMITTED


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        ("ftruncate", [errno.EIO]),
        ("fsync", [errno.EIO]),
        ("write", [errno.ENOSPC]),
        ("fdatasync", [errno.EIO]),
        ("write", [None, errno.ENOSPC]),
        ("fdatasync", [None, errno.EIO]),
    ],
)
async def test_each_step_of_the_commit_is_tried_again_after_a_failure(
    tmp_path: Path, disk: Disk, call: str, faults: list[int | None]
) -> None:
    path = stored(tmp_path, WHOLE[:-1])
    async with store_at(tmp_path) as store:
        handle = await store.open("s1")
        disk.fail(call, *faults)
        handle.admit(chunk(9))
        with pytest.raises(OSError, match=r"Input/output|No space"):
            await handle.flush()
        assert await handle.read() == [*turn(), *LAST, chunk(9)]
        await handle.flush()
        assert await handle.read() == [*turn(), *LAST, chunk(9)]
    assert path.read_bytes() == log_bytes(turn(), LAST, [chunk(9)])


async def test_crash_and_load_cycles_add_up_to_one_history(tmp_path: Path) -> None:
    expected: list[Event] = []
    async with store_at(tmp_path) as store:
        handle = await store.create(header())
        await handle.append([event(0, TurnStart(1))])
        expected.append(event(0, TurnStart(1)))
    path = log_path(tmp_path)
    for cycle in range(6):
        async with store_at(tmp_path) as store:
            handle = await store.open("s1")
            assert await handle.read() == expected
            batch = chunks(len(expected), len(expected) + 3)
            await handle.append(batch)
        data = path.read_bytes()
        start = scan(data)[0][-1].start
        cut = start + (len(data) - start) * cycle // 6
        path.write_bytes(data[:cut])
        expected = await loaded(tmp_path)
        assert expected[-1].seq == len(expected) - 1

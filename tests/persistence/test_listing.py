"""What a listing shows, what it reads for it, and what it leaves out (contracts §5.1)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acp_bridge.errors import (
    SessionNotFound,
)
from acp_bridge.session.events import TitleSet
from tests.persistence.helpers import (
    Notes,
    chunk,
    event,
    header,
    log_bytes,
    log_path,
    store_at,
    stored,
    turn,
)

pytestmark = pytest.mark.anyio


async def test_a_listing_shows_header_title_size_and_time(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        first = await store.create(header("first"))
        await first.append([*turn(), event(6, TitleSet("Fix the tests"))])
        await (await store.create(header("second", cwd=None))).flush()
        found = {snapshot.header.id: snapshot for snapshot in await store.list()}
        assert set(found) == {"first", "second"}
        path = log_path(tmp_path, "first")
        snapshot = found["first"]
        assert snapshot.header == header("first")
        assert snapshot.title == "Fix the tests"
        assert (snapshot.size_bytes, snapshot.updated_at) == (path.stat().st_size, path.stat().st_mtime)
        assert found["second"].title is None
        assert await store.list() == list(found.values())
        await first.append([chunk(7)])
        [changed] = [s for s in await store.list() if s.header.id == "first"]
        assert changed.revision != snapshot.revision


async def test_unreadable_sessions_do_not_hide_the_others(tmp_path: Path) -> None:
    good = stored(tmp_path, log_bytes(turn()), "good")
    stored(tmp_path, b"", "empty")
    stored(tmp_path, b"rubbish", "rubbish")
    stored(tmp_path, log_bytes()[:-3], "torn-header")
    damaged = log_bytes(turn(), head=header("damaged-body"))
    stored(tmp_path, damaged[:-20] + bytes(20), "damaged-body")
    stored(tmp_path, log_bytes(), "misplaced")
    good.write_bytes(log_bytes(turn(), head=header("good")))
    (tmp_path / "a-file").write_text("x")
    (good.parent.parent / "another-file").write_text("x")
    half = log_path(tmp_path, "half-published").with_suffix(".zstd.ab12.tmp")
    half.parent.mkdir()
    half.write_bytes(log_bytes())
    notes = Notes()
    async with store_at(tmp_path, diagnostics=notes) as store:
        assert {s.header.id for s in await store.list()} == {"good", "damaged-body"}
        await store.list()
    assert len(notes.notes) == 4
    assert sum("no complete header frame" in note for note in notes.notes) == 3


async def test_listing_reads_the_beginning_of_a_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [event(0, TitleSet("Early")), *(chunk(seq, os.urandom(400).hex()) for seq in range(1, 2000))]
    stored(tmp_path, log_bytes(*(many[i : i + 10] for i in range(0, 2000, 10))))
    real, read = os.pread, []

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        read.append(size)
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    async with store_at(tmp_path) as store:
        assert [s.title for s in await store.list()] == ["Early"]
        assert read == [64 * 1024]
        await store.list()
        assert read == [64 * 1024], "an unchanged file is not read again"


async def test_a_missing_root_is_an_empty_store(tmp_path: Path) -> None:
    async with store_at(tmp_path / "absent") as store:
        assert await store.list() == []
        with pytest.raises(SessionNotFound):
            await store.read("s1")

"""Files of other generations, in two places or under another name: refused by name and left alone (contracts §5.10)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from acp_bridge.errors import (
    LogCorrupt,
    SessionAlreadyExists,
    SessionFormatUnsupported,
)
from acp_bridge.session.codec import Vocabulary
from acp_bridge.session.events import Body
from tests.persistence.helpers import (
    VOCABULARY,
    Notes,
    event,
    header,
    log_bytes,
    log_path,
    store_at,
    stored,
    turn,
)

pytestmark = pytest.mark.anyio


FOREIGN = {
    "session.v2.jsonl.zstd": "newer acp-bridge",
    "session.jsonl.zstd": "format 0 cannot be opened",
    "session.jsonl": "format 0 cannot be opened",
    "session.v1.jsonl": "uncompressed log",
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_another_generation_is_refused_by_name_and_left_alone(tmp_path: Path, name: str) -> None:
    path = stored(tmp_path, log_bytes()).rename(log_path(tmp_path).with_name(name))
    notes = Notes()
    async with store_at(tmp_path, diagnostics=notes) as store:
        for attempt in (store.open, store.read):
            with pytest.raises(SessionFormatUnsupported, match=FOREIGN[name]) as caught:
                await attempt("s1")
            assert caught.value.path == str(path)
        assert await store.list() == []
        assert await store.list() == []
        assert len(notes.notes) == 1
        with pytest.raises(SessionAlreadyExists):
            await store.create(header())


async def test_a_newer_generation_beside_ours_is_never_fallen_back_from(tmp_path: Path) -> None:
    stored(tmp_path, log_bytes()).with_name("session.v2.jsonl.zstd").write_bytes(b"?")
    async with store_at(tmp_path) as store:
        with pytest.raises(SessionFormatUnsupported, match="newer"):
            await store.open("s1")


async def test_an_id_in_two_projects_is_refused_naming_both(tmp_path: Path) -> None:
    path = stored(tmp_path, log_bytes())
    shutil.copytree(path.parent, tmp_path / "--other--" / "s1")
    async with store_at(tmp_path) as store:
        with pytest.raises(SessionFormatUnsupported, match="--other--") as caught:
            await store.read("s1")
        assert "--project--" in str(caught.value)


async def test_a_header_must_belong_to_the_directory_it_lies_in(tmp_path: Path) -> None:
    path = stored(tmp_path, log_bytes(head=header("another")))
    async with store_at(tmp_path) as store:
        with pytest.raises(LogCorrupt, match="another session"):
            await store.open("s1")
        path.write_bytes(log_bytes(head=header(cwd="/somewhere/else")))
        with pytest.raises(LogCorrupt, match="another working directory"):
            await store.open("s1")
        assert await store.list() == []


async def test_a_working_directory_with_two_names_may_have_made_the_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    root = tmp_path / "sessions"
    async with store_at(root) as store:
        await (await store.create(header(cwd=str(tmp_path / "real")))).append(turn())
    [project] = root.iterdir()
    data = log_bytes(turn(), head=header(cwd=str(tmp_path / "alias")))
    (project / "s1" / "session.v1.jsonl.zstd").write_bytes(data)
    async with store_at(root) as store:
        assert (await store.read("s1"))[1] == turn()


class Brain(Body, frozen=True):
    TYPE = "galaxy/brain"
    size: int


async def test_a_plugins_own_event_type_is_read_by_who_knows_it_and_unsupported_for_others(tmp_path: Path) -> None:
    knowing = Vocabulary([Brain])
    async with store_at(tmp_path, vocabulary=knowing) as store:
        await (await store.create(header())).append([event(0, Brain(7))])
    async with store_at(tmp_path, vocabulary=knowing) as store:
        assert (await store.read("s1"))[1] == [event(0, Brain(7))]
    async with store_at(tmp_path, vocabulary=VOCABULARY) as store:
        for attempt in (store.open, store.read):
            with pytest.raises(SessionFormatUnsupported, match="galaxy/brain"):
                await attempt("s1")

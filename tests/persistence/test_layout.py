"""Names of directories and files: readable where they can be, never the same for two sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.persistence_jsonl.layout import (
    NAME_MAX,
    Place,
    id_segment,
    newest_generation,
    project_segment,
    temporary_name,
)

# Any text a client can send, lone surrogates and NUL included.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


@pytest.mark.parametrize(
    ("cwd", "segment"),
    [
        (None, "_no-cwd"),
        ("/home/me/project", "--home-me-project--"),
        ("/", "--root--"),
        ("", "--root--"),
        ("C:\\Users\\me", "--C-Users-me--"),
        ("/a//b/:c/", "--a-b-c---"),
        ("/my work/ünï~1", "--my~0020work-~00FCn~00EF~007E1--"),
        ("/smile 😀", "--smile~0020~D83D~DE00--"),
    ],
)
def test_a_project_is_named_after_its_working_directory(cwd: str | None, segment: str) -> None:
    assert project_segment(cwd) == segment


@given(ANY_TEXT)
def test_a_project_segment_is_one_plain_component_of_bounded_length(cwd: str) -> None:
    segment = project_segment(cwd * 20)
    assert segment.isascii()
    assert len(segment) <= NAME_MAX
    assert Path(segment).name == segment


@pytest.mark.parametrize(
    ("session_id", "segment"),
    [
        ("3f6c-1.a_B", "3f6c-1.a_B"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("a/b", "a~002Fb"),
        ("~", "~007E"),
        ("\x00", "~0000"),
        ("\ud800", "~D800"),
        ("é", "~00E9"),
    ],
)
def test_an_id_is_kept_where_it_is_plain_and_escaped_where_it_is_not(session_id: str, segment: str) -> None:
    assert id_segment(session_id) == segment


@given(ANY_TEXT, ANY_TEXT)
def test_two_ids_never_share_a_directory(one: str, other: str) -> None:
    def units(text: str) -> bytes:
        return text.encode("utf-16-be", "surrogatepass")

    if one and other:
        assert (id_segment(one) == id_segment(other)) is (units(one) == units(other))


@given(ANY_TEXT.filter(bool))
def test_an_id_segment_stays_inside_its_parent(session_id: str) -> None:
    segment = id_segment(session_id)
    assert Path(segment).name == segment
    assert segment not in (".", "..")


@pytest.mark.parametrize("session_id", ["", "x" * 256, "/" * 52])
def test_an_id_that_no_file_system_takes_is_refused(session_id: str) -> None:
    with pytest.raises(ValueError, match="between 1 and 255"):
        id_segment(session_id)


@pytest.mark.parametrize(
    ("names", "number", "compressed"),
    [
        (["session.lock", "session.v1.jsonl.zstd"], 1, True),
        (["session.jsonl.zstd"], 0, True),
        (["session.v1.jsonl.zstd", "session.jsonl.zstd"], 1, True),
        (["session.v9.jsonl.zstd", "session.v10.jsonl.zstd", "session.v1.jsonl.zstd"], 10, True),
        (["session.v1.jsonl"], 1, False),
        (["session.v1.jsonl", "session.v1.jsonl.zstd"], 1, True),
        (["session.v1.jsonl.zstd", "session.v2.jsonl"], 2, False),
    ],
)
def test_the_highest_generation_wins(names: list[str], number: int, compressed: bool) -> None:
    newest = newest_generation(names)
    assert newest is not None
    assert (newest.number, newest.compressed) == (number, compressed)


def test_names_that_are_not_canonical_are_nobodys_log() -> None:
    names = ["session.v01.jsonl.zstd", "Session.v1.jsonl", "session.v0.jsonl", "session.v1.jsonl.gz", "session.lock"]
    assert newest_generation([*names, temporary_name("session.v1.jsonl.zstd", "ab12")]) is None


def test_a_place_names_directory_log_and_lock() -> None:
    place = Place(Path("/state"), "--p--", "s")
    assert place.directory == Path("/state/--p--/s")
    assert place.log == Path("/state/--p--/s/session.v1.jsonl.zstd")
    assert place.lock == Path("/state/--p--/s/session.lock")

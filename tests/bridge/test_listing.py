"""Pages of sessions: filtered, newest first, each one once, whatever comes and goes in between (field case R10)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.bridge.listing import PAGE, session_page
from acp_bridge.errors import InvalidParams
from acp_bridge.persistence.persistence import SessionSnapshot
from acp_bridge.session.events import Header


def snapshot(id: str, updated_at: float, cwd: str | None = "/a", title: str | None = None) -> SessionSnapshot:
    return SessionSnapshot(Header(1, id, 0, cwd), "r", updated_at, title=title)


def ids(page: dict[str, Any]) -> list[str]:
    return [info["sessionId"] for info in page["sessions"]]


def paged(
    snapshots: Sequence[SessionSnapshot],
    cwd: str | None = None,
    between: Callable[[Sequence[SessionSnapshot]], Sequence[SessionSnapshot]] = lambda found: found,
) -> list[list[str]]:
    """The ids of every page; `between` changes what there is after each page."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = session_page(snapshots, cwd, cursor)
        pages.append(ids(page))
        cursor = page.get("nextCursor")
        if cursor is None:
            return pages
        snapshots = between(snapshots)


# Few times for many sessions: equal ones are what goes wrong.
many = st.lists(
    st.builds(lambda number, time: (f"id-{number}", time), st.integers(0, 999), st.sampled_from([0.0, 1.5, 1.5000001])),
    max_size=3 * PAGE,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: [snapshot(id, time) for id, time in pairs])


@given(many)
def test_every_session_is_on_exactly_one_page_newest_first_and_pages_are_full(found: list[SessionSnapshot]) -> None:
    pages = paged(found)
    flat = [id for page in pages for id in page]
    assert sorted(flat) == sorted(one.header.id for one in found)
    times = {one.header.id: one.updated_at for one in found}
    assert [times[id] for id in flat] == sorted(times.values(), reverse=True)
    assert [len(page) for page in pages[:-1]] == [PAGE] * (len(pages) - 1)
    assert 0 < len(pages[-1]) <= PAGE or found == []


@given(many, st.data())
def test_sessions_that_stay_are_neither_skipped_nor_repeated_while_others_come_and_go(
    found: list[SessionSnapshot], data: st.DataObject
) -> None:
    fresh = (snapshot(f"new-{number}", time) for number, time in enumerate([2.0, 1.5, 0.0] * 99))
    gone: set[str] = set()

    def between(now: Sequence[SessionSnapshot]) -> Sequence[SessionSnapshot]:
        lost = data.draw(st.sets(st.sampled_from([one.header.id for one in now]), max_size=5))
        gone.update(lost)
        return [one for one in now if one.header.id not in lost] + [next(fresh), next(fresh)]

    flat = [id for page in paged(found, between=between) for id in page]
    assert len(set(flat)) == len(flat)
    assert {one.header.id for one in found} - gone <= set(flat)


def test_only_sessions_of_the_folder_are_listed_and_links_to_it_count(tmp_path: Path) -> None:
    """Filtered before paged: a page is never empty with a cursor behind it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    others = [snapshot(f"other-{number}", 9, "/elsewhere") for number in range(3 * PAGE)]
    here = [snapshot("real", 2, str(tmp_path / "real")), snapshot("link", 1, str(tmp_path / "link"))]
    nowhere = [snapshot("nowhere", 3, None)]
    for name in ("real", "link"):
        assert paged([*others, *here, *nowhere], str(tmp_path / name)) == [["real", "link"]]
    assert paged([*here, *nowhere]) == [["nowhere", "real", "link"]]
    assert paged(here, "/not/there") == [[]]


def test_an_entry_has_what_editors_sort_and_show_by() -> None:
    """Editors §6.6: times are compared as texts, so always UTC with the same number of digits."""
    page = session_page([snapshot("a", 1.0, title="Fix it"), snapshot("b", 1_700_000_000.123)], None, None)
    assert page == {
        "sessions": [
            {"sessionId": "b", "cwd": "/a", "updatedAt": "2023-11-14T22:13:20.123Z"},
            {"sessionId": "a", "cwd": "/a", "updatedAt": "1970-01-01T00:00:01.000Z", "title": "Fix it"},
        ]
    }


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode()


CURSORS = [
    "x",
    "####",
    "é",
    encoded(None),
    encoded([]),
    encoded([1]),
    encoded(["1", "a"]),
    encoded([1, 2]),
    encoded({}),
]


@pytest.mark.parametrize("cursor", [*CURSORS, encoded([1, "a", 2]), "W" * 10_001])
def test_a_cursor_that_is_not_ours_is_refused_by_name(cursor: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        session_page([snapshot("a", 1)], None, cursor)
    assert refused.value.field == "cursor"


@given(st.text())
def test_no_cursor_breaks_the_listing(cursor: str) -> None:
    with suppress(InvalidParams):
        session_page([snapshot("a", 1)], None, cursor)


def test_an_old_cursor_still_names_its_place() -> None:
    """A cursor of a session that is gone goes on behind where it was."""
    found = [snapshot(f"id-{number:03}", float(number)) for number in range(2 * PAGE)]
    cursor = session_page(found, None, None)["nextCursor"]
    assert ids(session_page(found[:PAGE], None, cursor)) == [one.header.id for one in reversed(found[:PAGE])]
    assert ids(session_page([], None, cursor)) == []

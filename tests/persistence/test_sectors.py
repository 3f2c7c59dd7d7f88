"""A batch that lost sectors to a power loss is torn; everything else that does not read is damage."""

from __future__ import annotations

import random

import pytest

from acp_bridge.errors import LogCorrupt
from acp_bridge.session.events import Event
from acp_bridge_plugins.persistence_jsonl.records import LoadedLog, load_log
from acp_bridge_plugins.persistence_jsonl.sectors import SECTOR
from tests.persistence.helpers import VOCABULARY, chunk, log_bytes, turn


def wordy(start: int, count: int) -> list[Event]:
    dice = random.Random(start)
    return [chunk(seq, dice.randbytes(150).hex()) for seq in range(start, start + count)]


FIRST, MIDDLE, LAST = turn(), wordy(6, 20), wordy(26, 20)
COMMITTED = log_bytes(FIRST, MIDDLE)
WHOLE = log_bytes(FIRST, MIDDLE, LAST)
SECTORS = range(len(COMMITTED) - len(COMMITTED) % SECTOR, len(WHOLE), SECTOR)


def loaded(data: bytes) -> LoadedLog:
    return load_log("f", data, VOCABULARY, recover=True)


def without(data: bytes, start: int, end: int) -> bytes:
    return data[:start] + bytes(min(end, len(data)) - start) + data[end:]


def test_there_is_something_to_lose() -> None:
    assert len(SECTORS) > 5
    assert loaded(WHOLE).events == [*FIRST, *MIDDLE, *LAST]


@pytest.mark.parametrize("sector", SECTORS)
def test_a_lost_sector_of_the_last_batch_tears_it_there_and_nothing_after_it_counts(sector: int) -> None:
    data = without(WHOLE, max(sector, len(COMMITTED)), sector + SECTOR)
    found = loaded(data)
    assert (found.committed, found.torn) == (len(COMMITTED), True)
    assert found.events == [*FIRST, *MIDDLE, *LAST][: len(found.events)]
    assert found.recovered == loaded(WHOLE[:sector]).recovered if sector > len(COMMITTED) else not found.recovered


def test_some_records_before_a_lost_sector_count() -> None:
    """As far as whole blocks go: a batch of one block, as above, is all or nothing."""
    events = [*FIRST, *wordy(6, 2000)]
    whole = log_bytes(FIRST, events[6:])
    lost = len(whole) * 3 // 4
    found = loaded(without(whole, lost - lost % SECTOR, lost + SECTOR))
    assert 6 < len(found.events) < len(events)
    assert found.events == events[: len(found.events)]


@pytest.mark.parametrize("grown", [1, 100, 5000])
def test_a_file_that_grew_and_got_nothing_else_is_torn(grown: int) -> None:
    found = loaded(WHOLE + bytes(grown))
    assert (found.events, found.committed, found.torn) == ([*FIRST, *MIDDLE, *LAST], len(WHOLE), True)


@pytest.mark.parametrize("recover", [True, False])
def test_who_does_not_own_the_session_sees_what_was_committed(recover: bool) -> None:
    data = without(WHOLE, SECTORS[2], SECTORS[3])
    events = load_log("f", data, VOCABULARY, recover=recover).events
    assert events[:26] == [*FIRST, *MIDDLE]
    assert recover or len(events) == 26


def test_a_lost_sector_before_the_last_batch_is_damage_there() -> None:
    start, end = len(log_bytes(FIRST)), len(COMMITTED)
    for sector in range(start - start % SECTOR + SECTOR, end - SECTOR, SECTOR):
        with pytest.raises(LogCorrupt) as caught:
            loaded(without(WHOLE, sector, sector + SECTOR))
        assert caught.value.offset == start


def test_zeros_in_the_header_are_damage() -> None:
    for data in (bytes(len(WHOLE)), without(WHOLE, 0, SECTOR), without(log_bytes(), 0, 5)):
        with pytest.raises(LogCorrupt) as caught:
            loaded(data)
        assert caught.value.offset == 0


def test_a_flipped_bit_in_the_last_batch_is_damage() -> None:
    """A disk that lost it would show zeros. Called torn, an acknowledged batch would be gone without a word."""
    for index in range(len(COMMITTED) + 20, len(WHOLE), 97):
        flipped = bytearray(WHOLE)
        flipped[index] ^= 0x55
        with pytest.raises(LogCorrupt):
            loaded(bytes(flipped))

"""Bytes to lines (field case P1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.wire.jsonrpc import Framer, Line, Oversized

STREAM = b'{"a":1}\n\r\n{"b":"\xe2\x80\xa8\r\x0b"}\r\n  \n0123456789abcdefghij\n\n{"c":3}\nunterminated'


def frames(pieces: list[bytes], cap: int = 1024) -> list[Line]:
    framer = Framer(cap)
    return [line for piece in pieces for line in framer.feed(piece)] + framer.finish()


@pytest.mark.parametrize("cap", [1024, 15])
def test_lines_are_the_same_at_every_split_point_and_byte_by_byte(cap: int) -> None:
    whole = frames([STREAM], cap)
    for at in range(len(STREAM) + 1):
        assert frames([STREAM[:at], STREAM[at:]], cap) == whole
    assert frames([STREAM[at : at + 1] for at in range(len(STREAM))], cap) == whole


def test_lines_end_at_line_feed_only_and_blank_ones_are_skipped() -> None:
    assert frames([STREAM]) == [
        b'{"a":1}',
        b'{"b":"\xe2\x80\xa8\r\x0b"}',
        b"0123456789abcdefghij",
        b'{"c":3}',
        b"unterminated",
    ]


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_any_bytes_in_any_pieces_give_the_lines_that_the_whole_gives(pieces: list[bytes], cap: int) -> None:
    assert frames(pieces, cap) == frames([b"".join(pieces)], cap)


@given(st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: b"\n" not in b and not b.isspace())))
def test_every_line_within_the_cap_comes_back_unchanged(lines: list[bytes]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    assert frames([stream]) == [line.removesuffix(b"\r") for line in lines]


def test_a_line_of_exactly_the_cap_passes_and_one_byte_more_does_not() -> None:
    assert frames([b"x" * 8 + b"\n" + b"y" * 9 + b"\n" + b"z\n"], 8) == [b"x" * 8, Oversized(8, b"y" * 8), b"z"]


def test_a_line_over_the_cap_is_reported_once_and_at_once_while_the_rest_is_skipped() -> None:
    framer = Framer(100)
    assert framer.feed(b"x" * 101) == [Oversized(100, b"x" * 100)]
    for _ in range(50):
        assert framer.feed(b"y" * 4096) == []
        assert len(framer._held) == 0
    assert framer.feed(b"tail\nnext\n") == [b"next"]


def test_an_endless_line_holds_no_more_than_the_cap() -> None:
    framer = Framer(10_000)
    for _ in range(200):
        framer.feed(b"x" * 99)
        assert len(framer._held) <= 10_000


def test_an_unterminated_oversized_line_is_not_reported_again_at_the_end() -> None:
    assert frames([b"x" * 50], 10) == [Oversized(10, b"x" * 10)]


def test_the_head_of_an_oversized_line_is_short_and_the_same_in_one_piece_and_in_many() -> None:
    line = bytes(range(32, 127)) * 100
    whole = frames([line], 5000)
    assert frames([line[at : at + 7] for at in range(0, len(line), 7)], 5000) == whole
    assert whole == [Oversized(5000, line[:1024])]


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 20_000_000])
def test_large_lines_arrive_whole(size: int) -> None:
    line = b"x" * size
    data = line + b"\n"
    assert frames([data[at : at + 65_536] for at in range(0, len(data), 65_536)], 64 * 1024 * 1024) == [line]

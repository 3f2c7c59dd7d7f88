"""Framing of event streams: the same payloads wherever the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.models_openai import sse
from acp_bridge_plugins.models_openai.sse import SseReader


def read(data: bytes, cuts: list[int] | None = None) -> tuple[list[bytes], bytes | None]:
    reader = SseReader()
    edges = [0, *sorted(cuts or []), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    payloads = [payload for piece in pieces for payload in reader.feed(piece)]
    return payloads + reader.finish(), reader.garbage


@pytest.mark.parametrize(
    ("data", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": comment\n\ndata: a\n\n: ping\n\n", [b"a"]),
        (b"id: 1\nevent: result\nretry: 5\nx-trace: 7\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\n\n\n\ndata: a\n\n\n\n\n", [b"a"]),
        (b"data\n\ndata: \n\ndata: a\n\n", [b"a"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"", []),
    ],
)
def test_events_are_read_as_the_standard_says_wherever_they_are_cut(data: bytes, payloads: list[bytes]) -> None:
    whole = [payload for payload in read(data)[0] if payload]
    assert whole == payloads
    bytewise = read(data, list(range(len(data))))
    assert [payload for payload in bytewise[0] if payload] == payloads
    assert bytewise[1] is None


def test_an_event_is_handed_out_with_the_bytes_that_complete_it() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\n") == []
    assert reader.feed(b"\n") == [b"a"]
    assert reader.feed(b"data: b\r\n\r") == [b"b"], "a CR ends the blank line; its LF may come much later"
    assert reader.feed(b"\n") == []
    assert reader.feed(b"data: c\r\n\r\n") == [b"c"]


@pytest.mark.parametrize("line", [b"<html>", b'{"error": {"message": "no"}}', b"\x00\xff", b"garbage", b"a b: c"])
def test_a_line_that_no_event_stream_holds_ends_the_reading(line: bytes) -> None:
    payloads, garbage = read(b"data: a\n\n" + line + b"\n\ndata: b\n\n")
    assert payloads == [b"a"]
    assert garbage == line


def test_an_event_without_end_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_LIMIT", 1000)
    reader = SseReader()
    for _ in range(200):
        assert reader.feed(b"data: xxxx") == []
    assert reader.garbage is not None
    assert reader.garbage.startswith(b"data: xxxx")


PIECES = st.lists(
    st.one_of(
        st.sampled_from([b"data: ", b"data:", b"\n", b"\r", b"\r\n", b"\n\n", b": ping", b"event: x", b"[DONE]"]),
        st.binary(max_size=8),
    ),
    max_size=20,
).map(b"".join)


@given(PIECES, st.lists(st.integers(0, 200), max_size=10))
def test_any_bytes_cut_anywhere_give_the_same_payloads_and_no_exception(data: bytes, cuts: list[int]) -> None:
    payloads, garbage = read(data)
    cut_payloads, cut_garbage = read(data, [min(cut, len(data)) for cut in cuts])
    assert [p for p in payloads if p] == [p for p in cut_payloads if p]
    assert garbage == cut_garbage

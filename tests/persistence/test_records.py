"""What a file's bytes say: events, torn tails, damage, and logs of other versions."""

from __future__ import annotations

import msgspec
import pytest

from acp_bridge.errors import LogCorrupt, SessionFormatUnsupported
from acp_bridge.session.codec import encode_header
from acp_bridge.session.events import Event, TitleSet
from acp_bridge_plugins.persistence_jsonl.frames import frame_encoder
from acp_bridge_plugins.persistence_jsonl.records import load_log, read_head
from tests.persistence.helpers import VOCABULARY, chunk, chunks, event, header, log_bytes, turn

encode = frame_encoder()
HEADER = encode(encode_header(header()))


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def record(seq: int, **changes: object) -> str:
    fields = {"type": "step/start", "seq": seq, "time": 1, "data": {"turn": 1, "step": 1}, **changes}
    return msgspec.json.encode(fields).decode()


def test_a_log_reads_back_as_it_was_written() -> None:
    first, second = turn(), chunks(6, 40)
    loaded = load_log("f", log_bytes(first, second), VOCABULARY, recover=True)
    assert loaded.header == header()
    assert loaded.events == first + second
    assert not loaded.torn
    assert loaded.recovered == []


def test_a_header_alone_is_an_empty_log() -> None:
    loaded = load_log("f", HEADER, VOCABULARY, recover=True)
    assert (loaded.events, loaded.committed, loaded.last_frame) == ([], len(HEADER), 0)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "no complete header frame"),
        (HEADER[:-1], "no complete header frame"),
        (encode(b""), "cannot be read"),
        (encode(b"{}\n"), "cannot be read"),
        (encode(b"not json\n"), "cannot be read"),
        (encode(b'{"type":"session","version":"one"}\n'), "cannot be read"),
        (encode(b'{"type":"session","version":1,"id":"s","createdAt":0}\n'), None),
        (encode(b'{"type":"session","version":1,"id":"s","createdAt":0,"sandboxMode":"x"}\n'), "cannot be read"),
        (encode(b'{"type":"session","version":1,"id":"s","createdAt":0}'), "not exactly one line"),
        (encode(b'{"type":"session","version":1,"id":"s","createdAt":0}\n\n'), "not exactly one line"),
        (encode(b"\xff\xfe\n"), "cannot be read"),
    ],
)
def test_a_file_without_a_good_header_is_damaged_at_its_beginning(head: bytes, reason: str | None) -> None:
    if reason is None:
        assert load_log("f", head, VOCABULARY, recover=True).header.id == "s"
        return
    with pytest.raises(LogCorrupt, match=reason) as caught:
        load_log("f", head, VOCABULARY, recover=True)
    assert caught.value.offset == 0


@pytest.mark.parametrize(("version", "advice"), [(2, "upgrade"), (0, "no upgrade path")])
def test_another_version_is_refused_before_anything_else_is_looked_at(version: int, advice: str) -> None:
    foreign = encode(lines(f'{{"type":"session","version":{version},"whatever":[]}}'))
    for rest in (b"", b"rubbish that is no frame", HEADER):
        with pytest.raises(SessionFormatUnsupported, match=advice):
            load_log("/x/log", foreign + rest, VOCABULARY, recover=True)


def test_an_unknown_event_type_is_unsupported_and_never_damage() -> None:
    data = HEADER + encode(lines(record(0), record(1, type="galaxy/brain", data={"x": 1})))
    with pytest.raises(SessionFormatUnsupported, match=r"event 1 .*galaxy/brain") as caught:
        load_log("/x/log", data, VOCABULARY, recover=True)
    assert caught.value.path == "/x/log"


def test_an_unknown_event_that_says_it_may_be_skipped_is_carried_along() -> None:
    data = HEADER + encode(lines(record(0, type="galaxy/brain", data={"x": 1}, ignorable=True), record(1)))
    assert [e.type for e in load_log("f", data, VOCABULARY, recover=True).events] == ["galaxy/brain", "step/start"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lines(record(1)), "event 1 stands where event 0 is due"),
        (lines(record(0), record(0)), "event 0 stands where event 1 is due"),
        (lines(record(0), record(2)), "event 2 stands where event 1 is due"),
        (lines(record(0), "{oops"), "not an event record"),
        (lines(record(0), ""), "not an event record"),
        (lines(record(0)) + record(1).encode(), "middle of a record"),
        (lines(record(0, data={"turn": "x"})), "invalid shape"),
        (lines(record(0, extra=1)), "not an event record"),
        (b"", None),
    ],
)
def test_whatever_is_wrong_in_a_whole_frame_is_damage_at_that_frame(content: bytes, reason: str | None) -> None:
    data = HEADER + encode(content)
    if reason is None:
        assert load_log("f", data, VOCABULARY, recover=True).events == []
        return
    with pytest.raises(LogCorrupt, match=reason) as caught:
        load_log("/x/log", data, VOCABULARY, recover=True)
    assert (caught.value.path, caught.value.offset) == ("/x/log", len(HEADER))


def test_a_flipped_bit_in_any_whole_frame_is_damage_at_that_frame() -> None:
    events = turn() + chunks(6, 12) + chunks(12, 15)
    whole = log_bytes(events[:6], events[6:12], events[12:])
    start, end = len(log_bytes(events[:6])), len(log_bytes(events[:6], events[6:12]))
    offsets = set()
    for index in range(start, end):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[index] ^= 1 << bit
            offsets.add(damage_in(bytes(flipped), events))
    assert offsets <= {start, None}


def damage_in(data: bytes, events: list[Event]) -> int | None:
    try:
        # A few bits mean nothing to the decoder.
        assert load_log("f", data, VOCABULARY, recover=True).events == events
    except LogCorrupt as error:
        return error.offset
    return None


def torn_raw(content: bytes) -> bytes:
    """A frame of one raw block that lost its checksum: its plaintext is there byte by byte."""
    block = (len(content) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x64" + (len(content) - 256).to_bytes(2, "little") + block + content


def long_record(seq: int, **changes: object) -> str:
    data = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "x" * 300}}
    return record(seq, type="assistant/chunk", data=data, **changes)


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (lines(long_record(0), record(1)), 2),
        (lines(long_record(0)) + record(1).encode(), 2),
        (lines(long_record(0)) + record(1).encode()[:-1], 1),
        (lines(long_record(0), "{oops", record(1)), 1),
        (lines(long_record(0), record(5), record(6)), 1),
        (lines(long_record(1)), 0),
    ],
)
def test_whole_records_of_a_torn_frame_count_up_to_the_first_that_does_not_follow(content: bytes, kept: int) -> None:
    loaded = load_log("f", HEADER + torn_raw(content), VOCABULARY, recover=True)
    assert [e.seq for e in loaded.events] == list(range(kept))
    assert len(loaded.recovered) == kept
    assert all(line.endswith(b"\n") for line in loaded.recovered)
    assert loaded.torn
    assert loaded.committed == len(HEADER)


def test_a_reader_without_ownership_sees_committed_frames_only() -> None:
    loaded = load_log("f", log_bytes(turn()) + torn_raw(lines(long_record(6))), VOCABULARY, recover=False)
    assert loaded.events == turn()
    assert loaded.recovered == []


def test_a_torn_frame_with_a_bad_record_before_the_end_of_a_turn_is_damage() -> None:
    ending = record(2, type="turn/end", data={"turn": 1, "reason": {"kind": "completed"}})
    content = lines(long_record(0), "{oops", ending)
    with pytest.raises(LogCorrupt, match="end of a turn follows"):
        load_log("f", HEADER + torn_raw(content), VOCABULARY, recover=True)


def test_an_unknown_type_in_a_torn_frame_is_unsupported_too() -> None:
    content = lines(long_record(0), record(1, type="galaxy/brain"))
    with pytest.raises(SessionFormatUnsupported):
        load_log("f", HEADER + torn_raw(content), VOCABULARY, recover=True)


def test_the_head_of_a_file_gives_header_and_first_title() -> None:
    batches = [turn(), [event(6, TitleSet("First"))], [event(7, TitleSet("Second"))]]
    assert read_head("f", log_bytes(*batches), VOCABULARY) == (header(), "First")


def test_a_text_that_mentions_the_title_event_is_no_title() -> None:
    data = log_bytes([chunk(0, 'the "session/title" event'), chunk(1, '{"type":"session/title"}')])
    assert read_head("f", data, VOCABULARY) == (header(), None)


def test_damage_after_the_header_does_not_matter_to_a_listing() -> None:
    whole = log_bytes(turn(), [event(6, TitleSet("Later"))])
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    assert read_head("f", bytes(damaged), VOCABULARY) == (header(), None)
    assert read_head("f", whole[:-1], VOCABULARY) == (header(), None)
    assert read_head("f", HEADER + b"rubbish", VOCABULARY) == (header(), None)

"""Framing: what the scanner says about every cut and every flipped bit, and that the format is plain zstd."""

from __future__ import annotations

import io

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.persistence_jsonl.frames import (
    Clean,
    Corrupt,
    Frame,
    FrameDamaged,
    TornTail,
    frame_encoder,
    intact,
    plaintexts,
    scan,
    torn_plaintext,
)

LINES = b"".join(b'{"seq":%d,"text":"caf\xc3\xa9 %d"}\n' % (i, i * 7919) for i in range(12))


def frame(content: bytes, *, level: int = 3, checksum: bool = True, content_size: bool = True) -> bytes:
    compressor = zstandard.ZstdCompressor(level, write_checksum=checksum, write_content_size=content_size)
    return compressor.compress(content)


@given(st.lists(st.binary(max_size=600), max_size=5))
def test_frames_give_back_what_was_encoded(contents: list[bytes]) -> None:
    encode = frame_encoder()
    data = b"".join(map(encode, contents))
    frames, verdict = scan(data)
    assert verdict == Clean()
    assert list(plaintexts(data, frames)) == contents
    assert [f.start for f in frames] == [0, *(f.end for f in frames)][: len(frames)]


@given(st.lists(st.binary(min_size=1, max_size=400), min_size=1, max_size=4))
def test_a_standard_decoder_reads_the_concatenation(contents: list[bytes]) -> None:
    data = b"".join(map(frame_encoder(), contents))
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        assert reader.read() == b"".join(contents)


def test_a_frame_carries_a_checksum_and_its_content_size() -> None:
    parameters = zstandard.get_frame_parameters(frame_encoder()(LINES))
    assert parameters.has_checksum
    assert parameters.content_size == len(LINES)


@pytest.mark.parametrize("content", [LINES, b"x\n", bytes(range(256)) * 2, b"a" * 300_000], ids=len)
def test_a_cut_at_any_byte_of_the_last_frame_is_torn_there(content: bytes) -> None:
    first, second = frame(LINES), frame(content)
    for cut in range(1, len(second)):
        frames, verdict = scan(first + second[:cut])
        assert [f.end for f in frames] == [len(first)]
        assert verdict == TornTail(len(first))


@pytest.mark.parametrize("level", [1, 3, 19])
def test_the_plaintext_of_a_torn_frame_is_a_prefix_that_only_grows(level: int) -> None:
    content = b"".join(b"line %d of many, some of them alike\n" % (i * i) for i in range(20_000))
    data = frame(LINES) + frame(content, level=level)
    start = len(frame(LINES))
    seen = 0
    for cut in (*range(start, len(data), 997), len(data) - 1):
        found = torn_plaintext(data[:cut], start)
        assert content.startswith(found)
        assert len(found) >= seen
        seen = len(found)
    assert seen == len(content)  # only the checksum was missing


def test_a_torn_frame_with_a_damaged_block_gives_what_came_before_it() -> None:
    content = b"".join(b"%d\n" % (i * i) for i in range(60_000))
    data = bytearray(frame(content))
    whole = torn_plaintext(bytes(data[:-1]), 0)
    assert whole == content
    data[len(data) * 3 // 4] ^= 0xFF
    found = torn_plaintext(bytes(data[:-1]), 0)
    assert found != content
    assert found[: len(content) // 2] == content[: len(content) // 2]


def streamed(content: bytes) -> bytes:
    """An encoder that does not know the size cannot promise a single segment."""
    encoder = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
    return encoder.compress(content) + encoder.flush()


VARIANTS = {
    "one block": frame(LINES),
    "many blocks": frame(bytes(range(256)) * 2000),
    "a run-length block": frame(b"a" * 200_000),
    "a raw block": frame(bytes(range(256))),
    "empty": frame(b""),
    "no content size": frame(LINES, content_size=False),
    "two-byte content size": frame(LINES * 5),
    "four-byte content size": frame(LINES * 500),
    "a window descriptor": streamed(LINES),
}


@pytest.mark.parametrize("data", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_kind_of_frame_is_walked_to_its_end(data: bytes) -> None:
    frames, verdict = scan(data + frame(LINES))
    assert verdict == Clean()
    assert frames[0].end == len(data)


def test_a_dictionary_id_is_part_of_the_header_and_its_content_is_refused() -> None:
    trained = zstandard.train_dictionary(1024, [b'{"seq":%d,"word":"%d"}' % (i, i * 31) for i in range(500)])
    assert trained.dict_id()
    data = zstandard.ZstdCompressor(dict_data=trained, write_checksum=True).compress(LINES)
    frames, verdict = scan(data)
    assert verdict == Clean()
    with pytest.raises(FrameDamaged):
        list(plaintexts(data, frames))


def set_bits(data: bytes, index: int, bits: int) -> bytes:
    return data[:index] + bytes([data[index] | bits]) + data[index + 1 :]


DAMAGED = {
    "not a frame": b"not zstd at all",
    "zeros": bytes(64),
    "a skippable frame": b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd",
    "the reserved bit": set_bits(frame(LINES), 4, 0x08),
    "the unused bit": set_bits(frame(LINES), 4, 0x10),
    "no checksum": frame(LINES, checksum=False),
    "a reserved block type": set_bits(frame(b"x"), 6, 0x06),
    "a block larger than any": frame(b"x")[:6] + b"\x01\xff\xff" + bytes(3 << 20),
    "more content than the blocks can hold": b"\x28\xb5\x2f\xfd\xe4" + b"\xff" * 7 + b"\x0f" + frame(b"x")[6:],
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_named_with_the_offset_of_its_frame(damaged: bytes) -> None:
    good = frame(LINES)
    frames, verdict = scan(good + damaged)
    assert [f.end for f in frames] == [len(good)]
    assert isinstance(verdict, Corrupt)
    assert verdict.offset == len(good)
    assert verdict.reason


def test_a_flipped_bit_in_any_frame_but_the_last_is_damage_and_never_a_torn_tail() -> None:
    frames = [frame(LINES[:60]), frame(LINES), frame(LINES[:60])]
    data = b"".join(frames)
    data_contents = [LINES[:60], LINES, LINES[:60]]  # some bits of a block mean nothing to its decoder
    start, end = len(frames[0]), len(frames[0]) + len(frames[1])
    for index in range(start, end):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            found, verdict = scan(bytes(flipped))
            assert not isinstance(verdict, TornTail), (index, bit)
            if isinstance(verdict, Corrupt):
                assert verdict.offset >= start
            else:
                assert decodes_to(bytes(flipped), found) in ("damaged", data_contents)


def decodes_to(data: bytes, frames: list[Frame]) -> list[bytes] | str:
    try:
        return list(plaintexts(data, frames))
    except FrameDamaged:
        return "damaged"


@given(st.binary(max_size=300))
def test_any_bytes_get_a_verdict(data: bytes) -> None:
    frames, verdict = scan(data)
    assert isinstance(verdict, Clean | TornTail | Corrupt)
    assert all(0 <= f.start < f.end <= len(data) for f in frames)


def test_intact_means_one_whole_frame_with_a_good_checksum() -> None:
    good = frame(LINES)
    assert intact(good)
    assert not intact(good[:-1])
    assert not intact(good + good)
    assert not intact(b"")
    assert not intact(good[:-1] + bytes([good[-1] ^ 1]))

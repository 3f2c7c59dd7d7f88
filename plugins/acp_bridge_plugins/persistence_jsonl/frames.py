"""zstd frames: one checksummed frame per durable batch (contracts §5.6, RFC 8878 §3).

Owns: encoding a batch, finding frame boundaries without decompressing, and the plaintext of whole and torn frames.
Must not know: records, files. Invariant: pure, bytes in and bytes out. A tail is torn only when the data ends inside
its last frame; everything else that is not a whole frame is damage, and so is a "torn" frame with a whole one after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from msgspec import Struct

__all__ = [
    "Clean",
    "Corrupt",
    "Frame",
    "FrameDamaged",
    "TornTail",
    "Verdict",
    "frame_encoder",
    "intact",
    "plaintexts",
    "scan",
    "torn_plaintext",
    "whole_frame_after",
    "whole_frames",
]

MAGIC = b"\x28\xb5\x2f\xfd"
MAX_BLOCK = 128 * 1024  # RFC 8878 §3.1.1.2.4: no block is larger, and none decompresses to more
CHECKSUM_BYTES = 4

# Measured on batches of 1 to 1,000 chunk events: level 3 costs what level 1 does, negative levels save 8 us of a
# small batch and make the file 10 to 70 % larger.
LEVEL = 3


class FrameDamaged(ValueError):
    """The structurally whole frame at byte `offset` has content that does not check out."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


class Clean(Struct, frozen=True):
    """The data ends with a whole frame (or is empty)."""


class TornTail(Struct, frozen=True):
    """The last frame begins at byte `offset` and is cut off by the end of the data."""

    offset: int


class Corrupt(Struct, frozen=True):
    """Damage in the frame that begins at byte `offset`."""

    offset: int
    reason: str


Verdict = Clean | TornTail | Corrupt


class Frame(Struct, frozen=True, gc=False):
    """Bytes `[start, end)`; `bound` is the most plaintext that its blocks can hold."""

    start: int
    end: int
    bound: int


def scan(data: bytes) -> tuple[list[Frame], Verdict]:
    """Every whole frame up to the first that is not, and what the data ends with."""
    frames = list(whole_frames(data))
    offset = frames[-1].end if frames else 0
    if offset == len(data):
        return frames, Clean()
    stopped = _frame_at(data, offset)
    if isinstance(stopped, Corrupt):
        return frames, stopped
    return frames, _torn_or_overrun(data, offset)


def whole_frames(data: bytes) -> Iterator[Frame]:
    """Lazily, up to the first that is torn or damaged; `scan` tells which."""
    offset = 0
    while offset < len(data):
        found = _frame_at(data, offset)
        if not isinstance(found, Frame):
            return
        yield found
        offset = found.end


def frame_encoder() -> Callable[[bytes], bytes]:
    """One call, one frame. The encoder reuses its context, so it serves one thread at a time."""
    # Imported by its users, not by the start path: loading the extension takes milliseconds.
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True).compress


def plaintexts(data: bytes, frames: Iterable[Frame]) -> Iterator[bytes]:
    """The content of whole frames, in order. Raises FrameDamaged when content or checksum of one do not hold."""
    from zstandard import ZstdDecompressor, ZstdError

    decompress = ZstdDecompressor().decompress
    for frame in frames:
        try:
            yield decompress(data[frame.start : frame.end], max_output_size=frame.bound, allow_extra_data=False)
        except ZstdError as error:
            raise FrameDamaged(frame.start, f"the frame does not decompress ({error})") from error


def intact(data: bytes) -> bool:
    """Whether the data is exactly one whole frame, checksum included."""
    frames, verdict = scan(data)
    try:
        return isinstance(verdict, Clean) and len(list(plaintexts(data, frames))) == 1
    except FrameDamaged:
        return False


def whole_frame_after(data: bytes, start: int) -> int | None:
    """Where the next whole frame begins, if any does, whatever stands before it."""
    offset = data.find(MAGIC, start + 1)
    while offset >= 0:
        if isinstance(_frame_at(data, offset), Frame):
            return offset
        offset = data.find(MAGIC, offset + 1)
    return None


def torn_plaintext(data: bytes, offset: int) -> bytes:
    """What the cut-off frame at `offset` still gives, up to the first byte that does not decode."""
    from zstandard import ZstdDecompressor, ZstdError

    decompressor = ZstdDecompressor().decompressobj()
    out = bytearray()
    try:
        # Piece by piece: a failing call would return nothing of what came before the fault.
        for piece in _torn_pieces(data, offset):
            out += decompressor.decompress(piece)
    except ZstdError:
        pass
    return bytes(out)


class _Descriptor(Struct, frozen=True, gc=False):
    """Lengths in a frame header: `prefix` is window and dictionary id, `size_bytes` the content size after it."""

    prefix: int
    size_bytes: int
    checksum: bool


@cache
def _descriptor(byte: int) -> _Descriptor:
    size_flag, single, dictionary_flag = byte >> 6, bool(byte & 0x20), byte & 3
    size_bytes = (1 if single else 0, 2, 4, 8)[size_flag]
    return _Descriptor((0 if single else 1) + (0, 1, 2, 4)[dictionary_flag], size_bytes, bool(byte & 0x04))


def _frame_at(data: bytes, start: int) -> Frame | TornTail | Corrupt:
    if not data.startswith(MAGIC, start):
        cut = MAGIC.startswith(data[start : start + 4])
        return TornTail(start) if cut else Corrupt(start, "no zstd frame begins here")
    if start + 4 >= len(data):
        return TornTail(start)
    byte = data[start + 4]
    if byte & 0x18:
        return Corrupt(start, "reserved bits are set in the frame header")
    header = _descriptor(byte)
    if not header.checksum:
        return Corrupt(start, "the frame carries no checksum")
    size_at = start + 5 + header.prefix
    found = _walk_blocks(data, start, size_at + header.size_bytes)
    # A flipped size would make the decompressor allocate it before it notices.
    if isinstance(found, Frame) and _content_size(data, size_at, header.size_bytes) > found.bound:
        return Corrupt(start, "the frame promises more content than its blocks can hold")
    return found


def _walk_blocks(data: bytes, start: int, position: int) -> Frame | TornTail | Corrupt:
    bound = 0
    while position + 3 <= len(data):
        header = int.from_bytes(data[position : position + 3], "little")
        if header & 6 == 6 or header >> 3 > MAX_BLOCK:
            return Corrupt(start, "a block has a reserved type or an impossible size")
        position = _block_end(position, header)
        bound += MAX_BLOCK
        if header & 1:
            end = position + CHECKSUM_BYTES
            return Frame(start, end, bound) if end <= len(data) else TornTail(start)
    return TornTail(start)


def _block_end(position: int, header: int) -> int:
    """`header`: 24 bits, of which 1 for "last", 2 for the type, 21 for the size. A run (type 1) is one byte."""
    return position + 3 + (1 if header & 6 == 2 else header >> 3)


def _content_size(data: bytes, position: int, size_bytes: int) -> int:
    size = int.from_bytes(data[position : position + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size  # RFC 8878 §3.1.1.1.4: two bytes count from 256


def _torn_or_overrun(data: bytes, torn: int) -> TornTail | Corrupt:
    """A damaged length can run past the end of the data; cutting there would drop the whole frames after it."""
    offset = whole_frame_after(data, torn)
    if offset is not None:
        return Corrupt(torn, f"the frame runs past the end of the file, over a whole one at byte {offset}")
    return TornTail(torn)


def _torn_pieces(data: bytes, start: int) -> Iterator[bytes]:
    """The header with the first block, then block by block, the last one as far as it goes."""
    if start + 4 >= len(data):
        return
    header = _descriptor(data[start + 4])
    position = start + 5 + header.prefix + header.size_bytes
    while position + 3 <= len(data):
        position = _block_end(position, int.from_bytes(data[position : position + 3], "little"))
        yield data[start:position]
        start = position
    yield data[start:]

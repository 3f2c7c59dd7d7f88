"""What a log file says: header, events, and what a torn tail still holds (contracts §5.5, §5.8, §1.9).

Owns: the order of the checks (version, then damage, then vocabulary) and the torn-or-corrupt rules for records.
Must not know: files, locks. Invariant: pure; every record of a whole frame counts or the log is refused with the
offset of that frame; of a torn frame, whole records count up to the first that does not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from acp_bridge.errors import LogCorrupt, SessionFormatUnsupported
from acp_bridge.session.codec import (
    FORMAT_VERSION,
    MalformedRecord,
    UnknownEventType,
    Vocabulary,
    decode_header,
)
from acp_bridge.session.events import Event, Header, TitleSet
from acp_bridge_plugins.persistence_jsonl.decoding import Events
from acp_bridge_plugins.persistence_jsonl.frames import (
    Clean,
    Corrupt,
    Frame,
    FrameDamaged,
    TornTail,
    plaintexts,
    scan,
    torn_plaintext,
    whole_frames,
)
from acp_bridge_plugins.persistence_jsonl.sectors import first_lost_sector, lost_from

__all__ = ["LoadedLog", "load_log", "read_head"]

TITLE_MARK = f'"{TitleSet.TYPE}"'.encode()


class LoadedLog(msgspec.Struct, frozen=True):
    """`events` ends with those of `recovered`, the lines that the torn frame at byte `committed` still gave; `count` is
    the next seq.

    `last_frame` is where the last whole frame begins; `torn` says that bytes follow `committed`.
    """

    header: Header
    events: list[Event]
    count: int
    committed: int
    last_frame: int
    torn: bool
    recovered: list[bytes]


def load_log(path: str, data: bytes, vocabulary: Vocabulary, *, recover: bool, all_chunks: bool = True) -> LoadedLog:
    """Decode a whole file; `recover` says whether records of a torn last frame count, `all_chunks` whether `events`
    holds the chunks of complete replies.

    `path` is for messages only. Raises LogCorrupt and SessionFormatUnsupported.
    """
    events = Events(vocabulary, all_chunks=all_chunks)
    try:
        header, frames, verdict = _whole_batches(path, data, len(data), events)
        readable = first_lost_sector(data, verdict.offset) if isinstance(verdict, TornTail) else None
    except LogCorrupt as damage:
        readable = lost_from(data, damage.offset)
        if readable is None:
            raise
        events, verdict = Events(vocabulary, all_chunks=all_chunks), TornTail(damage.offset)
        header, frames, _ = _whole_batches(path, data, damage.offset, events)
    last = frames[-1]
    recovered: list[tuple[bytes, Event]] = []
    if recover and isinstance(verdict, TornTail):
        content = torn_plaintext(data[:readable], verdict.offset)
        recovered = _recovered(path, content, last.end, vocabulary, events.count)
    for _, event in recovered:
        events.add(event)
    lines = [line + b"\n" for line, _ in recovered]
    return LoadedLog(header, events.kept(), events.count, last.end, last.start, len(data) > last.end, lines)


def read_head(path: str, head: bytes, vocabulary: Vocabulary) -> tuple[Header, str | None]:
    """The header and the first title within the first bytes of a file. Damage after the header does not matter."""
    contents = plaintexts(head, whole_frames(head))
    header = _header(path, contents)
    return header, next(_titles(contents, vocabulary), None)


def _whole_batches(path: str, data: bytes, end: int, events: Events) -> tuple[Header, list[Frame], Clean | TornTail]:
    """Fill `events` from the first `end` bytes. Raises LogCorrupt, SessionFormatUnsupported."""
    frames, verdict = scan(data if end == len(data) else data[:end])
    contents = plaintexts(data, frames)
    header = _header(path, contents)
    if isinstance(verdict, Corrupt):
        raise _first_damage(path, contents, verdict)
    _decode(path, zip(frames[1:], contents, strict=True), events)
    return header, frames, verdict


def _first_damage(path: str, contents: Iterator[bytes], verdict: Corrupt) -> LogCorrupt:
    """A damaged length only shows where the next frame should begin; the frame that has it fails its checksum."""
    try:
        for _ in contents:
            pass
    except FrameDamaged as error:
        return LogCorrupt(path, error.offset, error.reason)
    return LogCorrupt(path, verdict.offset, verdict.reason)


class _Version(msgspec.Struct):
    type: str
    version: int


def _header(path: str, contents: Iterator[bytes]) -> Header:
    """Takes the first frame off `contents`."""
    try:
        line = next(contents)
        # Before anything else is looked at: a refusal must never look like damage.
        found = msgspec.json.decode(line, type=_Version)
        if found.type == "session" and found.version != FORMAT_VERSION:
            raise SessionFormatUnsupported(path, _version_advice(found.version))
        if line.find(b"\n") != len(line) - 1:
            raise LogCorrupt(path, 0, "the first frame is not exactly one line")
        return decode_header(line)
    except StopIteration:
        raise LogCorrupt(path, 0, "there is no complete header frame") from None
    except (FrameDamaged, MalformedRecord, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogCorrupt(path, 0, f"the header cannot be read ({error})") from error


def _version_advice(version: int) -> str:
    if version > FORMAT_VERSION:
        return f"the log has format {version}, written by a newer acp-bridge; upgrade to open it"
    return f"the log has format {version}, and there is no upgrade path to format {FORMAT_VERSION}"


def _decode(path: str, batches: Iterable[tuple[Frame, bytes]], events: Events) -> None:
    offset = 0
    try:
        for frame, content in batches:
            offset = frame.start
            events.batch(content)
    except FrameDamaged as error:
        raise LogCorrupt(path, error.offset, error.reason) from error
    except MalformedRecord as error:
        raise LogCorrupt(path, offset, str(error)) from error
    except UnknownEventType as error:
        raise SessionFormatUnsupported(path, str(error)) from error


def _recovered(
    path: str, content: bytes, offset: int, vocabulary: Vocabulary, next_seq: int
) -> list[tuple[bytes, Event]]:
    """Records up to the first that is cut off, unreadable or out of order.

    A last record that lacks only its newline is whole: no proper prefix of a JSON object is a JSON object.
    """
    kept: list[tuple[bytes, Event]] = []
    lines = iter(content.split(b"\n"))
    try:
        for line in lines:
            event = vocabulary.decode_event(line)
            if event.seq != next_seq + len(kept):
                break
            kept.append((line, event))
    except MalformedRecord:
        pass
    except UnknownEventType as error:
        raise SessionFormatUnsupported(path, str(error)) from error
    if any(_ends_a_turn(line, vocabulary) for line in lines):
        raise LogCorrupt(path, offset, "a record is damaged and the end of a turn follows it")
    return kept


def _ends_a_turn(line: bytes, vocabulary: Vocabulary) -> bool:
    try:
        return vocabulary.decode_event(line).type == "turn/end"
    except ValueError:
        return False


def _titles(contents: Iterable[bytes], vocabulary: Vocabulary) -> Iterator[str]:
    try:
        for content in contents:
            for line in _lines_with(TITLE_MARK, content):
                title = _title(line, vocabulary)
                if title is not None:
                    yield title
    except FrameDamaged:
        return


def _lines_with(mark: bytes, content: bytes) -> Iterator[bytes]:
    """The quotes of a type named inside a text are escaped, so the mark finds events only."""
    found = content.find(mark)
    while found >= 0:
        end = content.find(b"\n", found)
        yield content[content.rfind(b"\n", 0, found) + 1 : end]
        found = content.find(mark, end) if end >= 0 else -1


def _title(line: bytes, vocabulary: Vocabulary) -> str | None:
    try:
        event = vocabulary.decode_event(line)
    except ValueError:
        return None
    return event.data.title if isinstance(event.data, TitleSet) else None

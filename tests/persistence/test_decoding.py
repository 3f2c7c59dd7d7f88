"""Batches of lines into events: the quick way and the line-by-line way agree, and what is kept (contracts §5.5)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_bridge.session.codec import Record, Vocabulary
from acp_bridge.session.content import Message, ModelSource, TextBlock
from acp_bridge.session.events import AssistantMessage, Event, StepEnd, TodoWrite
from acp_bridge_plugins.persistence_jsonl.decoding import Events
from tests.persistence.helpers import VOCABULARY, chunk, chunks, event, turn
from tests.session.strategies import events

LINE = VOCABULARY.encode_event(chunk(0))
NEXT = VOCABULARY.encode_event(chunk(1))
UNKNOWN = b'{"type":"x/y","seq":0,"time":1,"data":{"a":1}}\n'


class LineByLine(Vocabulary):
    def decode_lines(self, content: bytes) -> list[Record] | None:
        return None


def read(content: bytes, vocabulary: Vocabulary) -> tuple[object, ...]:
    """What is kept, or which refusal it is."""
    found = Events(vocabulary)
    try:
        found.batch(content)
    except ValueError as error:
        return type(error), str(error)
    return found.kept(), found.count


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Whole lines of random events, some with a byte changed, put in or taken out."""
    found = draw(st.lists(events(), min_size=1, max_size=4))
    content = b"".join(VOCABULARY.encode_event(msgspec.structs.replace(one, seq=seq)) for seq, one in enumerate(found))
    if draw(st.booleans()):
        at, length = draw(st.integers(0, len(content))), draw(st.integers(0, 1))
        put = draw(st.sampled_from([b"", b"\n", b"}\n{", b"{", b" ", b"\r", b"0", b'"', b"\xff"]))
        content = content[:at] + put + content[at + length :]
    return content


@given(batches())
@example(b"")
@example(b"\n")
@example(LINE + b"\n")
@example(LINE[:-1] + NEXT + b"\n")
@example(LINE[:-1] + b" \n" + NEXT)
@example(LINE + LINE)
@example(NEXT + LINE)
@example(LINE + NEXT[:-1])
@example(LINE.replace(b'"seq":0', b'"seq":0,"surfaceOp":"append"'))
@example(UNKNOWN)
@example(UNKNOWN.replace(b"}\n", b',"ignorable":true}\n') + NEXT)
def test_a_batch_is_read_at_once_as_it_is_line_by_line(content: bytes) -> None:
    assert read(content, VOCABULARY) == read(content, LineByLine())


def test_usual_batches_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = turn()
    content = b"".join(map(VOCABULARY.encode_event, found))
    monkeypatch.setattr(Vocabulary, "decode_event", lambda *_: pytest.fail("read line by line"))
    assert read(content, VOCABULARY) == (found, len(found))


def kept(*found: Event, size: int) -> list[int]:
    """The seqs that stay, of a log stored in batches of `size`."""
    log = Events(VOCABULARY, all_chunks=False)
    for start in range(0, len(found), size):
        log.batch(b"".join(map(VOCABULARY.encode_event, found[start : start + size])))
    assert log.count == len(found)
    return [one.seq for one in log.kept()]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_chunks_stay_while_their_reply_is_open_and_go_with_its_end(size: int) -> None:
    reply = Message("a", "assistant", (TextBlock("hello"),), ModelSource("fake", "model"))
    message = event(4, AssistantMessage(1, 1, reply))
    before = turn()[:2]
    todo = event(8, TodoWrite(()))
    assert kept(*before, *chunks(2, 4), size=size) == [0, 1, 2, 3]
    assert kept(*before, *chunks(2, 4), message, size=size) == [0, 1, 4]
    assert kept(*before, *chunks(2, 4), event(4, StepEnd(1, 1)), size=size) == [0, 1, 4]
    assert kept(*before, *chunks(2, 4), message, *chunks(5, 8), todo, *chunks(9, 11), size=size) == [
        0, 1, 4, 5, 6, 7, 8, 9, 10,
    ]  # fmt: skip

"""Events to and from lines: lossless both ways, and every refusal is the right one (contracts §1.1, §1.9)."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.chunks import TextDelta
from acp_bridge.session.codec import (
    FORMAT_VERSION,
    MalformedRecord,
    UnknownEventType,
    Vocabulary,
    decode_header,
    encode_header,
)
from acp_bridge.session.events import (
    CORE_BODIES,
    AssistantChunk,
    Body,
    EndSeed,
    Event,
    Header,
    RequestConfig,
    TurnStart,
)
from tests.session.strategies import events, headers
from tests.session.writing import result, text

VOCABULARY = Vocabulary()
TURN = b'{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}'
MESSAGE = (
    b'{"type":"user/message","seq":0,"time":5,"data":{"id":"u","role":"user","content":[],"source":{"kind":"user"}},'
    b'"surfaceOp":"append"}'
)


@given(events())
def test_an_event_comes_back_from_its_line_as_it_was(event: Event) -> None:
    assert VOCABULARY.decode_event(VOCABULARY.encode_event(event)) == event


@given(events())
def test_a_line_ends_with_its_only_line_feed(event: Event) -> None:
    line = VOCABULARY.encode_event(event)
    assert line.find(b"\n") == len(line) - 1
    json.loads(line)


@given(headers())
def test_a_header_comes_back_from_its_line_as_it_was(header: Header) -> None:
    assert decode_header(encode_header(header)) == header


@given(st.binary(max_size=60) | st.sampled_from([TURN[:n] for n in range(len(TURN))]))
def test_any_other_bytes_are_a_malformed_record_and_nothing_else_is_raised(line: bytes) -> None:
    for decode in (VOCABULARY.decode_event, decode_header):
        with pytest.raises(MalformedRecord):
            decode(line)


def test_every_type_has_a_name_of_its_own() -> None:
    assert len({body.TYPE for body in CORE_BODIES}) == len(CORE_BODIES)
    assert all(body.TYPE for body in CORE_BODIES)


def test_the_envelope_on_disk_is_the_one_of_the_contract() -> None:
    body = AssistantChunk(1, 2, TextDelta(0, "a\u2028b"))
    line = VOCABULARY.encode_event(Event(body.TYPE, 7, 9, body))
    chunk = {"type": "text-delta", "index": 0, "text": "a\u2028b"}
    data = {"turn": 1, "step": 2, "chunk": chunk}
    assert json.loads(line) == {"type": "assistant/chunk", "seq": 7, "time": 9, "data": data}


def test_absent_fields_are_left_out_and_a_source_run_is_a_pair() -> None:
    body = result(1, 1, "c")
    line = VOCABULARY.encode_event(Event(body.TYPE, 7, 9, body, "append", (1, (3, 5))))
    assert json.loads(line)["sourceEventSeqs"] == [1, [3, 5]]
    assert b"null" not in line


def test_an_unknown_type_is_told_apart_from_damage() -> None:
    with pytest.raises(UnknownEventType, match="event 4 has the unknown type 'later/thing'") as caught:
        VOCABULARY.decode_event(b'{"type":"later/thing","seq":4,"time":5,"data":{}}')
    assert (caught.value.event_type, caught.value.seq) == ("later/thing", 4)


def test_an_unknown_type_that_says_it_may_be_ignored_is_carried_along_whole() -> None:
    line = b'{"type":"later/thing","seq":4,"time":5,"data":{"a":[1,null]},"ignorable":true}'
    event = VOCABULARY.decode_event(line)
    assert event.data == {"a": [1, None]}
    assert json.loads(VOCABULARY.encode_event(event)) == json.loads(line)


class Mood(Body, frozen=True):
    TYPE = "acme/mood"
    mood: str


def test_a_plugin_can_add_its_own_types_to_the_vocabulary() -> None:
    event = Event(Mood.TYPE, 0, 5, Mood("fine"))
    line = VOCABULARY.encode_event(event)
    assert Vocabulary([Mood]).decode_event(line) == event
    with pytest.raises(UnknownEventType):
        VOCABULARY.decode_event(line)


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"[]",
        TURN.replace(b'"seq":0', b'"seq":-1'),
        TURN.replace(b'"seq":0', b'"seq":0.5'),
        TURN.replace(b'"seq":0', b'"seq":9007199254740992'),
        TURN.replace(b'"seq":0,', b""),
        TURN.replace(b'{"turn":1}', b"{}"),
        TURN.replace(b'{"turn":1}', b'{"turn":"1"}'),
        TURN.replace(b'{"turn":1}', b'{"turn":1,"more":2}'),
        TURN.replace(b'"time":5', b'"time":5,"more":1'),
        TURN.replace(b'"time":5', b'"time":5,"surfaceOp":"append"'),
        TURN.replace(b'"time":5', b'"time":5,"ignorable":false'),
        TURN.replace(b'"time":5', b'"time":5,"surfaceOp":{"op":"replace","start":0,"end":0}'),
        MESSAGE.replace(b'"append"', b'{"op":"drop","start":0,"end":0}'),
        MESSAGE.replace(b'"append"', b'{"op":"replace","start":0}'),
        TURN + TURN,
        TURN[:-1] + b"\xff}",
        b'{"type":"user/message","seq":0,"time":5,"data":{"id":"u","role":"user","content":[],"source":{"kind":"user"}}}',
    ],
)
def test_a_line_of_another_shape_is_malformed(line: bytes) -> None:
    with pytest.raises(MalformedRecord):
        VOCABULARY.decode_event(line)


def test_a_result_that_answers_no_call_or_two_is_malformed() -> None:
    body = result(1, 1, "c")
    line = VOCABULARY.encode_event(Event(body.TYPE, 0, 5, body, "append"))
    block = msgspec.json.encode(body.block)
    for wrong in (b"", block + b"," + block, msgspec.json.encode(text("x"))):
        with pytest.raises(MalformedRecord):
            VOCABULARY.decode_event(line.replace(block, wrong))
    with pytest.raises(MalformedRecord):
        VOCABULARY.decode_event(line.replace(b'"callId":"c"', b'"callId":"d"'))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_has_not_is_refused_and_never_stored_as_null(number: float) -> None:
    body = msgspec.structs.replace(result(1, 1, "c"), meta={"deep": [{"x": number}]})
    with pytest.raises(MalformedRecord, match="event 3"):
        VOCABULARY.encode_event(Event(body.TYPE, 3, 5, body, "append"))
    with pytest.raises(MalformedRecord):
        VOCABULARY.encode_event(Event("x", 3, 5, RequestConfig("p", "m", temperature=number)))


def test_a_lone_surrogate_is_refused_with_the_event_and_without_the_text() -> None:
    body = AssistantChunk(1, 1, TextDelta(0, "secret \ud800"))
    with pytest.raises(MalformedRecord, match=r"event 3 \(assistant/chunk\)") as caught:
        VOCABULARY.encode_event(Event(body.TYPE, 3, 5, body))
    assert "secret" not in str(caught.value)


def test_a_body_without_fields_is_an_empty_object() -> None:
    assert b'"data":{}' in VOCABULARY.encode_event(Event(EndSeed.TYPE, 0, 5, EndSeed()))
    assert b'"data":{"turn":1}' in VOCABULARY.encode_event(Event(TurnStart.TYPE, 0, 5, TurnStart(1)))


def test_the_shape_of_the_header_goes_with_the_format_version() -> None:
    """A structural change needs a new version: whoever changes this line must look at FORMAT_VERSION, too."""
    header = Header(1, "s", 2, "/p", "parent", 3, "subagent", 4, "minimal")
    assert FORMAT_VERSION == 1
    assert json.loads(encode_header(header)) == {
        "type": "session",
        "version": 1,
        "id": "s",
        "createdAt": 2,
        "cwd": "/p",
        "parentSession": "parent",
        "seedLength": 3,
        "origin": "subagent",
        "delegationDepth": 4,
        "agentPreset": "minimal",
    }

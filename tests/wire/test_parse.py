"""One line to one message; every bad line to an Invalid that says how to answer it."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from acp_bridge.errors import InvalidRequest, ParseError
from acp_bridge.wire.jsonrpc import (
    FrameKind,
    Invalid,
    Notification,
    Oversized,
    Request,
    Response,
    id_key,
    parse,
    too_long,
)

EMPTY = Raw(b"")


class Bad(NamedTuple):
    line: bytes
    id: bytes | None
    error: type[Exception]
    kind: FrameKind = "unknown"


DEEP = 100_000
BAD = {
    "empty": Bad(b"", None, ParseError),
    "not json": Bad(b"hello", None, ParseError),
    "cut short": Bad(b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"x":', b"7", ParseError, "request"),
    "trailing text": Bad(b'{"id":7,"method":"a"} x', b"7", ParseError, "request"),
    "batch": Bad(b'[{"jsonrpc":"2.0","id":1,"method":"a"}]', None, InvalidRequest),
    "empty batch": Bad(b"[]", None, InvalidRequest),
    "scalar": Bad(b"12", None, InvalidRequest),
    "null": Bad(b"null", None, InvalidRequest),
    "empty object": Bad(b"{}", None, InvalidRequest),
    "no method": Bad(b'{"jsonrpc":"2.0","id":7}', b"7", InvalidRequest),
    "method is a number": Bad(b'{"id":7,"method":1}', b"7", InvalidRequest, "request"),
    "method is null": Bad(b'{"id":7,"method":null}', b"7", InvalidRequest, "request"),
    "method and no id": Bad(b'{"method":[]}', None, InvalidRequest, "request"),
    "params are a string": Bad(b'{"id":7,"method":"a","params":"x"}', b"7", InvalidRequest, "request"),
    "params are a number": Bad(b'{"id":7,"method":"a","params":1}', b"7", InvalidRequest, "request"),
    "params are true": Bad(b'{"id":7,"method":"a","params":true}', b"7", InvalidRequest, "request"),
    "id is an object": Bad(b'{"id":{},"method":"a"}', None, InvalidRequest, "request"),
    "id is true": Bad(b'{"id":true,"method":"a"}', None, InvalidRequest, "request"),
    "id out of range": Bad(b'{"id":1e999,"method":"a"}', None, InvalidRequest, "request"),
    "other version": Bad(b'{"jsonrpc":"1.0","id":7,"method":"a"}', b"7", InvalidRequest, "request"),
    "version is a number": Bad(b'{"jsonrpc":2.0,"id":7,"method":"a"}', b"7", InvalidRequest, "request"),
    "method twice": Bad(b'{"id":7,"method":"a","method":"b"}', b"7", InvalidRequest, "request"),
    "id twice": Bad(b'{"id":7,"method":"a","id":8}', None, InvalidRequest, "request"),
    "id twice, escaped": Bad(b'{"id":7,"method":"a","\\u0069d":8}', None, InvalidRequest, "request"),
    "bad utf-8": Bad(b'{"id":7,"method":"a","params":{"x":"\xff"}}', b"7", ParseError, "request"),
    "bad utf-8 in the id": Bad(b'{"id":"\xff","method":"a"}', None, ParseError, "request"),
    "encoded surrogate": Bad(b'{"id":7,"method":"a","params":{"x":"\xed\xa0\x80"}}', b"7", ParseError, "request"),
    "lone surrogate and more damage": Bad(
        b'{"id":7,"method":"a","params":{"x":"\\ud800"}', b"7", ParseError, "request"
    ),
    "half an escape": Bad(b'{"id":7,"method":"a","params":{"x":"\\ud80"}}', b"7", ParseError, "request"),
    "NaN": Bad(b'{"id":7,"method":"a","params":{"x":NaN}}', b"7", ParseError, "request"),
    "Infinity": Bad(b'{"id":7,"method":"a","params":[-Infinity]}', b"7", ParseError, "request"),
    "control character": Bad(b'{"id":7,"method":"a","params":{"x":"\x01"}}', b"7", ParseError, "request"),
    "nested arrays": Bad(b'{"id":7,"method":"a","params":' + b"[" * DEEP, b"7", ParseError, "request"),
    "nested objects": Bad(b'{"id":7,"method":"a","params":' + b'{"a":' * DEEP, b"7", ParseError, "request"),
    "id first": Bad(
        b'{"id": "q-\\"1" , "jsonrpc":"2.0", "method":"a", "params": {', b'"q-\\"1"', ParseError, "request"
    ),
    "id behind the damage": Bad(b'{"method":"a","params":{"id":5,"x":},"id":7}', None, ParseError, "request"),
    "an id only in params": Bad(b'{"params":{"id":5},"method":"a",}', None, ParseError),
    "broken result": Bad(b'{"jsonrpc":"2.0","id":3,"result":{"x":}}', b"3", ParseError, "response"),
    "broken error": Bad(b'{"jsonrpc":"2.0","id":3,"error":{"x":}}', b"3", ParseError, "response"),
    "result with bad utf-8": Bad(b'{"id":3,"result":"\xff"}', b"3", ParseError, "response"),
    "result twice": Bad(b'{"id":3,"result":1,"result":2}', b"3", InvalidRequest, "response"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_becomes_an_invalid_with_the_best_known_id(name: str) -> None:
    bad = BAD[name]
    message = parse(bad.line)
    assert isinstance(message, Invalid)
    assert type(message.error) is bad.error
    assert (None if message.id is None else bytes(message.id)) == bad.id
    assert message.kind == bad.kind
    assert str(message.error).endswith(".")


@pytest.mark.parametrize("id_", [b"1", b'"a-b"', b"-3", b"1.5", b'"\\u0061"', b"null", b"12345678901234567890123"])
def test_an_id_of_any_legal_type_is_kept_byte_for_byte(id_: bytes) -> None:
    assert parse(b'{"jsonrpc":"2.0","id": %b ,"method":"m"}' % id_) == Request(Raw(id_), "m", EMPTY)


def test_a_request_keeps_its_params_unparsed() -> None:
    line = b'{"jsonrpc":"2.0","method":"session/prompt","id":1,"params":{"a": [1 ] },"extra":{"b":2}}'
    assert parse(line) == Request(Raw(b"1"), "session/prompt", Raw(b'{"a": [1 ] }'))


@pytest.mark.parametrize("line", [b'{"id":1,"method":"m"}', b'{"id":1,"method":"m","params":null}'])
def test_absent_and_null_params_are_empty_and_a_missing_version_is_tolerated(line: bytes) -> None:
    assert parse(line) == Request(Raw(b"1"), "m", EMPTY)


def test_a_method_without_an_id_is_a_notification_and_with_one_a_request() -> None:
    assert parse(b'{"method":"session/cancel","params":{}}') == Notification("session/cancel", Raw(b"{}"))
    assert isinstance(parse(b'{"method":"session/cancel","id":4}'), Request)


def test_a_method_name_may_be_escaped() -> None:
    assert parse(b'{"method":"a\\u002fb"}') == Notification("a/b", EMPTY)


@pytest.mark.parametrize(
    ("line", "response"),
    [
        (b'{"id":1,"result":{"a":1}}', Response(Raw(b"1"), Raw(b'{"a":1}'), EMPTY)),
        (b'{"id":1,"result":null}', Response(Raw(b"1"), Raw(b"null"), EMPTY)),
        (b'{"id":1,"result":2,"error":null}', Response(Raw(b"1"), Raw(b"2"), EMPTY)),
        (b'{"id":null,"error":{"code":1}}', Response(Raw(b"null"), Raw(b"null"), Raw(b'{"code":1}'))),
        (b'{"error":{"code":1}}', Response(Raw(b"null"), Raw(b"null"), Raw(b'{"code":1}'))),
    ],
)
def test_a_line_with_a_result_or_an_error_is_a_response(line: bytes, response: Response) -> None:
    assert parse(line) == response


def test_ids_are_the_same_by_value_not_by_spelling() -> None:
    assert id_key(b"1") == id_key(b"1.0") != id_key(b'"1"')
    assert id_key(b'"a"') == id_key(b'"\\u0061"')


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"\uDFFF", "\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\ude00\ude00", "\U0001f600\ufffd"),
        (rb"\udc00\ud800", "\ufffd\ufffd"),
        (rb"\ud800\n\ud83d\ude00\\ud800\\\ud800", "\ufffd\n\U0001f600\\ud800\\\ufffd"),
        (rb"\ud800\u0041", "\ufffdA"),
    ],
)
def test_lone_surrogates_are_replaced_and_nothing_else_is(written: bytes, read: str) -> None:
    message = parse(b'{"id":1,"method":"m","params":{"x":"%b"}}' % written)
    assert isinstance(message, Request)
    assert json.loads(bytes(message.params)) == {"x": read}


def test_a_short_id_does_not_keep_its_whole_line_alive() -> None:
    message = parse(b'{"id":1,"method":"m","params":{"x":"%b"}}' % (b"y" * 10_000))
    assert isinstance(message, Request)
    assert len(memoryview(message.id).obj) < 10  # type: ignore[arg-type]  # the exporter of the view


def test_an_oversized_request_is_answered_by_its_id_and_an_oversized_response_never() -> None:
    request = too_long(Oversized(9, b'{"jsonrpc":"2.0","id":"u-1","method":"session/prompt","params":{"prompt":[{"t'))
    assert (request.id, request.kind) == (Raw(b'"u-1"'), "request")
    assert "longer than the cap of 9 bytes" in str(request.error)
    response = too_long(Oversized(9, b'{"jsonrpc":"2.0","id":3,"result":{"content":"aaaa'))
    assert (response.id, response.kind) == (Raw(b"3"), "response")
    cut_in_the_id = too_long(Oversized(9, b'{"jsonrpc":"2.0","method":"a","id":12'))
    assert cut_in_the_id.id is None


@given(st.binary(max_size=200))
def test_parse_never_raises_on_any_bytes(line: bytes) -> None:
    parse(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
members = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"])


@given(st.dictionaries(members, json_values), st.data())
def test_parse_never_raises_on_damaged_frames_and_serves_only_valid_json(
    frame: dict[str, object], data: st.DataObject
) -> None:
    line = bytearray(json.dumps(frame, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(0, 3))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    message = parse(bytes(line))
    if not isinstance(message, Invalid):
        json.loads(bytes(line))


@given(json_values.filter(lambda value: isinstance(value, dict)), st.one_of(st.integers(0, 2**70), st.text()))
def test_valid_requests_parse_to_what_was_written(params: object, id_: object) -> None:
    frame = {"jsonrpc": "2.0", "id": id_, "method": "m", "params": params}
    message = parse(json.dumps(frame, ensure_ascii=True).encode())
    assert isinstance(message, Request)
    assert json.loads(bytes(message.params)) == params
    assert json.loads(bytes(message.id)) == id_

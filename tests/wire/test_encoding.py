"""Messages to lines."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from acp_bridge.wire.jsonrpc import Request, encode_error, encode_notification, encode_request, encode_result, parse


def decoded(frame: bytes) -> Any:
    assert frame.endswith(b"\n")
    assert frame.count(b"\n") == 1
    return json.loads(frame)


class Chunk(msgspec.Struct, rename="camel", omit_defaults=True):
    session_id: str
    note: str | None = None


def test_each_kind_has_its_members_and_nothing_else() -> None:
    assert decoded(encode_result(Raw(b'"a"'), {"x": 1})) == {"jsonrpc": "2.0", "id": "a", "result": {"x": 1}}
    assert decoded(encode_request(4, "m", {"x": 1})) == {"jsonrpc": "2.0", "id": 4, "method": "m", "params": {"x": 1}}
    assert decoded(encode_notification("m", Chunk("s"))) == {
        "jsonrpc": "2.0",
        "method": "m",
        "params": {"sessionId": "s"},
    }
    assert decoded(encode_error(Raw(b"1"), -1, "no")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -1, "message": "no"},
    }
    assert decoded(encode_error(None, -1, "no", {"a": 1}))["id"] is None
    assert decoded(encode_error(None, -1, "no", {"a": 1}))["error"]["data"] == {"a": 1}


@pytest.mark.parametrize("id_", [b"1", b"1.50", b'"\\u0061"', b"null"])
def test_an_id_is_echoed_byte_for_byte(id_: bytes) -> None:
    request = parse(b'{"id":%b,"method":"m"}' % id_)
    assert isinstance(request, Request)
    assert b'"id":%b,' % id_ in encode_result(request.id, {})
    assert b'"id":%b,' % id_ in encode_error(request.id, 1, "x")


def test_nothing_is_sent_as_an_empty_object_never_as_null() -> None:
    assert decoded(encode_result(Raw(b"1"), None))["result"] == {}
    assert decoded(encode_notification("m", None))["params"] == {}


@pytest.mark.parametrize("result", [[], "ok", 1, True])
def test_a_result_that_is_no_object_is_refused(result: object) -> None:
    with pytest.raises(TypeError, match="a result must be an object"):
        encode_result(Raw(b"1"), result)


def test_newlines_inside_values_and_raw_json_stay_inside_the_line() -> None:
    raw = Raw(b'{\n  "a": "b\\nc"\n}')
    assert decoded(encode_notification("m", {"text": "a\nb\r\n", "raw": raw}))["params"] == {
        "text": "a\nb\r\n",
        "raw": {"a": "b\nc"},
    }


def test_a_lone_surrogate_is_replaced_and_the_rest_of_the_frame_survives() -> None:
    params = {"a": ["x\ud83dy", {"\udc00": 1}], "b": Raw(b'{"c":[1]}'), "pair": "\U0001f600"}
    assert decoded(encode_notification("m", params))["params"] == {
        "a": ["x\ufffdy", {"\ufffd": 1}],
        "b": {"c": [1]},
        "pair": "\U0001f600",
    }
    assert decoded(encode_notification("m", Chunk("s\ud800")))["params"] == {"sessionId": "s\ufffd"}


def test_what_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_notification("m", {"a": object()})
    with pytest.raises(TypeError):
        encode_notification("m", {"a": object(), "b": "\ud800"})


@given(st.dictionaries(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=()))))
def test_any_text_is_one_valid_line(params: dict[str, str]) -> None:
    decoded(encode_notification("m", params)).keys()

"""What a handler's caller is told about bad params."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from acp_bridge.errors import InvalidParams
from acp_bridge.wire.params import decode_params


class Block(msgspec.Struct):
    text: str


class Params(msgspec.Struct, rename="camel"):
    cwd: str
    mcp_servers: list[Block] = []
    options: dict[str, int] = {}


class Nothing(msgspec.Struct):
    session_id: str | None = None


def test_unknown_members_are_ignored_and_absent_params_are_an_empty_object() -> None:
    assert decode_params(Raw(b'{"cwd":"/a","_meta":{"x":1},"more":[]}'), Params) == Params("/a")
    assert decode_params(Raw(b""), Nothing) == Nothing()


@pytest.mark.parametrize(
    ("line", "field", "sentence"),
    [
        (b"{}", "cwd", "The parameter cwd is required."),
        (b"", "cwd", "The parameter cwd is required."),
        (b'{"cwd":1}', "cwd", "The parameter cwd: expected `str`, got `int`."),
        (b'{"cwd":"/","mcpServers":[{}]}', "mcpServers[0].text", "The parameter mcpServers[0].text is required."),
        (
            b'{"cwd":"/","mcpServers":[{"text":"a"},{"text":null}]}',
            "mcpServers[1].text",
            "The parameter mcpServers[1].text: expected `str`, got `null`.",
        ),
        (b'{"cwd":"/","options":{"a":"b"}}', "options[...]", "The parameter options[...]: expected `int`, got `str`."),
        (b"[]", "", "The params: expected `object`, got `array`."),
        (b'{"cwd"', "", "The params cannot be read: Input data was truncated."),
    ],
)
def test_a_bad_parameter_is_named_in_a_sentence_and_as_a_field(line: bytes, field: str, sentence: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        decode_params(Raw(line), Params)
    assert (caught.value.field, str(caught.value)) == (field, sentence)


def test_params_nested_too_deeply_are_refused() -> None:
    with pytest.raises(InvalidParams):
        decode_params(Raw(b'{"cwd":"/","x":' + b"[" * 100_000), Params)

"""Call ids and argument strings that fit the log, whatever the model sent (field case P13)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.agent.calls import parse_arguments, unique_calls
from acp_bridge.session.content import Block, TextBlock, ToolCallBlock

# Ids as models choose them, those that this very function makes among them.
ids = st.sampled_from(["", "a", "b", "call", "call-1-1-0", "call-1-1-1", "call-1-1-2", "a-1-1-1", "a-1-1-2"])
replies = st.lists(st.builds(ToolCallBlock, ids, st.just("touch"), st.just("{}")) | st.just(TextBlock("x")), max_size=6)


def call_ids(blocks: Sequence[Block]) -> list[str]:
    return [block.id for block in blocks if isinstance(block, ToolCallBlock)]


@given(replies, st.frozensets(ids))
def test_ids_of_a_session_never_repeat_and_are_never_empty(blocks: list[Block], used: frozenset[str]) -> None:
    fresh, repeated = unique_calls(blocks, set(used), "1-1")
    found = call_ids(fresh)
    assert len(set(found)) == len(found)
    assert not set(found) & used
    assert all(found)
    assert repeated <= set(found)


@given(replies, st.frozensets(ids))
def test_only_ids_change_and_a_good_one_does_not(blocks: list[Block], used: frozenset[str]) -> None:
    fresh, repeated = unique_calls(blocks, set(used), "1-1")
    assert len(fresh) == len(blocks)
    seen: set[str] = set()
    for before, after in zip(blocks, fresh, strict=True):
        if not isinstance(before, ToolCallBlock) or not isinstance(after, ToolCallBlock):
            assert before == after
            continue
        assert (before.name, before.arguments) == (after.name, after.arguments)
        assert (after.id in repeated) is (before.id != "" and before.id in seen)
        seen.add(before.id)


def test_the_first_of_two_calls_with_one_id_keeps_it_and_the_second_is_marked() -> None:
    blocks = [ToolCallBlock("a", "touch", "1"), ToolCallBlock("a", "touch", "2"), ToolCallBlock("", "touch", "3")]
    fresh, repeated = unique_calls(blocks, set(), "2-1")
    assert call_ids(fresh) == ["a", "a-2-1-1", "call-2-1-2"]
    assert repeated == {"a-2-1-1"}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ("null", None),
        ("[]", []),
        ('"x"', "x"),
        ('{"path": 5}', {"path": 5}),
        ('{"path": "a', '{"path": "a'),
        ("not json", "not json"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("\ud800", "\ud800"),
        ("[" * 5_000, "[" * 5_000),
    ],
)
def test_arguments_are_parsed_or_stay_the_string_they_are(raw: str, value: object) -> None:
    assert parse_arguments(raw) == value


@given(st.text())
def test_any_string_can_be_arguments(raw: str) -> None:
    value = parse_arguments(raw)
    assert value == raw or raw.strip() == "" or msgspec.json.encode(value)

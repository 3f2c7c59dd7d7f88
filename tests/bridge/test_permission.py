"""Reading an editor's answer fails closed: only an explicit `selected` of the allow option is a yes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from acp import schema
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.bridge.permission import OPTIONS, read_answer

ALLOW: dict[str, Any] = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}

ANSWERS: dict[str, tuple[Any, str]] = {
    "allow": (ALLOW, "allow"),
    "allow with more around it": ({"outcome": {**ALLOW["outcome"], "_meta": {}}, "_meta": {"a": 1}, "x": []}, "allow"),
    "reject": ({"outcome": {"outcome": "selected", "optionId": "reject-once"}}, "reject"),
    "reject always": ({"outcome": {"outcome": "selected", "optionId": "reject-always"}}, "reject-always"),
    "cancelled": ({"outcome": {"outcome": "cancelled"}}, "cancelled"),
    "cancelled with an option": ({"outcome": {"outcome": "cancelled", "optionId": "allow-once"}}, "cancelled"),
    "selected nothing": ({"outcome": {"outcome": "selected"}}, "reject"),
    "selected null": ({"outcome": {"outcome": "selected", "optionId": None}}, "reject"),
    "selected a kind": ({"outcome": {"outcome": "selected", "optionId": "allow_once"}}, "reject"),
    "selected another case": ({"outcome": {"outcome": "selected", "optionId": "Allow-Once"}}, "reject"),
    "selected with a space": ({"outcome": {"outcome": "selected", "optionId": "allow-once "}}, "reject"),
    "selected an unknown option": ({"outcome": {"outcome": "selected", "optionId": "allow-always"}}, "reject"),
    "selected a list": ({"outcome": {"outcome": "selected", "optionId": ["allow-once"]}}, "reject"),
    "selected an object": ({"outcome": {"outcome": "selected", "optionId": {"id": "allow-once"}}}, "reject"),
    "selected a number": ({"outcome": {"outcome": "selected", "optionId": 0}}, "reject"),
    "selected true": ({"outcome": {"outcome": "selected", "optionId": True}}, "reject"),
    "another spelling": ({"outcome": {"outcome": "selected", "option_id": "allow-once"}}, "reject"),
    "an option without an outcome": ({"outcome": {"optionId": "allow-once"}}, "reject"),
    "an unknown outcome": ({"outcome": {"outcome": "allowed", "optionId": "allow-once"}}, "reject"),
    "an outcome that is no text": ({"outcome": {"outcome": 1, "optionId": "allow-once"}}, "reject"),
    "an outcome that is a text": ({"outcome": "selected", "optionId": "allow-once"}, "reject"),
    "an outcome that is a list": ({"outcome": [ALLOW["outcome"]]}, "reject"),
    "an outcome that is null": ({"outcome": None}, "reject"),
    "the inner object alone": (ALLOW["outcome"], "reject"),
    "nothing": ({}, "reject"),
    "null": (None, "reject"),
    "a text": ("allow-once", "reject"),
    "true": (True, "reject"),
    "a list": ([ALLOW], "reject"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_everything_but_an_explicit_allow_is_a_no(case: str) -> None:
    """Editors rule 17, contracts §9.3."""
    value, answer = ANSWERS[case]
    assert read_answer(msgspec.Raw(msgspec.json.encode(value))) == answer


RAW = [b"", b"{", b'{"outcome":', b"\xff", b'{"outcome":{"outcome":"selected","optionId":"allow-once"}']


@pytest.mark.parametrize("raw", [*RAW, b'{"outcome":' + b"[" * 100_000, b'{"outcome":{"optionId":' + b"[" * 100_000])
def test_what_cannot_be_read_is_a_no(raw: bytes) -> None:
    assert read_answer(msgspec.Raw(raw)) == "reject"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["selected", "cancelled", "allow-once", "outcome"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["outcome", "optionId", "kind"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values)
def test_no_other_shape_is_ever_a_yes(value: Any) -> None:
    answer = read_answer(msgspec.Raw(msgspec.json.encode(value)))
    outcome = value.get("outcome") if isinstance(value, dict) else None
    explicit = isinstance(outcome, dict) and (outcome.get("outcome"), outcome.get("optionId")) == (
        "selected",
        "allow-once",
    )
    assert (answer == "allow") == explicit


def test_the_options_are_ones_every_editor_can_show() -> None:
    """Editors rule 16: one of each kind, in the usual order; a kind that does more than once is no grant."""
    kinds = [option.kind for option in OPTIONS]
    assert kinds == ["allow_once", "reject_once", "reject_always"]
    for option in OPTIONS:
        schema.PermissionOption.model_validate(msgspec.to_builtins(option))
    asked = {
        option.option_id: read_answer(msgspec.Raw(msgspec.json.encode(_selected(option.option_id))))
        for option in OPTIONS
    }
    assert asked == {"allow-once": "allow", "reject-once": "reject", "reject-always": "reject-always"}


def _selected(option_id: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}

"""The frame check finds each violation that it claims to find, and nothing in a conversation without any."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.frames import Frame, check_frames
from tests.support_tests.conversations import BAD, END, GOOD, LOAD, PROMPT, got, result, sent


@pytest.mark.parametrize("frames", GOOD.values(), ids=GOOD.keys())
def test_a_sound_conversation_has_no_problem(frames: list[Frame]) -> None:
    assert check_frames(frames) == []


@pytest.mark.parametrize(("frames", "expected"), BAD.values(), ids=BAD.keys())
def test_each_violation_is_named(frames: list[Frame], expected: str) -> None:
    problems = check_frames(frames)
    assert any(expected in problem for problem in problems), problems


def test_what_leads_to_a_violation_is_sound_itself() -> None:
    assert check_frames(PROMPT + END) == []
    assert check_frames([*LOAD, result(1)]) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
METHODS = st.sampled_from(
    ["initialize", "session/new", "session/load", "session/prompt", "session/update", "session/request_permission"]
)
FIELDS = {"sessionId": JSON, "update": JSON, "toolCall": JSON, "options": JSON, "clientCapabilities": JSON}
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "method": METHODS | JSON,
        "params": JSON | st.fixed_dictionaries({}, optional=FIELDS),
        "result": JSON | st.fixed_dictionaries({}, optional={"agentCapabilities": JSON, "sessionId": JSON}),
        "error": JSON,
    },
)


@given(st.lists(st.tuples(st.booleans(), MESSAGES | JSON), max_size=8))
@settings(max_examples=150, deadline=None)
def test_the_check_reports_and_never_raises_whatever_crossed_the_wire(lines: list[tuple[bool, Any]]) -> None:
    check_frames([sent(message) if client else got(message) for client, message in lines])

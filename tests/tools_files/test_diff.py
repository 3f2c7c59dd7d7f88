"""The change that a person is shown (field cases A5, E1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.tools_files import diff
from acp_bridge_plugins.tools_files.diff import change

TEXTS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30).map("\n".join)


def test_a_small_file_is_shown_whole_with_its_first_changed_line() -> None:
    found = change("/f", "a\nb\nc\n", "a\nX\nc\n")
    assert (found.diff.path, found.diff.old_text, found.diff.new_text) == ("/f", "a\nb\nc\n", "a\nX\nc\n")
    assert found.line == 2
    assert found.note is None


def test_a_new_file_has_no_old_text() -> None:
    assert change("/f", None, "a\n").diff.old_text is None


def test_hidden_characters_are_visible_and_the_person_is_told() -> None:
    found = change("/f", "a\n", "a\u202e\x1b[0m\n\tb")
    assert found.diff.new_text == "a\\u202e\\x1b[0m\n\tb"
    assert found.note is not None


def test_a_change_between_an_escape_and_the_character_itself_carries_a_note() -> None:
    found = change("/f", "\\u202e", "\u202e")
    assert found.diff.old_text == found.diff.new_text
    assert found.note is not None


def test_of_a_large_file_the_changed_part_is_shown_with_some_lines_around() -> None:
    lines = [f"line {number} {'x' * 40}" for number in range(10_000)]
    new = [*lines[:5000], "changed", *lines[5001:]]
    found = change("/f", "\n".join(lines), "\n".join(new))
    assert found.line == 5001
    assert found.diff.old_text == "\n".join(lines[4997:5004])
    assert found.diff.new_text == "\n".join(new[4997:5004])


@given(TEXTS, TEXTS)
def test_a_shown_part_is_true_and_occurs_once(old: str, new: str) -> None:
    whole, diff.WHOLE = diff.WHOLE, -1
    try:
        found = change("/f", old, new).diff
    finally:
        diff.WHOLE = whole
    assert found.old_text is not None
    assert old.count(found.old_text) == 1 or found.old_text == old
    head, _, tail = old.partition(found.old_text) if found.old_text else ("", "", "")
    assert head + found.new_text + tail == new

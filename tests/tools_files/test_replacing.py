"""Finding text, and what the model is told when it is not there."""

from __future__ import annotations

import pytest

from acp_bridge.errors import ToolFailed
from acp_bridge_plugins.tools_files.replacing import replaced, replaced_ascii
from acp_bridge_plugins.tools_files.text import decode


@pytest.mark.parametrize(
    ("old", "new", "every", "sentence"),
    [
        ("", "x", False, "old_text is empty"),
        ("a", "a", False, "are the same"),
        ("a\r\n", "a\n", False, "are the same"),
        ("b", "x", False, "occurs 2 times in f (lines 2, 4)"),
        ("  a\n", "x", False, "Line 1 matches but for whitespace"),
        ("def function_name(x):", "y", False, "The closest line is line 3: def functoin_name(x):"),
        ("nothing like it", "y", False, "Read the file again"),
        ("\n\n\n", "y", False, "Read the file again"),
    ],
)
def test_an_edit_that_cannot_be_meant_says_why(old: str, new: str, every: bool, sentence: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        replaced("\ta\nb\ndef functoin_name(x):\nb\n", old, new, every=every, name="f")
    assert sentence in caught.value.message


def test_overlapping_occurrences_are_not_unique() -> None:
    with pytest.raises(ToolFailed, match="occurs 2 times"):
        replaced("aaa", "aa", "b", every=False, name="f")


def test_replace_all_replaces_each_and_counts() -> None:
    assert replaced("a b a", "a", "c", every=True, name="f") == ("c b c", 2)


def test_only_ascii_can_be_edited_in_an_unknown_encoding() -> None:
    with pytest.raises(ToolFailed, match="only ASCII"):
        replaced_ascii("caf\xe9", "caf\xe9", "cafe", every=False, name="f")


def test_the_second_byte_of_a_double_byte_character_is_not_taken_for_a_letter() -> None:
    # U+30BD is 83 5C in Shift-JIS: its second byte looks like a backslash.
    text, _ = decode("ソn\n".encode("shift-jis"))
    with pytest.raises(ToolFailed, match="half of a character"):
        replaced_ascii(text, "\\n", "x", every=False, name="f")


def test_ascii_beside_unknown_bytes_can_be_edited() -> None:
    text, _ = decode("ソ = 1\nv = 2\n".encode("shift-jis"))
    assert replaced_ascii(text, " = 1\nv", " = 3\nw", every=False, name="f")[1] == 1


def test_occurrences_are_counted_as_far_as_a_model_can_use_them() -> None:
    """Each costs up to the length of old_text: 4 MB of dashes and a long ruler took minutes."""
    with pytest.raises(ToolFailed, match="at least 1000 times"):
        replaced("-" * 4_000_000, "-" * 2_000, "x", every=False, name="rulers")


def test_a_hint_for_a_large_log_looks_at_likely_lines_only() -> None:
    lines = [
        f'{{"time": {number}, "level": "info", "path": "/items/{number * 7919 % 10007}"}}' for number in range(9_999)
    ]
    wanted = lines[5].replace("info", "inf")
    with pytest.raises(ToolFailed, match="The closest line is line 6: "):
        replaced("\n".join(lines), wanted, "x", every=False, name="log")

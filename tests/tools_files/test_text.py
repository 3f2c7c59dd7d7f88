"""Bytes to text and back, and line ends (field cases E1, E2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.tools_files.replacing import replaced
from acp_bridge_plugins.tools_files.text import (
    NotText,
    decode,
    encode,
    legible,
    line_end,
    realigned,
    same_text,
    view,
)

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.lists(st.tuples(st.text("abc é", max_size=4), ENDS), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("data", "text", "name"),
    [
        (b"", "", "utf-8"),
        (b"caf\xc3\xa9\r\n", "café\r\n", "utf-8"),
        (b"\xef\xbb\xbfa\n", "a\n", "utf-8"),
        (b"\xff\xfea\0\n\0", "a\n", "utf-16-le"),
        (b"\xfe\xff\0a\0\n", "a\n", "utf-16-be"),
        (b"caf\xe9\n", "caf\xe9\n", "latin-1"),
        (b"\xef\xbb\xbfa\xff\n", "\xef\xbb\xbfa\xff\n", "latin-1"),
        ("日本\n".encode("shift-jis"), "日本\n".encode("shift-jis").decode("latin-1"), "latin-1"),
        ("中文\n".encode("gbk"), "中文\n".encode("gbk").decode("latin-1"), "latin-1"),
    ],
)
def test_decoding_and_encoding_give_the_same_bytes_back(data: bytes, text: str, name: str) -> None:
    found, coding = decode(data)
    assert (found, coding.name) == (text, name)
    assert encode(found, coding) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_come_back_unchanged(data: bytes) -> None:
    try:
        text, coding = decode(data)
    except NotText:
        return
    assert encode(text, coding) == data
    legible(text, coding).encode()


@pytest.mark.parametrize("data", [b"a\0b", "a\n".encode("utf-32"), b"\xff\xfe\0\xd8", "a".encode("utf-16-le")])
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(NotText):
        decode(data)


def test_unknown_bytes_are_shown_as_escapes_and_utf8_among_them_as_text() -> None:
    text, coding = decode(b"caf\xe9 na\xc3\xafve\n")
    assert legible(text, coding) == "caf\\xe9 naïve\n"
    assert legible(*decode(b"x\xff\xfex \xed\xa0\x80 \xf0\x9f\xa6")) == r"x\xff\xfex \xed\xa0\x80 \xf0\x9f\xa6"


@pytest.mark.parametrize(
    ("text", "end"), [("a", None), ("a\nb\r\n", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("a\nb\rc\r", "\r")]
)
def test_the_majority_of_line_ends_counts(text: str, end: str | None) -> None:
    assert line_end(text) == end


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("a\r\nb\r\n", "a\nX\nb\n", "a\r\nX\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nX\r\n", "a\r\nX\r\n"),
        ("a\rb\r", "a\nX\n", "a\rX\r"),
        ("a\nb\r\nc\r\n", "a\nb\nX\nc\n", "a\nb\r\nX\r\nc\r\n"),
        ("a\nb\rc\n", "a\nb\nX\n", "a\nb\rX\n"),
        ("a\r\nb", "a\nb\n", "a\r\nb\r\n"),
        ("a\r\nb\r\n", "a\nb", "a\r\nb"),
        ("abc", "a\r\nb\n", "a\r\nb\n"),
        ("", "x\r\n", "x\r\n"),
    ],
)
def test_lines_that_stay_keep_their_end_and_new_ones_follow_the_majority(old: str, new: str, result: str) -> None:
    assert realigned(old, new) == result


@given(LINES, st.text("ab é", max_size=3))
def test_rewriting_a_text_as_it_is_changes_no_byte(lines: list[tuple[str, str]], last: str) -> None:
    text = "".join(line + end for line, end in lines) + last
    assert realigned(text, view(text)) == text


@given(LINES, st.data())
def test_a_change_of_one_line_in_mixed_line_ends_changes_only_that_line(
    lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    # A CR right before an LF would be one line end, not two.
    at = data.draw(st.integers(0, len(lines) - 1))
    lines = [(line or "x", end) for line, end in lines]
    text = "".join(line + end for line, end in lines)
    changed = [(f"{line}-changed" if at == index else line, end) for index, (line, end) in enumerate(lines)]
    new = "\n".join(line for line, _ in changed) + "\n"
    assert realigned(text, new) == "".join(line + end for line, end in changed)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a\r\nb\r\n", "a\nb\n", True),
        ("a\nb\n", "a\nb", True),
        ("\ufeffa\n", "a\n", True),
        ("a\n\n", "a\n", False),
        ("a\n", "b\n", False),
    ],
)
def test_line_ends_and_marks_are_no_difference_between_buffer_and_file(one: str, other: str, same: bool) -> None:
    assert same_text(one, other) is same


@given(LINES, st.booleans(), st.data())
def test_an_edit_of_one_line_changes_the_bytes_of_that_line_only(
    lines: list[tuple[str, str]], marked: bool, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    lines = [(f"<{number}>{line};", end) for number, (line, end) in enumerate(lines)]
    mark = b"\xef\xbb\xbf" if marked else b""
    before = mark + "".join(line + end for line, end in lines).encode()
    text, coding = decode(before)
    new, _ = replaced(view(text), lines[at][0], "new", every=False, name="f")
    lines[at] = ("new", lines[at][1])
    assert encode(realigned(text, new), coding) == mark + "".join(line + end for line, end in lines).encode()

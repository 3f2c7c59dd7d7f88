"""Prompt blocks become one text that reads as the person wrote it, or the prompt is refused whole with the place."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.agent.lifetime import TITLE_CHARACTERS, title_of
from acp_bridge.bridge.prompt_blocks import prompt_text
from acp_bridge.errors import InvalidParams


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def link(uri: str, name: str | None = None) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri} | ({} if name is None else {"name": name})


def resource(uri: str, **content: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, **content}}


LINKS = {
    "file:///a/b.py": "[b.py](/a/b.py)",
    "file:///a/b%20c.py": "[b c.py](/a/b c.py)",
    "file:///a/b c.py": "[b c.py](/a/b c.py)",
    "file:///a/b.py#L10:20": "[b.py#L10:20](/a/b.py#L10:20)",
    "file:///C:/a/b.py": "[b.py](/C:/a/b.py)",
    "/a/b.py": "[b.py](/a/b.py)",
    "b/c.py": "[c.py](b/c.py)",
    "C:\\a\\b.py": "[C:\\a\\b.py](C:\\a\\b.py)",
    "zed:///agent/thread/42": "[42](zed:///agent/thread/42)",
    "https://x/y?z=1#w": "[y?z=1#w](https://x/y?z=1#w)",
    "": "[]()",
}


@pytest.mark.parametrize("uri", LINKS)
def test_a_link_is_labelled_and_a_file_is_a_plain_path(uri: str) -> None:
    """Editors §4.1: percent-encoded or raw, fragments, relative, drive letters, schemes nobody knows."""
    assert prompt_text([text("See "), link(uri)]) == f"See {LINKS[uri]}"


def test_the_name_of_a_link_is_its_label() -> None:
    assert prompt_text([link("file:///a/b.py", "the b")]) == "[the b](/a/b.py)"
    assert prompt_text([link("file:///a/b.py", "")]) == "[b.py](/a/b.py)"
    assert prompt_text([{**link("/a"), "name": 7, "size": None, "annotations": {"audience": []}}]) == "[a](/a)"


def test_texts_of_one_sentence_are_joined_as_they_stand() -> None:
    """Editors §4.1: agent-shell splits a sentence around its mentions."""
    assert prompt_text([text("Fix "), link("/a"), text(" now.")]) == "Fix [a](/a) now."


def test_an_embedded_resource_is_taken_with_its_text_and_a_binary_one_is_named() -> None:
    taken = prompt_text([text("Read this:"), resource("file:///a/b.txt", text="content\n")])
    assert taken == 'Read this:\n<resource uri="/a/b.txt">\ncontent\n\n</resource>\n'
    assert prompt_text([resource("b.bin", blob="AAEC")]) == "[b.bin] (binary content, not included)"


@given(st.lists(st.text(), min_size=1).filter(lambda words: bool("".join(words).strip())))
def test_text_blocks_lose_nothing(words: list[str]) -> None:
    assert prompt_text([text(word) for word in words]) == "".join(words)


blocks = st.dictionaries(
    st.sampled_from(["type", "text", "uri", "name", "resource", "data"]),
    st.none()
    | st.integers()
    | st.text()
    | st.sampled_from(["text", "resource_link", "resource", "image"])
    | st.dictionaries(st.sampled_from(["uri", "text", "blob"]), st.text() | st.none())
    | st.lists(st.text()),
)


@given(st.lists(blocks))
def test_any_blocks_give_a_text_that_is_not_blank_or_name_what_is_wrong(given_blocks: list[dict[str, Any]]) -> None:
    with suppress(InvalidParams):
        assert prompt_text(given_blocks).strip()
        return
    with pytest.raises(InvalidParams, match=r"\.$") as refused:
        prompt_text(given_blocks)
    assert refused.value.field.startswith("prompt")


def test_a_title_is_the_first_line_that_says_something_and_short() -> None:
    assert title_of("\n  \n  Fix the bug  \nand more") == "Fix the bug"
    assert title_of("x" * TITLE_CHARACTERS) == "x" * TITLE_CHARACTERS
    long = title_of("word " * 100)
    assert len(long) <= TITLE_CHARACTERS
    assert long.endswith(("word…", "wor…", "wo…", "w…"))
    assert title_of(" \n ") == ""


@given(st.text())
def test_a_title_is_always_one_short_line(words: str) -> None:
    title = title_of(words)
    assert len(title) <= TITLE_CHARACTERS
    assert title == title.strip()
    assert len(title.splitlines()) <= 1

"""How presentations and results are drawn: whole arrays, fences that hold, and no more than an editor can take."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.bridge.show import SHOWN_CHARACTERS, content_items, location_items, raw_object, result_items
from acp_bridge.session.content import Message, TextBlock, ToolResultBlock, ToolSource
from acp_bridge.session.events import ErrorInfo, Presentation, PresentedDiff, ToolResult
from acp_bridge.wire.acp_types import ContentItem, DiffItem, Location, TextContent

Kind = Literal["read", "edit", "search", "execute", "other"]
DIFF = PresentedDiff("/a", "new\n", "old\n")


def result(text: str, *, error: ErrorInfo | None = None, is_error: bool = False) -> ToolResult:
    block = ToolResultBlock("c1", (TextBlock(text),) if text else (), is_error or error is not None)
    return ToolResult(1, 1, Message("m", "user", (block,), ToolSource("c1")), error)


def shown(kind: Kind = "other", **more: Any) -> Presentation:
    return Presentation("Title", kind, **more)


def texts(items: tuple[ContentItem | DiffItem, ...]) -> list[str]:
    return [item.content.text for item in items if isinstance(item, ContentItem)]


def test_diffs_come_before_text_and_a_new_file_has_no_old_text() -> None:
    """CodeCompanion previews the first block only; `oldText: null` is the one null that is sent."""
    items = content_items(shown("edit", diffs=(PresentedDiff("/b", "x"), DIFF), text="note"))
    assert items == (DiffItem("/b", None, "x"), DiffItem("/a", "old\n", "new\n"), ContentItem(TextContent("note")))
    assert content_items(shown()) == ()


def test_locations_without_a_line_have_none() -> None:
    assert location_items(shown(locations=(("/a", 7), ("/b", 0)))) == (Location("/a", 7), Location("/b"))


@pytest.mark.parametrize("arguments", [None, [], ["x"], "x", 7, True, 1.5])
def test_raw_input_is_an_object_whatever_the_model_sent(arguments: Any) -> None:
    """Editors rule 11."""
    assert raw_object(arguments) == {"arguments": arguments}
    assert raw_object({"path": "a"}) == {"path": "a"}


def test_an_edit_that_worked_is_its_diff_alone_and_one_that_failed_says_why() -> None:
    edit = shown("edit", diffs=(DIFF,))
    assert result_items(edit, result("The file was changed.")) == content_items(edit)
    failed = result_items(edit, result("Error: changed since approval", is_error=True))
    assert failed[:1] == content_items(edit)
    assert texts(failed) == ["Error: changed since approval"]


def test_what_was_announced_stays_in_front_of_the_result() -> None:
    """Editors rule 14: an array replaces the one before, so it holds everything."""
    command = shown("execute", text="```sh\nls\n```")
    assert texts(result_items(command, result("a\nb\n"))) == ["```sh\nls\n```", "```\na\nb\n```"]
    assert texts(result_items(command, result(""))) == ["```sh\nls\n```"]


@pytest.mark.parametrize("kind", ["read", "search", "execute", "edit", "other"])
def test_output_is_fenced_where_it_is_somebody_elses_text_and_reasons_are_plain(kind: Kind) -> None:
    fenced = texts(result_items(shown(kind), result("text")))
    assert fenced == (["```\ntext\n```"] if kind in ("read", "search", "execute") else ["text"])
    reason = result("TOOL_OUTCOME_UNKNOWN", error=ErrorInfo("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"))
    assert texts(result_items(shown(kind), reason)) == ["TOOL_OUTCOME_UNKNOWN"]


@given(st.text(alphabet="`~\nab ", max_size=60).filter(lambda text: bool(text)))
def test_no_output_can_close_its_own_fence(text: str) -> None:
    (drawn,) = texts(result_items(shown("execute"), result(text)))
    fence, *lines, last = drawn.split("\n")
    assert fence == last
    assert re.fullmatch("`{3,}", fence)
    assert not [line for line in lines if line.lstrip().startswith(fence)]
    assert "\n".join(lines) == text.rstrip()


@given(st.integers(0, 200), st.sampled_from(["x", "é", "🦀", "\n"]))
def test_a_long_result_keeps_its_head_and_tail_and_says_how_much_is_missing(more: int, letter: str) -> None:
    text = "HEAD" + letter * (SHOWN_CHARACTERS - 8 + more) + "TAIL"
    (drawn,) = texts(result_items(shown("other"), result(text)))
    assert drawn.startswith("HEAD")
    assert drawn.endswith("TAIL")
    if len(text) <= SHOWN_CHARACTERS:
        assert drawn == text
    else:
        assert f"[… {len(text) - SHOWN_CHARACTERS} characters not shown …]" in drawn
        assert len(drawn) <= SHOWN_CHARACTERS + 60

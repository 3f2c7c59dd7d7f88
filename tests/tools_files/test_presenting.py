"""Cards of calls with any arguments, and text with nothing hidden (field cases P13, A5)."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.events import Presentation
from acp_bridge.tools.tool import Tool
from acp_bridge.tools.visible import visible, visible_line
from acp_bridge_plugins.tools_files.edit_file import EditFile
from acp_bridge_plugins.tools_files.list_files import ListFiles
from acp_bridge_plugins.tools_files.read_file import ReadFile
from acp_bridge_plugins.tools_files.write_file import WriteFile
from acp_bridge_plugins.tools_plan.update_plan import UpdatePlan
from acp_bridge_plugins.tools_search.search import Search

TOOLS: list[Tool] = [ReadFile(), WriteFile(), EditFile(), ListFiles(), Search(), UpdatePlan()]
# Any text that Python holds, lone surrogates included: JSON can spell them.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
KEYS = st.sampled_from(
    ["path", "line", "limit", "content", "old_text", "new_text", "replace_all", "glob", "pattern", "entries"]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | ANY_TEXT, inner, max_size=6)
)


def checked(card: Presentation) -> None:
    """One visible line, absolute locations, and all of it can be logged."""
    assert card.title
    assert card.title == visible_line(card.title)
    assert msgspec.json.decode(msgspec.json.encode(card), type=Presentation) == card
    assert all(path.startswith("/") and line >= 0 for path, line in card.locations)


@given(JSON | st.dictionaries(KEYS, SCALARS))
def test_every_argument_makes_a_card(arguments: Any) -> None:
    for tool in TOOLS:
        checked(tool.present(arguments, "/project"))
        assert isinstance(tool.concurrency_safe(arguments), bool)


@pytest.mark.parametrize(
    ("tool", "arguments", "title"),
    [
        (ReadFile(), {"path": "src/app.py", "line": 10, "limit": 31}, "Read src/app.py (lines 10-40)"),
        (ReadFile(), {"path": "/project/src/app.py", "line": 10}, "Read src/app.py (from line 10)"),
        (ReadFile(), {"path": "/etc/hosts"}, "Read /etc/hosts"),
        (ReadFile(), {"path": "../x", "line": "10"}, "Read /x"),
        (ReadFile(), {"path": 5}, "Read a file"),
        (WriteFile(), {"path": "notes.txt"}, "Write notes.txt"),
        (EditFile(), {"path": "a\nb\u202e"}, "Edit a\\nb\\u202e"),
        (ListFiles(), {"path": "src", "glob": "*.py"}, "List src (*.py)"),
        (ListFiles(), None, "List ."),
        (Search(), {"pattern": "foo", "path": "src"}, "Search 'foo' in src"),
        (Search(), {"pattern": "foo"}, "Search 'foo' in ."),
        (Search(), {"pattern": ["foo"]}, "Search"),
        (UpdatePlan(), {"entries": [{"status": "completed"}, 1]}, "Update the plan (1 of 2 done)"),
    ],
)
def test_titles_read_well(tool: Tool, arguments: Any, title: str) -> None:
    assert tool.present(arguments, "/project").title == title


def test_an_announced_edit_already_shows_its_change() -> None:
    card = EditFile().present({"path": "f", "old_text": "a\r\n", "new_text": "b\x07\r\n"}, "/project")
    (diff,) = card.diffs
    assert (diff.path, diff.old_text, diff.new_text) == ("/project/f", "a\n", "b\\x07\n")


def test_a_number_that_no_log_can_hold_is_no_line() -> None:
    card = ReadFile().present({"path": "f", "line": 10**40}, "/project")
    assert card.locations == (("/project/f", 0),)


@given(ANY_TEXT)
def test_visible_text_holds_no_hidden_character_and_ordinary_text_is_unchanged(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert visible(shown) == shown
    hidden = {"Cc", "Cs", "Zl", "Zp"}
    assert not any(unicodedata.category(character) in hidden for character in shown if character not in "\n\t")
    assert "\n" not in visible_line(text)


@pytest.mark.parametrize("character", "\x00\x1b\x7f\x85\xad\u061c\u200b\u200d\u200e\u202e\u2028\u2066\ufeff\U000e0041")
def test_each_kind_of_hidden_character_becomes_an_escape(character: str) -> None:
    shown = visible(f"a{character}b")
    assert shown.startswith("a\\")
    assert shown.isascii()


def test_text_of_any_script_stays_as_it_is() -> None:
    text = "naïve 日本語 עברית العربية 👍🏽 ✌️\n\t"
    assert visible(text) == text

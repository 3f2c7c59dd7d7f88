"""Field case T1 for files: whatever their size and content, reading and searching them costs what their caps say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from acp_bridge.sandbox.beneath import MAX_BYTES as LARGEST_FILE
from acp_bridge_plugins.tools_files import read_file
from acp_bridge_plugins.tools_search import search
from tests.e2e.huge import MIB, check_size, results, warm
from tests.e2e.plays import call

pytestmark = pytest.mark.anyio

# The notes after a result, and the paths in them.
NOTES = 1024
# sandbox/beneath.py: a file is held about nine times over, the editor's text of it among that.
FILE_PEAK = 9 * LARGEST_FILE
# In a text with a single wide character Python takes four bytes for each (PEP 393), in some of the nine.
WIDE_PEAK = 14 * LARGEST_FILE
# ripgrep is a process of its own; what is taken from it is far below a MiB.
SEARCH_PEAK = 4 * MIB

TOO_LARGE = ("larger than 8 MiB; use search, or a command like sed -n, to look into it",)


@dataclass(frozen=True)
class Huge:
    """A file and what the model must be told of it; the editor must be shown the last part."""

    content: Callable[[], bytes]
    parts: tuple[str, ...]
    status: str = "completed"
    peak: int = FILE_PEAK


READS = {
    "60 MB of lines": Huge(lambda: b"a line of it\n" * 4_600_000, TOO_LARGE, "failed"),
    "one line of 20 MB": Huge(lambda: b"x" * 20_000_000, TOO_LARGE, "failed"),
    "every byte": Huge(lambda: bytes(range(256)) * 20_000, ("is a binary file, not text",), "failed"),
    "the largest file, of lines": Huge(
        lambda: b"".join(b"line %d\n" % number for number in range(1, 680_000)),
        ("line 1\nline 2\n", "line 2000\n\n[Lines 1 to 2000 of 679999. Read on with line=2001.]"),
    ),
    "the largest file, of long lines": Huge(
        lambda: (b"y" * 7999 + b"\n") * (LARGEST_FILE // 8000),
        ("yyy\nyyy", "yyy\n\n[Lines 1 to 32 of 1048. Read on with line=33.]"),
    ),
    "the largest file, of one line": Huge(
        lambda: b"x" * LARGEST_FILE,
        ("xxx\n\n[Line 1 is cut: 8000 of its 8388608 characters are shown.]",),
    ),
    "the largest file, of wide characters": Huge(
        lambda: "🦀".encode() + b"x" * (LARGEST_FILE - 4),
        ("🦀xxx", "xxx\n\n[Line 1 is cut: 8000 of its 8388605 characters are shown.]"),
        peak=WIDE_PEAK,
    ),
    "the largest file, in no known encoding": Huge(
        lambda: b"\xff" * LARGEST_FILE,
        (f"\n\n[{read_file.UNKNOWN}]\n", "\n[Line 1 is cut: 8000 of its 8388608 characters are shown.]"),
    ),
}


@pytest.mark.parametrize("huge", READS.values(), ids=READS.keys())
async def test_reading_a_huge_file_is_capped_everywhere_and_says_what_is_not_shown(tmp_path: Path, huge: Huge) -> None:
    """Field case T1 for read_file: refused above a size, else a window with a note where to read on."""
    reads = {"calls": [call("c1", "read_file", {"path": "huge"})]}
    async with warm(tmp_path, reads, {"expect": list(huge.parts), "text": "Seen."}) as (editor, session, before):
        (tmp_path / "one" / "project" / "huge").write_bytes(huge.content())
        assert (await editor.prompt(session, "Read it.")).stop_reason == "end_turn"
        assert editor.text(session, before.frames) == "Seen."
        view = editor.tool_calls(session)["c1"]
        assert (view.status, huge.parts[-1] in view.text) == (huge.status, True)
        check_size(editor, tmp_path, session, before, result=read_file.MAX_BYTES + NOTES, peak=huge.peak)


STOPPED = "[Stopped after {} matches; narrow the pattern, the path or the glob.]"


@dataclass(frozen=True)
class Hits:
    """Files by name, and how many matches are shown of the hundred thousand hits in them: `most` at most."""

    files: dict[str, bytes]
    most: int = search.MAX_MATCHES
    note: str = STOPPED


SEARCHES = {
    "in one file": Hits({"many": b"a needle\n" * 100_000}),
    "in a thousand files": Hits({f"file{number}": b"a needle\n" * 100 for number in range(1000)}),
    "in long lines": Hits({"many": (b"a needle" + b"y" * 991 + b"\n") * 100_000}, search.MAX_BYTES // 500),
    "in one line of 20 MB": Hits({"many": b"a needle" + b"y needle" * 2_500_000}, 1, "[... omitted end of long line]"),
}


@pytest.mark.parametrize("hits", SEARCHES.values(), ids=SEARCHES.keys())
async def test_a_search_with_a_hundred_thousand_hits_is_capped_everywhere_and_says_so(
    tmp_path: Path, hits: Hits
) -> None:
    """Field case T1 for search: the matches, their bytes and the width of each; ripgrep does not go on."""
    searches = {"calls": [call("c1", "search", {"pattern": "needle"})]}
    async with warm(tmp_path, searches, {"expect": ":1:a needle", "text": "Seen."}) as (editor, session, before):
        for name, content in hits.files.items():
            (tmp_path / "one" / "project" / name).write_bytes(content)
        assert (await editor.prompt(session, "Search.")).stop_reason == "end_turn"
        assert editor.text(session, before.frames) == "Seen."
        found = len(re.findall(r"^\w+:\d+:a needle", results(tmp_path, session)["c1"], re.MULTILINE))
        assert hits.most * 9 // 10 <= found <= hits.most
        note = hits.note.format(found)
        view = editor.tool_calls(session)["c1"]
        assert (view.status, note in view.text) == ("completed", True)
        assert results(tmp_path, session)["c1"].endswith(note)
        check_size(editor, tmp_path, session, before, result=search.MAX_BYTES + NOTES, peak=SEARCH_PEAK)

"""read_file: the file's own text, bounded, and never blocking (field cases E2, S2, S3)."""

from __future__ import annotations

import os

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.tools_files.read_file import MAX_BYTES, MAX_COLUMNS, UNKNOWN, ReadFile, window
from tests.tools_files.bench import Bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\ntwo", "one\ntwo"),
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"\xef\xbb\xbfone\n", "one\n"),
        ("é\r\n".encode("utf-16"), "é\n"),
        (b"\n\n", "\n\n"),
        (b"", "[The file is empty.]"),
        (b"caf\xe9\n", f"caf\\xe9\n\n[{UNKNOWN}]"),
    ],
)
async def test_a_file_is_given_as_plain_text(bench: Bench, data: bytes, text: str) -> None:
    bench.file("f", data)
    assert (await bench.run(ReadFile(), path="f")).text == text


async def test_a_range_is_given_as_it_stands_and_named_in_the_title(bench: Bench) -> None:
    bench.file("src/app.py", b"".join(b"%d\n" % number for number in range(1, 101)))
    execution = await bench.prepared(ReadFile(), path="src/app.py", line=10, limit=31)
    assert execution.prepared is not None
    assert execution.prepared.presentation.title == "Read src/app.py (lines 10-40)"
    assert execution.prepared.presentation.locations == ((f"{bench.root}/src/app.py", 10),)
    outcome = await ReadFile().execute(execution)
    assert outcome.text == "".join(f"{number}\n" for number in range(10, 41))
    assert outcome.meta == {
        "path": f"{bench.root}/src/app.py",
        "firstLine": 10,
        "lastLine": 40,
        "totalLines": 100,
    }


async def test_a_long_file_is_cut_and_the_note_says_how_to_go_on(bench: Bench) -> None:
    bench.file("f", b"x\n" * 5000)
    outcome = await bench.run(ReadFile(), path="f")
    assert outcome.text == "x\n" * 2000 + "\n[Lines 1 to 2000 of 5000. Read on with line=2001.]"


async def test_many_bytes_are_cut_at_a_line(bench: Bench) -> None:
    bench.file("f", b"x" * 1000 + b"\n" + (b"y" * 1000 + b"\n") * 1000)
    text, _, note = (await bench.run(ReadFile(), path="f")).text.rpartition("\n\n")
    assert len(text) <= MAX_BYTES
    assert note == "[Lines 1 to 261 of 1001. Read on with line=262.]"


async def test_an_overlong_line_is_cut_with_a_note(bench: Bench) -> None:
    bench.file("f", b"x" * 100_000 + b"\nshort\n")
    text, _, note = (await bench.run(ReadFile(), path="f")).text.rpartition("\n\n")
    assert text == "x" * MAX_COLUMNS + "\nshort"
    assert note == "[Line 1 is cut: 8000 of its 100000 characters are shown.]"


@given(st.lists(st.text("ab", max_size=3)), st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_windows_put_together_give_the_file(lines: list[str], end: bool, line: int, limit: int) -> None:
    text = "\n".join(lines) + "\n" * end
    total = window(text, 1, None).total
    parts = [window(text, first, limit).text for first in range(1, total + 1, limit)]
    assert "".join(parts) == text


async def test_a_line_past_the_end_is_an_error_with_the_length(bench: Bench) -> None:
    bench.file("f", b"one\n")
    assert "has 1 lines" in await bench.refused(ReadFile(), code="INVALID_ARGS", path="f", line=3)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("missing", "does not exist"), ("d", "is a directory"), ("pipe", "pipe"), ("bin", "binary"), ("f/x", "link")],
)
async def test_what_cannot_be_read_is_named_and_nothing_blocks(bench: Bench, path: str, sentence: str) -> None:
    bench.file("d/x", b"")
    bench.file("f", b"")
    bench.file("bin", b"\x89PNG\0")
    os.mkfifo(bench.root / "pipe")
    with anyio.fail_after(10):
        assert sentence in await bench.refused(ReadFile(), path=path)


async def test_reading_outside_declares_its_access_and_reads_nothing_before_it_is_granted(bench: Bench) -> None:
    target = bench.outside / "id"
    (bench.root / "k").symlink_to(target)
    execution = await bench.prepared(ReadFile(), path="k")
    assert execution.prepared is not None
    assert execution.prepared.access.effect == "read"
    assert execution.prepared.access.paths == (str(target),)
    assert execution.prepared.presentation.title == f"Read {target}"
    target.write_bytes(b"granted\n")
    assert (await ReadFile().execute(execution)).text == "granted\n"


async def test_a_link_that_appears_after_the_question_is_not_followed(bench: Bench) -> None:
    path = bench.file("d/f", b"shown\n")
    (bench.outside / "f").write_bytes(b"secret\n")

    def swapped() -> None:
        path.unlink()
        path.parent.rmdir()
        path.parent.symlink_to(bench.outside)

    assert "secret" not in await bench.refused(ReadFile(), path="d/f", meanwhile=swapped)


async def test_private_directories_are_not_read(bench: Bench) -> None:
    bench.file("state/key", b"secret\n")
    (bench.root / "link").symlink_to("state/key")
    bench.mode = "danger-full-access"
    for path in ("state/key", "link"):
        await bench.refused(ReadFile((f"{bench.root}/state",)), code="FS_SANDBOX_DENIED", path=path)

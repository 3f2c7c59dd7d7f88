"""write_file: whole files, new and old (field cases E1, E2, E5, S3, S4)."""

from __future__ import annotations

import pytest

from acp_bridge_plugins.tools_files.write_file import WriteFile
from tests.tools_files.bench import Bench

pytestmark = pytest.mark.anyio


async def test_a_new_file_holds_exactly_what_was_given_and_its_directories_are_made(bench: Bench) -> None:
    outcome = await bench.run(WriteFile(), path="a/b/c.txt", content="one\r\ntwo")
    assert (bench.root / "a/b/c.txt").read_bytes() == b"one\r\ntwo"
    assert outcome.text == "Created a/b/c.txt."


async def test_a_new_file_is_shown_as_new(bench: Bench) -> None:
    execution = await bench.prepared(WriteFile(), path="f", content="one\n")
    assert execution.prepared is not None
    (diff,) = execution.prepared.presentation.diffs
    assert (diff.old_text, diff.new_text) == (None, "one\n")


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"one\r\ntwo\r\n", "one\n2\nthree\n", b"one\r\n2\r\nthree\r\n"),
        (b"one\r\ntwo\nthree\r\n", "one\ntwo\nthree\nfour\n", b"one\r\ntwo\nthree\r\nfour\r\n"),
        (b"one\r\ntwo\r\n", "one\ntwo", b"one\r\ntwo"),
        (b"one\rtwo\r", "one\n2\n", b"one\r2\r"),
        (b"\xef\xbb\xbfone\n", "\ufeff1\n", b"\xef\xbb\xbf1\n"),
        (b"\xef\xbb\xbfone\n", "1\n", b"\xef\xbb\xbf1\n"),
        ("é\r\n".encode("utf-16"), "è\n", "è\r\n".encode("utf-16")),
        (b"", "one\r\n", b"one\r\n"),
    ],
)
async def test_an_existing_file_keeps_its_line_ends_and_encoding(
    bench: Bench, before: bytes, content: str, after: bytes
) -> None:
    path = bench.file("f", before)
    await bench.run(WriteFile(), path="f", content=content)
    assert path.read_bytes() == after


async def test_the_same_content_writes_nothing(bench: Bench) -> None:
    path = bench.file("f", b"one\r\n")
    inode = path.stat().st_ino
    outcome = await bench.run(WriteFile(), path="f", content="one\n")
    assert "nothing was written" in outcome.text
    assert path.stat().st_ino == inode


@pytest.mark.parametrize("data", [b"caf\xe9\n", b"\x89PNG\0\0"])
async def test_a_file_whose_encoding_would_be_lost_is_not_replaced(bench: Bench, data: bytes) -> None:
    path = bench.file("f", data)
    await bench.refused(WriteFile(), path="f", content="new\n")
    assert path.read_bytes() == data


async def test_a_file_that_appeared_meanwhile_is_not_overwritten(bench: Bench) -> None:
    path = bench.root / "f"
    sentence = await bench.refused(
        WriteFile(), path="f", content="new", meanwhile=lambda: path.write_bytes(b"the user's")
    )
    assert "changed since it was shown" in sentence
    assert path.read_bytes() == b"the user's"


async def test_a_link_that_appeared_meanwhile_is_not_followed(bench: Bench) -> None:
    sentence = await bench.refused(
        WriteFile(), path="d/f", content="new", meanwhile=lambda: (bench.root / "d").symlink_to(bench.outside)
    )
    assert "changed since it was shown" in sentence
    assert list(bench.outside.iterdir()) == []


@pytest.mark.parametrize("path", [".git", ".git/hooks/pre-commit", ".git/config", "new/.git/HEAD"])
async def test_what_git_would_run_cannot_be_written(bench: Bench, path: str) -> None:
    (bench.root / ".git/hooks").mkdir(parents=True)
    assert "git" in await bench.refused(WriteFile(), code="FS_SANDBOX_DENIED", path=path, content="x")


@pytest.mark.parametrize(
    ("path", "sentence"), [("d", "is a directory"), ("f/x", "a part of the path is a file"), ("pipe", "pipe")]
)
async def test_a_place_that_takes_no_file_is_refused(bench: Bench, path: str, sentence: str) -> None:
    import os

    bench.file("d/x", b"")
    bench.file("f", b"")
    os.mkfifo(bench.root / "pipe")
    assert sentence in await bench.refused(WriteFile(), path=path, content="x")


async def test_half_a_character_is_refused_by_name(bench: Bench) -> None:
    sentence = await bench.refused(WriteFile(), code="INVALID_ARGS", path="f", content="a\ud800")
    assert "\\ud800" in sentence
    assert not (bench.root / "f").exists()


async def test_the_approved_control_characters_are_the_written_ones(bench: Bench) -> None:
    execution = await bench.prepared(WriteFile(), path="f", content="a\x1b[0m\u202e\n")
    assert execution.prepared is not None
    card = execution.prepared.presentation
    assert card.diffs[0].new_text == "a\\x1b[0m\\u202e\n"
    assert card.text is not None
    await WriteFile().execute(execution)
    assert (bench.root / "f").read_bytes() == "a\x1b[0m\u202e\n".encode()

"""edit_file: exactly the asked change, on exactly what was shown (field cases E1, E2, E5, S2 to S4)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_bridge.sandbox.policy import SandboxMode
from acp_bridge_plugins.tools_files.edit_file import EditFile
from tests.tools_files.bench import Bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\ntwo\nthree\n", b"one\nTWO\nand more\nthree\n"),
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\nTWO\r\nand more\r\nthree\r\n"),
        (b"one\rtwo\rthree\r", b"one\rTWO\rand more\rthree\r"),
        (b"one\r\ntwo\nthree\r\n", b"one\r\nTWO\nand more\r\nthree\r\n"),
        (b"one\ntwo\nthree", b"one\nTWO\nand more\nthree"),
        (b"\xef\xbb\xbfone\r\ntwo\r\nthree", b"\xef\xbb\xbfone\r\nTWO\r\nand more\r\nthree"),
        (b"caf\xe9\ntwo\nthree\n", b"caf\xe9\nTWO\nand more\nthree\n"),
        ("中文\ntwo\nthree\n".encode("gbk"), "中文\nTWO\nand more\nthree\n".encode("gbk")),
        ("日本\r\ntwo\r\nthree".encode("shift-jis"), "日本\r\nTWO\r\nand more\r\nthree".encode("shift-jis")),
        ("é\r\ntwo\r\nthree".encode("utf-16"), "é\r\nTWO\r\nand more\r\nthree".encode("utf-16")),
        (b"\xfe\xff" + "two\n".encode("utf-16-be"), b"\xfe\xff" + "TWO\nand more\n".encode("utf-16-be")),
        (b"ok \xff stray\ntwo\nthree\n", b"ok \xff stray\nTWO\nand more\nthree\n"),
        (b"x" * 100_000 + b"\ntwo\n", b"x" * 100_000 + b"\nTWO\nand more\n"),
    ],
)
async def test_only_the_asked_lines_differ_whatever_the_encoding(bench: Bench, before: bytes, after: bytes) -> None:
    path = bench.file("f", before)
    await bench.run(EditFile(), path="f", old_text="two", new_text="TWO\nand more")
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("data", "old", "new", "sentence"),
    [
        (b"caf\xe9\n", "caf\xe9", "x", "only ASCII"),
        (b"caf\xe9\n", "caf", "\u4e2d", "only ASCII"),
        (b"a\0b\n", "a", "x", "binary"),
        (b"a\n", "a", "\ud800", "surrogate"),
        (b"a\n", "missing", "x", "does not occur"),
    ],
)
async def test_an_edit_that_would_do_harm_is_refused_and_leaves_the_file(
    bench: Bench, data: bytes, old: str, new: str, sentence: str
) -> None:
    path = bench.file("f", data)
    code = "INVALID_ARGS" if sentence == "surrogate" else None
    assert sentence in await bench.refused(EditFile(), code=code, path="f", old_text=old, new_text=new)
    assert path.read_bytes() == data


async def test_the_person_is_shown_the_true_change_at_its_line(bench: Bench) -> None:
    bench.file("src/app.py", b"one\r\ntwo\r\n")
    execution = await bench.prepared(EditFile(), path="src/app.py", old_text="two\n", new_text="TWO\n")
    assert execution.prepared is not None
    card = execution.prepared.presentation
    assert (card.title, card.kind) == ("Edit src/app.py", "edit")
    assert card.locations == ((f"{bench.root}/src/app.py", 2),)
    (diff,) = card.diffs
    assert (diff.path, diff.old_text, diff.new_text) == (f"{bench.root}/src/app.py", "one\ntwo\n", "one\nTWO\n")
    assert execution.prepared.access.effect == "edit"
    assert execution.prepared.access.paths == (f"{bench.root}/src/app.py",)


def replaced_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda path: path.write_bytes(b"one\ntyped\nthree\n"),
        lambda path: path.write_bytes(b"one\ntwo\ntyped\n"),
        lambda path: path.write_bytes(b"one\r\ntwo\r\nthree\r\n"),
        lambda path: path.unlink(),
        replaced_by_link,
    ],
    ids=["the same line", "another line", "line ends only", "deleted", "replaced by a link"],
)
async def test_what_changed_while_the_person_decided_is_never_overwritten(
    bench: Bench, meanwhile: Callable[[Path], None]
) -> None:
    path = bench.file("f", b"one\ntwo\nthree\n")
    sentence = await bench.refused(
        EditFile(), path="f", old_text="two", new_text="2", meanwhile=lambda: meanwhile(path)
    )
    assert "changed since it was shown; read it again" in sentence
    assert not any(b"2" in file.read_bytes() for file in bench.root.iterdir())


async def test_two_edits_of_disjoint_lines_both_survive_or_one_is_told(bench: Bench) -> None:
    path = bench.file("f", b"one\ntwo\n")
    first = await bench.prepared(EditFile(), path="f", old_text="one", new_text="1")
    await bench.run(EditFile(), path="f", old_text="two", new_text="2")
    sentence = await bench.refused(EditFile(), path="f", old_text="missing", new_text="")
    assert "does not occur" in sentence
    with pytest.raises(Exception, match="changed since it was shown"):
        await EditFile().execute(first)
    assert path.read_bytes() == b"one\n2\n"


async def test_the_file_is_fixed_before_approval_even_if_a_link_moves(bench: Bench) -> None:
    a, b = bench.file("a", b"text\n"), bench.file("b", b"text\n")
    link = bench.root / "link"
    link.symlink_to("a")

    def moved() -> None:
        link.unlink()
        link.symlink_to("b")

    await bench.run(EditFile(), path="link", old_text="text", new_text="new", meanwhile=moved)
    assert (a.read_bytes(), b.read_bytes()) == (b"new\n", b"text\n")


async def test_a_link_inside_the_roots_is_followed_and_stays_a_link(bench: Bench) -> None:
    target = bench.file("real/f", b"one\n")
    (bench.root / "link").symlink_to("real/f")
    execution = await bench.prepared(EditFile(), path="link", old_text="one", new_text="1")
    assert execution.prepared is not None
    assert execution.prepared.presentation.title == "Edit real/f"
    await EditFile().execute(execution)
    assert target.read_bytes() == b"1\n"
    assert (bench.root / "link").is_symlink()


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
@pytest.mark.parametrize("path", ["../outside/f", "d/f", "k"])
async def test_no_way_leads_to_an_edit_outside_the_roots(bench: Bench, mode: SandboxMode, path: str) -> None:
    target = bench.outside / "f"
    target.write_bytes(b"secret\n")
    (bench.root / "d").symlink_to(bench.outside)
    (bench.root / "k").symlink_to(target)
    bench.mode = mode
    sentence = await bench.refused(EditFile(), code="FS_SANDBOX_DENIED", path=path, old_text="no", new_text="x")
    assert str(target) in sentence
    assert "secret" not in sentence
    assert target.read_bytes() == b"secret\n"


async def test_full_access_edits_outside(bench: Bench) -> None:
    target = bench.outside / "f"
    target.write_bytes(b"one\n")
    bench.mode = "danger-full-access"
    await bench.run(EditFile(), path=str(target), old_text="one", new_text="1")
    assert target.read_bytes() == b"1\n"


async def test_a_mode_that_became_stricter_during_approval_counts(bench: Bench) -> None:
    path = bench.file("f", b"one\n")
    execution = await bench.prepared(EditFile(), path="f", old_text="one", new_text="1")
    execution.sandbox_mode = "read-only"
    with pytest.raises(Exception, match="read-only"):
        await EditFile().execute(execution)
    assert path.read_bytes() == b"one\n"


async def test_a_hard_link_inside_does_not_change_the_file_outside(bench: Bench) -> None:
    target = bench.outside / "f"
    target.write_bytes(b"one\n")
    os.link(target, bench.root / "f")
    await bench.run(EditFile(), path="f", old_text="one", new_text="1")
    assert target.read_bytes() == b"one\n"
    assert (bench.root / "f").read_bytes() == b"1\n"


async def test_private_directories_are_closed_in_every_mode(bench: Bench) -> None:
    path = bench.file("state/key", b"one\n")
    tool = EditFile((str(bench.root / "state"),))
    for mode in ("workspace-write", "danger-full-access"):
        bench.mode = mode
        sentence = await bench.refused(tool, code="FS_SANDBOX_DENIED", path="state/key", old_text="one", new_text="")
        assert "agent itself" in sentence
    assert path.read_bytes() == b"one\n"


async def test_a_missing_file_points_to_write_file(bench: Bench) -> None:
    assert "write_file" in await bench.refused(EditFile(), path="f", old_text="a", new_text="b")


async def test_replace_all_tells_how_often(bench: Bench) -> None:
    path = bench.file("f", b"a\r\nb\na\r\n")
    outcome = await bench.run(EditFile(), path="f", old_text="a", new_text="x", replace_all=True)
    assert outcome.text == "Edited f (2 replacements)."
    assert path.read_bytes() == b"x\r\nb\nx\r\n"

"""Opening and replacing files without following a link (field cases S3, E5)."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox import beneath
from acp_bridge.sandbox.beneath import FileChanged, directory, read_file, replace_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def listing(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_a_file_is_replaced_with_its_mode_and_nothing_else_is_left_behind(root: Path) -> None:
    path = root / "run.sh"
    path.write_bytes(b"old")
    path.chmod(0o754)
    replace_file(str(path), b"old", b"new", "run.sh")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert listing(root) == ["run.sh"]


def test_a_new_file_and_its_directories_follow_the_umask(root: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(f"{root}/a/b/c.txt", None, b"new", "c.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "a/b/c.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o750
    assert listing(root / "a/b") == ["c.txt"]


def test_the_other_name_of_a_hard_linked_file_keeps_the_old_bytes(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"old")
    os.link(secret, root / "inner")
    replace_file(f"{root}/inner", b"old", b"new", "inner")
    assert secret.read_bytes() == b"old"
    assert (root / "inner").read_bytes() == b"new"


@pytest.mark.parametrize("seen", [b"shown", None])
def test_a_file_that_is_not_as_shown_is_left_alone(root: Path, seen: bytes | None) -> None:
    (root / "f").write_bytes(b"typed meanwhile")
    with pytest.raises(FileChanged, match="changed since it was shown"):
        replace_file(f"{root}/f", seen, b"new", "f")
    assert (root / "f").read_bytes() == b"typed meanwhile"
    assert listing(root) == ["f"]


def test_a_file_that_is_gone_is_not_written_again(root: Path) -> None:
    with pytest.raises(FileChanged):
        replace_file(f"{root}/f", b"shown", b"new", "f")
    assert listing(root) == []


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/etc/hosts"), lambda p: p.mkdir(), os.mkfifo])
def test_what_is_no_longer_a_file_is_not_replaced(root: Path, make: Callable[[Path], None]) -> None:
    make(root / "f")
    with pytest.raises(FileChanged):
        replace_file(f"{root}/f", b"shown", b"new", "f")
    assert listing(root) == ["f"]


def test_a_write_protected_file_is_left_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "f").write_bytes(b"old")
    # By answer, not by mode: tests may run as root, who may write everything.
    monkeypatch.setattr(os, "access", lambda *args, **options: False)
    with pytest.raises(ToolFailed, match="write-protected"):
        replace_file(f"{root}/f", b"old", b"new", "f")
    assert listing(root) == ["f"]


def test_a_directory_that_became_a_link_is_not_entered(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_bytes(b"old")
    (root / "d").symlink_to(tmp_path / "out")
    with pytest.raises(ToolFailed, match="become a link"):
        read_file(f"{root}/d/f", "d/f")
    for seen in (b"old", None):
        with pytest.raises(FileChanged):
            replace_file(f"{root}/d/f", seen, b"new", "d/f")
    assert (tmp_path / "out/f").read_bytes() == b"old"
    assert listing(tmp_path / "out") == ["f"]


def test_a_directory_swapped_during_the_write_takes_nothing_outside(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_bytes(b"old")
    (root / "d").mkdir()
    (root / "d/f").write_bytes(b"old")
    written = beneath._written

    def swapped(fd: int, data: bytes, like: os.stat_result | None) -> str:
        name = written(fd, data, like)
        (root / "d").rename(root / "moved")
        (root / "d").symlink_to(tmp_path / "out")
        return name

    monkeypatch.setattr(beneath, "_written", swapped)
    with pytest.raises(FileChanged):
        replace_file(f"{root}/d/f", b"old", b"new", "d/f")
    assert (tmp_path / "out/f").read_bytes() == b"old"
    assert listing(root / "moved") == ["f"]
    assert (root / "moved/f").read_bytes() == b"old"


def test_a_file_changed_while_the_new_one_is_written_wins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "f").write_bytes(b"old")
    written = beneath._written

    def late(fd: int, data: bytes, like: os.stat_result | None) -> str:
        (root / "f").write_bytes(b"typed at the last moment")
        return written(fd, data, like)

    monkeypatch.setattr(beneath, "_written", late)
    with pytest.raises(FileChanged):
        replace_file(f"{root}/f", b"old", b"new", "f")
    assert (root / "f").read_bytes() == b"typed at the last moment"
    assert listing(root) == ["f"]


def test_a_failed_write_leaves_the_old_file_and_no_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "f").write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolFailed, match="No space left"):
        replace_file(f"{root}/f", b"old", b"new", "f")
    assert (root / "f").read_bytes() == b"old"
    assert listing(root) == ["f"]


@contextmanager
def swapping(path: Path, target: Path) -> Iterator[None]:
    """Turn the directory `path` into a link to `target` and back, as fast as it goes, until left."""
    stop = threading.Event()
    aside = path.with_name("aside")

    def loop() -> None:
        while not stop.is_set():
            path.rename(aside)
            path.symlink_to(target)
            path.unlink()
            aside.rename(path)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_no_swap_of_a_directory_for_a_link_lets_a_write_out(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (root / "d").mkdir()
    (root / "d/f").write_bytes(b"0")
    with swapping(root / "d", out):
        seen = b"0"
        for number in range(300):
            new = str(number).encode()
            try:
                replace_file(f"{root}/d/f", seen, new, "d/f")
            except ToolFailed:
                continue
            seen = new
    assert listing(out) == []
    assert (root / "d/f").read_bytes() == seen
    assert listing(root / "d") == ["f"]


@pytest.mark.parametrize("make", [os.mkfifo, lambda p: p.mkdir(), lambda p: p.symlink_to("elsewhere")])
def test_only_regular_files_are_read_and_nothing_blocks(root: Path, make: Callable[[Path], None]) -> None:
    make(root / "f")
    with pytest.raises(ToolFailed, match="not a file"):
        read_file(f"{root}/f", "f")


def test_a_missing_file_or_directory_reads_as_none(root: Path) -> None:
    assert read_file(f"{root}/f", "f") is None
    assert read_file(f"{root}/d/f", "f") is None


def test_a_file_of_too_many_bytes_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "MAX_BYTES", 3)
    (root / "f").write_bytes(b"1234")
    with pytest.raises(ToolFailed, match="larger than"):
        read_file(f"{root}/f", "f")


def test_descriptors_are_closed_whatever_happens(root: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for name in ("f", "missing/x", "f/x"):
        (root / "f").write_bytes(b"x")
        try:
            read_file(f"{root}/{name}", name)
            replace_file(f"{root}/{name}", b"x", b"y", name)
        except ToolFailed:
            pass
        with pytest.raises(OSError, match=r"not|No"), directory(f"{root}/f"):
            pass
    assert len(os.listdir("/dev/fd")) == before

"""The rim: publication without overwrite, appends that roll back, and what a failed sync costs."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_bridge_plugins.persistence_jsonl import files
from acp_bridge_plugins.persistence_jsonl.disk import LOCAL_DISK
from acp_bridge_plugins.persistence_jsonl.files import AppendFile, make_directory, publish, read_committed
from acp_bridge_plugins.persistence_jsonl.frames import frame_encoder
from tests.persistence.helpers import Disk

encode = frame_encoder()
FIRST, SECOND, THIRD = encode(b"first\n"), encode(b"second\n"), encode(b"third\n")
NAME = "session.v1.jsonl.zstd"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture
def log(path: Path) -> Iterator[AppendFile]:
    found = publish(LOCAL_DISK, path, FIRST, [path.parent])
    file = AppendFile(LOCAL_DISK, path, found, len(FIRST), 0)
    yield file
    file.close()


@pytest.fixture(params=[0o000, 0o077, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_and_files_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    directory = tmp_path / "a" / "b" / "c"
    assert make_directory(LOCAL_DISK, directory) == [directory, directory.parent, directory.parent.parent]
    assert make_directory(LOCAL_DISK, directory) == []
    publish(LOCAL_DISK, directory / NAME, FIRST, [directory])
    assert [mode(path) for path in (tmp_path / "a", tmp_path / "a/b", directory)] == [0o700] * 3
    assert mode(directory / NAME) == 0o600


def test_a_publication_leaves_the_file_and_nothing_else(path: Path) -> None:
    publish(LOCAL_DISK, path, FIRST + SECOND, [path.parent])
    assert path.read_bytes() == FIRST + SECOND
    assert os.listdir(path.parent) == [NAME]
    assert path.stat().st_nlink == 1


def test_a_publication_never_overwrites(path: Path) -> None:
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        publish(LOCAL_DISK, path, FIRST, [path.parent])
    assert path.read_bytes() == b"mine"
    assert os.listdir(path.parent) == [NAME]


@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_failed_publication_leaves_nothing(path: Path, disk: Disk, call: str) -> None:
    disk.fail(call, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        publish(LOCAL_DISK, path, FIRST, [path.parent])
    assert os.listdir(path.parent) == []


def test_a_directory_that_cannot_be_synced_takes_the_publication_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(disk: object, directory: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "_sync_directory", broken)
    with pytest.raises(OSError, match="Input/output"):
        publish(LOCAL_DISK, path, FIRST, [path.parent])
    assert os.listdir(path.parent) == []


def test_without_hard_links_a_publication_renames_and_still_never_overwrites(path: Path, disk: Disk) -> None:
    disk.always("link", errno.EPERM)
    publish(LOCAL_DISK, path, FIRST, [path.parent])
    assert path.read_bytes() == FIRST
    assert os.listdir(path.parent) == [NAME]
    with pytest.raises(PermissionError):
        publish(LOCAL_DISK, path, SECOND, [path.parent])
    assert path.read_bytes() == FIRST


def test_every_entry_on_the_way_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "_sync_directory", lambda disk, directory: synced.append(directory))
    publish(LOCAL_DISK, path, FIRST, [path.parent, path.parent.parent])
    assert synced == [path.parent, path.parent.parent]


def test_appends_follow_each_other_and_earlier_bytes_stay(log: AppendFile, path: Path) -> None:
    log.append(SECOND)
    log.append(THIRD)
    assert path.read_bytes() == FIRST + SECOND + THIRD
    assert log.committed == len(FIRST + SECOND + THIRD)


def test_a_short_write_goes_on_where_it_stopped(log: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    log.append(SECOND)
    assert path.read_bytes() == FIRST + SECOND


@pytest.mark.parametrize(("call", "error"), [("write", errno.ENOSPC), ("write", errno.EROFS), ("fdatasync", errno.EIO)])
def test_a_failed_append_leaves_the_file_as_it_was_and_can_be_repeated(
    log: AppendFile, path: Path, disk: Disk, call: str, error: int
) -> None:
    disk.fail(call, error)
    with pytest.raises(OSError, match=os.strerror(error)):
        log.append(SECOND)
    assert path.read_bytes() == FIRST
    log.append(SECOND)
    assert path.read_bytes() == FIRST + SECOND


def test_half_a_write_is_cut_off_again(log: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.write, []

    def full(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) == 1:
            return real(descriptor, data[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            log.append(SECOND)
    assert path.read_bytes() == FIRST
    log.append(SECOND)
    assert path.read_bytes() == FIRST + SECOND


def test_a_failed_rollback_raises_both_and_the_next_append_cuts_the_rest(
    log: AppendFile, path: Path, disk: Disk
) -> None:
    disk.fail("fdatasync", errno.EIO)
    disk.fail("ftruncate", errno.EROFS)
    with pytest.raises(ExceptionGroup) as caught:
        log.append(SECOND)
    assert [error.errno for error in caught.value.exceptions if isinstance(error, OSError)] == [errno.EIO, errno.EROFS]
    assert path.read_bytes() == FIRST + SECOND
    assert log.excess
    log.append(THIRD)
    assert path.read_bytes() == FIRST + THIRD


def test_after_a_failed_sync_the_file_is_opened_anew(
    log: AppendFile, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(SECOND)
    opened: list[object] = []
    real = os.open

    def counting(*args: object) -> int:
        opened.append(args[0])
        return real(*args)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(os, "open", counting)
    log.append(SECOND)
    assert opened == []
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.append(THIRD)
    log.append(THIRD)
    assert len(opened) == 1


def test_a_tail_that_does_not_read_back_after_a_failed_sync_stops_everything(
    log: AppendFile, path: Path, disk: Disk
) -> None:
    log.append(SECOND)
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.append(THIRD)
    lost = bytearray(path.read_bytes())
    lost[-6] ^= 0xFF
    with path.open("r+b") as file:
        file.write(lost)
    for _ in range(2):
        with pytest.raises(OSError, match="does not read back"):
            log.append(THIRD)


def test_a_deleted_file_is_reported_and_not_written_into_the_void(log: AppendFile, path: Path) -> None:
    log.append(SECOND)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="deleted or moved"):
        log.append(THIRD)
    assert not path.exists()


def test_a_file_that_somebody_else_changed_is_left_alone(log: AppendFile, path: Path) -> None:
    with path.open("ab") as file:
        file.write(THIRD)
    with pytest.raises(OSError, match="somebody else changed"):
        log.append(SECOND)
    assert path.read_bytes() == FIRST + THIRD


def test_a_file_that_took_its_place_is_left_alone(log: AppendFile, path: Path) -> None:
    path.rename(path.with_name("old"))
    path.write_bytes(FIRST)
    with pytest.raises(OSError, match="somebody else changed"):
        log.append(SECOND)


def test_a_torn_tail_is_cut_before_the_first_append(path: Path) -> None:
    path.write_bytes(FIRST + SECOND[:-2])
    log = AppendFile(LOCAL_DISK, path, path.stat(), len(FIRST), 0, excess=True)
    log.append(THIRD)
    log.close()
    assert path.read_bytes() == FIRST + THIRD
    assert not log.excess


def test_a_torn_tail_that_cannot_be_cut_stays_and_is_tried_again(path: Path, disk: Disk) -> None:
    path.write_bytes(FIRST + SECOND[:-2])
    log = AppendFile(LOCAL_DISK, path, path.stat(), len(FIRST), 0, excess=True)
    disk.fail("fsync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.append(THIRD)
    assert log.excess
    log.append(THIRD)
    log.close()
    assert path.read_bytes() == FIRST + THIRD


def test_a_reader_takes_what_was_there_when_it_began_if_the_writer_is_busy(
    log: AppendFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reads = os.pread, []

    def busy(descriptor: int, size: int, offset: int) -> bytes:
        reads.append(size)
        data = real(descriptor, size, offset)
        log.append(SECOND)
        return data

    monkeypatch.setattr(os, "pread", busy)
    data, _ = read_committed(LOCAL_DISK, path)
    assert len(reads) == 2
    assert data == FIRST + SECOND


def test_a_symlink_in_place_of_a_log_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(FIRST)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        read_committed(LOCAL_DISK, path)

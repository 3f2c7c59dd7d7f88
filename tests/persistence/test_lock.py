"""One writer across processes: real processes, real SIGKILL, and descriptors that children do not get."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_bridge.errors import SessionAlreadyOwned
from acp_bridge_plugins.persistence_jsonl.disk import LOCAL_DISK
from acp_bridge_plugins.persistence_jsonl.lock import Holder, SessionLock, this_process

HOLD = """
import sys
from pathlib import Path
from acp_bridge_plugins.persistence_jsonl.disk import LOCAL_DISK
from acp_bridge_plugins.persistence_jsonl.lock import SessionLock, this_process
lock = SessionLock.acquire(LOCAL_DISK, Path(sys.argv[1]), "s1", this_process("Zed"))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.lock"


def take(path: Path, editor: str | None = None) -> SessionLock:
    return SessionLock.acquire(LOCAL_DISK, path, "s1", this_process(editor))


def test_the_loser_is_told_who_holds_the_session_since_when_and_for_which_editor(path: Path) -> None:
    with other_process(path) as process:
        with pytest.raises(SessionAlreadyOwned) as caught:
            take(path)
        assert caught.value.pid == process.pid
        assert caught.value.editor == "Zed"
        assert caught.value.since is not None
        assert caught.value.since.endswith("Z")
        assert f"process {process.pid} for Zed" in str(caught.value)


def test_a_killed_holder_frees_the_session_at_once(path: Path) -> None:
    with other_process(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        lock = take(path)
        assert lock.is_current()
        lock.release()


def test_a_child_process_does_not_keep_the_lock(path: Path) -> None:
    lock = take(path)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        inherited = [os.readlink(link) for link in Path(f"/proc/{child.pid}/fd").iterdir()]
        assert str(path) not in inherited
        lock.release()
        take(path).release()
        child.kill()


def test_the_lock_file_is_private_and_never_unlinked(path: Path) -> None:
    before = os.umask(0)
    try:
        lock = take(path)
    finally:
        os.umask(before)
    inode = path.stat().st_ino
    assert path.stat().st_mode & 0o777 == 0o600
    lock.release()
    lock.release()
    again = take(path)
    assert path.stat().st_ino == inode
    again.release()


def test_what_a_dead_holder_left_in_the_file_is_not_believed(path: Path) -> None:
    lock = take(path, "Zed")
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    path.write_text(f'{{"pid":{gone.pid},"since":"2020-01-01T00:00:00Z"}}')
    with pytest.raises(SessionAlreadyOwned) as caught:
        take(path)
    assert caught.value.pid is None
    lock.release()


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"{}", b'{"pid":"x"}', b'{"pid":99999999999999999999,"since":""}']
)
def test_rubbish_in_the_file_is_harmless(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    lock = take(path)
    path.write_bytes(content)
    with pytest.raises(SessionAlreadyOwned):
        take(path)
    lock.release()
    take(path).release()


def test_a_released_lock_names_nobody(path: Path) -> None:
    take(path).release()
    assert path.read_bytes() == b""


def test_a_lock_file_replaced_while_it_was_being_locked_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SessionLock._take
    replaced: list[bool] = []

    def replacing(self: SessionLock, session_id: str) -> None:
        real(self, session_id)
        if not replaced:
            replaced.append(True)
            path.unlink()
            path.touch()

    monkeypatch.setattr(SessionLock, "_take", replacing)
    lock = take(path)
    assert lock.is_current()
    with pytest.raises(SessionAlreadyOwned):
        take(path)
    lock.release()


def test_a_lock_file_that_keeps_being_replaced_counts_as_owned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = SessionLock._take

    def replacing(self: SessionLock, session_id: str) -> None:
        real(self, session_id)
        path.unlink()
        path.touch()

    monkeypatch.setattr(SessionLock, "_take", replacing)
    with pytest.raises(SessionAlreadyOwned):
        take(path)


def test_a_lock_on_a_removed_file_is_not_current(path: Path) -> None:
    lock = take(path)
    path.unlink()
    assert not lock.is_current()
    lock.release()
    assert not lock.is_current()


def test_a_symlink_in_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        take(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_holder_without_an_editor_is_written_without_one() -> None:
    assert this_process(None) == Holder(os.getpid(), this_process(None).since)

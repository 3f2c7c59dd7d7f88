"""Where paths lead, and who may read or write there (field cases S2, S3, S4)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.paths import git_guarded, inside, locate, refuse_read, refuse_write
from acp_bridge.sandbox.policy import SandboxMode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def test_relative_paths_start_at_the_first_root(root: Path) -> None:
    place = locate("a/../b.txt", (str(root),))
    assert (place.path, place.root) == (f"{root}/b.txt", str(root))


def test_a_second_root_holds_its_files(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert locate(f"{other}/x", (str(root), str(other))).root == str(other)


def test_a_link_out_of_the_roots_is_outside(root: Path, tmp_path: Path) -> None:
    (root / "d").symlink_to(tmp_path)
    assert locate("d/x", (str(root),)).root is None


def test_a_dangling_link_counts_as_its_target(root: Path, tmp_path: Path) -> None:
    (root / "d").symlink_to(tmp_path / "missing")
    assert locate("d", (str(root),)).path == f"{tmp_path}/missing"


def test_a_parent_step_after_a_link_goes_where_the_kernel_would_go(root: Path, tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (root / "d").symlink_to(tmp_path / "far/away")
    assert locate("d/../x", (str(root),)).path == f"{tmp_path}/far/x"


def test_a_link_that_stays_inside_is_inside(root: Path) -> None:
    (root / "real").mkdir()
    (root / "d").symlink_to("real")
    assert locate("d/x", (str(root),)).path == f"{root}/real/x"


def test_the_editor_knows_a_file_by_the_root_it_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    place = locate("a.txt", (f"{tmp_path}/alias",))
    assert (place.path, place.shown) == (f"{root}/a.txt", f"{tmp_path}/alias/a.txt")


@pytest.mark.parametrize("asked", ["", "  ", "a\0b", "a\ud800", "b\udcff", "~", "~/x"])
def test_what_cannot_name_a_file_is_refused(root: Path, asked: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        locate(asked, (str(root),))
    assert caught.value.code == "INVALID_ARGS"


def test_a_link_to_a_name_that_is_not_utf8_is_refused(root: Path) -> None:
    os.symlink(b"\xff", os.fsencode(root / "d"))
    with pytest.raises(ToolFailed, match="not UTF-8"):
        locate("d", (str(root),))


def test_a_sibling_with_the_same_beginning_is_not_inside() -> None:
    assert inside("/a/b", "/a")
    assert inside("/a", "/a")
    assert inside("/a", "/")
    assert not inside("/ab", "/a")


@pytest.mark.parametrize(
    ("path", "guarded"),
    [
        ("/r/.git", True),
        ("/r/.git/hooks/pre-commit", True),
        ("/r/.GIT/Hooks/x", True),
        ("/r/.git/config", True),
        ("/r/.git/config.worktree", True),
        ("/r/sub/.git", True),
        ("/r/.git/modules/sub/config", True),
        ("/r/.git/modules/sub/hooks/x", True),
        ("/r/.git/info/exclude", False),
        ("/r/.gitignore", False),
        ("/r/hooks/pre-commit", False),
        ("/r/config", False),
    ],
)
def test_what_git_would_run_is_guarded(path: str, guarded: bool) -> None:
    assert git_guarded(path) is guarded


@pytest.mark.parametrize(
    ("name", "mode", "rule"),
    [
        ("a.txt", "read-only", "read-only"),
        ("a.txt", "workspace-write", None),
        ("a.txt", "danger-full-access", None),
        ("../a.txt", "workspace-write", "outside"),
        ("../a.txt", "danger-full-access", None),
        (".git/hooks/x", "workspace-write", "git"),
        (".git/hooks/x", "danger-full-access", None),
        ("new/.git/HEAD", "workspace-write", "git"),
        ("linked/hooks/x", "workspace-write", "git"),
        ("state/x", "danger-full-access", "agent itself"),
        ("link-to-state/x", "danger-full-access", "agent itself"),
        ("state", "danger-full-access", "agent itself"),
    ],
)
def test_a_write_is_refused_by_name_and_rule(root: Path, name: str, mode: SandboxMode, rule: str | None) -> None:
    (root / "linked").mkdir()
    (root / ".git").symlink_to("linked")
    (root / "state").mkdir()
    (root / "link-to-state").symlink_to("state")
    place = locate(name, (str(root),))
    if rule is None:
        refuse_write(place, mode, (f"{root}/state",))
        return
    with pytest.raises(ToolFailed) as caught:
        refuse_write(place, mode, (f"{root}/link-to-state",))
    assert caught.value.code == "FS_SANDBOX_DENIED"
    assert place.shown in caught.value.message
    assert rule in caught.value.message


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/maps", f"/proc/{os.getppid()}/environ"])
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_the_memory_and_environment_of_processes_are_never_read(root: Path, path: str) -> None:
    with pytest.raises(ToolFailed, match="agent itself"):
        refuse_read(locate(path, (str(root),)), ())


def test_reading_outside_the_roots_is_left_to_approval(root: Path) -> None:
    refuse_read(locate("/etc/hosts", (str(root),)), ())

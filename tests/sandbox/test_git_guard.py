"""Which parts of a git directory are opened and which stay shut, and what placeholders leave behind (field case S4)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_bridge_plugins.sandbox_local.git import Placeholder, guard
from acp_bridge_plugins.sandbox_local.placeholders import hold
from tests.sandbox.layouts import clone, git, submodule, worktree

pytestmark = pytest.mark.usefixtures("git")


def names(paths: tuple[str, ...], beneath: Path) -> set[str]:
    return {os.path.relpath(path, beneath) for path in paths}


def test_a_clone_is_pinned_and_its_hooks_and_config_are_shut(tmp_path: Path) -> None:
    found = guard(str(clone(tmp_path / "w")))
    assert names(found.writable, tmp_path) == {"w/.git"}
    assert names(found.protected, tmp_path) == {"w/.git/hooks", "w/.git/config"}
    assert found.placeholders == (Placeholder(str(tmp_path / "w/.git/commondir"), b".\n"),)


def test_a_missing_hooks_directory_gets_a_placeholder(tmp_path: Path) -> None:
    root = clone(tmp_path / "w")
    git("config", "extensions.worktreeConfig", "true", at=root)
    (root / ".git/hooks").rename(tmp_path / "away")
    missing = {Path(item.path).name for item in guard(str(root)).placeholders}
    assert missing == {"hooks", "commondir", "config.worktree"}


def test_a_linked_worktree_opens_the_main_git_directory_and_shuts_every_link(tmp_path: Path) -> None:
    found = guard(str(worktree(tmp_path)))
    assert names(found.writable, tmp_path) == {
        *("main/.git", "main/.git/worktrees", "main/.git/worktrees/linked"),
    }
    assert names(found.protected, tmp_path) == {
        *("linked/.git", "main/.git/hooks", "main/.git/config"),
        *("main/.git/worktrees/linked/commondir", "main/.git/worktrees/linked/gitdir"),
    }


def test_a_submodule_opens_its_own_git_directory_only(tmp_path: Path) -> None:
    found = guard(str(submodule(tmp_path)))
    assert names(found.writable, tmp_path) == {"outer/.git/modules/inner"}
    assert {"outer/inner/.git", "outer/.git/modules/inner/config"} <= names(found.protected, tmp_path)


def test_a_superproject_shuts_the_hooks_configs_and_pointers_of_its_submodules(tmp_path: Path) -> None:
    inner = submodule(tmp_path)
    shut = names(guard(str(inner.parent)).protected, tmp_path)
    assert {"outer/inner/.git", "outer/.git/modules/inner/config", "outer/.git/modules/inner/hooks"} <= shut


def not_pointed_back(tmp_path: Path) -> Path:
    return clone(tmp_path / "other") / ".git"


def no_git_directory(tmp_path: Path) -> Path:
    (tmp_path / "ssh").mkdir()
    return tmp_path / "ssh"


def common_elsewhere(tmp_path: Path) -> Path:
    """Points back at the root, but takes its common directory from a repository that knows nothing of it."""
    clone(tmp_path / "other")
    made = tmp_path / "made"
    made.mkdir()
    (made / "gitdir").write_text(str(tmp_path / "root/.git"))
    (made / "commondir").write_text("../other/.git")
    return made


@pytest.mark.parametrize("hostile", [not_pointed_back, no_git_directory, common_elsewhere])
def test_a_pointer_opens_nothing_that_does_not_point_back(
    hostile: Callable[[Path], Path], root: Path, tmp_path: Path
) -> None:
    """A downloaded folder can hold any `.git` file."""
    (root / ".git").write_text(f"gitdir: {hostile(tmp_path)}\n")
    found = guard(str(root))
    assert found.writable == ()
    assert found.protected == (str(root / ".git"),)


def test_links_where_mounts_would_have_to_be_close_the_git_directory_or_are_admitted(tmp_path: Path) -> None:
    linked_hooks = clone(tmp_path / "hooks")
    (linked_hooks / ".git/hooks").rename(tmp_path / "away")
    (linked_hooks / ".git/hooks").symlink_to(tmp_path / "away")
    assert guard(str(linked_hooks)).protected == (str(linked_hooks / ".git"),)
    assert guard(str(linked_hooks)).writable == ()

    linked_git = tmp_path / "linked"
    linked_git.mkdir()
    (linked_git / ".git").symlink_to(linked_hooks / ".git")
    assert not guard(str(linked_git)).complete


def test_placeholders_are_gone_afterwards(tmp_path: Path) -> None:
    items = [Placeholder(str(tmp_path / ".git")), Placeholder(str(tmp_path / "commondir"), b".\n")]
    held = hold(items)
    assert (tmp_path / ".git").is_dir()
    assert (tmp_path / "commondir").read_bytes() == b".\n"
    held.release()
    held.release()
    assert list(tmp_path.iterdir()) == []


def test_placeholders_of_an_earlier_crash_are_taken_over(tmp_path: Path) -> None:
    root = clone(tmp_path / "w")
    (root / ".git/commondir").write_bytes(b".\n")
    held = hold(guard(str(root)).placeholders)
    assert held.paths == (str(root / ".git/commondir"),)
    held.release()
    assert not (root / ".git/commondir").exists()


def test_what_somebody_else_put_there_stays(tmp_path: Path) -> None:
    held = hold([Placeholder(str(tmp_path / "hooks")), Placeholder(str(tmp_path / "config"), b"")])
    (tmp_path / "hooks/pre-commit").write_text("mine")
    (tmp_path / "config").write_text("mine")
    held.release()
    assert sorted(os.listdir(tmp_path)) == ["config", "hooks"]


def test_a_placeholder_stays_as_long_as_another_run_needs_it(tmp_path: Path) -> None:
    item = Placeholder(str(tmp_path / ".git"))
    first, second = hold([item]), hold([item])
    first.release()
    assert (tmp_path / ".git").is_dir()
    second.release()
    assert not (tmp_path / ".git").exists()


def test_a_placeholder_that_cannot_be_made_is_not_mounted(tmp_path: Path) -> None:
    assert hold([Placeholder(str(tmp_path / "missing/.git"))]).paths == ()

"""What a test's folder holds, as a value, so that "nothing was touched" can be one comparison."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["project", "snapshot"]


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """By relative path: the bytes of a file, `-> target` for a link, `directory` for an empty one."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name] = "directory"
    return found


def project(tmp_path: Path, name: str) -> Path:
    """A session's folder `name/project` with files `kept` and `other`, beside `name/outside` with a file `secret`."""
    folder = tmp_path / name / "project"
    folder.mkdir(parents=True)
    for file in ("kept", "other"):
        (folder / file).write_text("one\ntwo\n")
    (tmp_path / name / "outside").mkdir()
    (tmp_path / name / "outside" / "secret").write_text("the secret\n")
    return folder

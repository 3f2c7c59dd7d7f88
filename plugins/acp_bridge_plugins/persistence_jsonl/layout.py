"""Where a session lives: directory and file names (contracts §5.4).

Owns: the encoding of projects and ids, and what a file name says. Must not know: files, bytes, formats inside.
Invariant: pure. `id_segment` is injective, so two sessions never share a directory; `project_segment` is lossy on
purpose and only groups sessions for people. Names are built from UTF-16 units, as in every other reader of the layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

__all__ = [
    "CURRENT",
    "GENERATION",
    "LOCK_NAME",
    "LOG_NAME",
    "NAME_MAX",
    "Generation",
    "Place",
    "id_segment",
    "newest_generation",
    "project_segment",
    "temporary_name",
]

GENERATION = 1
LOG_NAME = f"session.v{GENERATION}.jsonl.zstd"
LOCK_NAME = "session.lock"
NAME_MAX = 255  # bytes; every segment is ASCII

NO_PROJECT = "_no-cwd"
PROJECT_MAX = NAME_MAX - len("----")

# Left to re's own cache: compiling them on import would cost every start a millisecond.
SEPARATORS = r"[/\\:]+"
UNSAFE = r"[^A-Za-z0-9._-]"
# Canonical names only: `session.v01.jsonl` or `Session.v1.jsonl` is somebody else's file.
ANY_LOG_NAME = r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?"


class Generation(Struct, frozen=True, order=True):
    """What a canonical log name says. Generation 0 has no number in its name."""

    number: int
    compressed: bool
    name: str


CURRENT = Generation(GENERATION, True, LOG_NAME)


class Place(Struct, frozen=True):
    """One session's directory."""

    root: Path
    project: str
    session: str

    @property
    def path(self) -> str:
        """As a string: a listing looks at a thousand of these, and a Path costs as much as its system call."""
        return f"{self.root}/{self.project}/{self.session}"

    @property
    def directory(self) -> Path:
        return Path(self.path)

    @property
    def log(self) -> Path:
        return self.directory / LOG_NAME

    @property
    def lock(self) -> Path:
        return self.directory / LOCK_NAME


def project_segment(cwd: str | None) -> str:
    """The directory of all sessions of one working directory, or of those without one."""
    if cwd is None:
        return NO_PROJECT
    joined = "-".join(_escaped(part) for part in re.split(SEPARATORS, cwd)).lstrip("-")
    return f"--{(joined or 'root')[:PROJECT_MAX]}--"


def id_segment(session_id: str) -> str:
    """Raises ValueError for an empty id and for one whose name no file system would take."""
    segment = _escaped(session_id)
    if segment in (".", ".."):
        segment = segment.replace(".", "~002E")
    if not segment or len(segment) > NAME_MAX:
        raise ValueError("a session id has between 1 and 255 characters once it is encoded")
    return segment


def newest_generation(names: Iterable[str]) -> Generation | None:
    """The highest generation among the names of a session's directory; of one generation, the compressed file."""
    found = (re.fullmatch(ANY_LOG_NAME, name) for name in names)
    return max((Generation(int(m[1] or 0), m[2] is not None, m[0]) for m in found if m), default=None)


def temporary_name(final: str, token: str) -> str:
    return f"{final}.{token}.tmp"


def _escaped(text: str) -> str:
    return re.sub(UNSAFE, lambda match: "".join(f"~{unit:04X}" for unit in _utf16_units(match[0])), text)


def _utf16_units(character: str) -> Iterable[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(encoded[i : i + 2], "big") for i in range(0, len(encoded), 2))

"""Marker files: how a process tells a test, across any number of process borders, where it has got to.

The file is there from the start, empty, so its existence proves nothing; only its exact content counts. A prefix means
that the writer is still writing, anything else that it wrote the wrong thing, which fails at once (contracts §11.1).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

__all__ = ["Marker"]

POLL_S = 0.005


class Marker:
    """An empty file at `path` that somebody is going to write into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(b"")

    @property
    def content(self) -> str:
        return self.path.read_text()

    async def wait(self, content: str, *, timeout: float = 10.0, alive: Callable[[], bool] = lambda: True) -> None:
        """Wait for exactly `content`. AssertionError for other content, after `timeout` s, or once `alive` says no."""
        with anyio.move_on_after(timeout):
            while (found := self.content) != content:
                assert content.startswith(found), f"{self.path.name} holds {found!r} instead of {content!r}"
                assert alive(), f"the writer of {self.path.name} ended with {found!r} written"
                await anyio.sleep(POLL_S)
            return
        raise AssertionError(f"{self.path.name} holds {self.content!r} after {timeout:g} s, not {content!r}")

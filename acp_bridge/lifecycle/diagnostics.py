"""Where the agent speaks to its own maintainers.

Owns: the shape of the diagnostics channel. Must not know where lines go (a file, by composition).
Invariant: stdout is never used and stderr is silent by default: some editors show every byte of it to the user.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Diagnostics", "Silent"]


class Diagnostics(Protocol):
    def note(self, text: str) -> None:
        """One line. Never a secret, never model or user text."""

    def failure(self, what: str, error: BaseException) -> None:
        """One line and the traceback."""


class Silent:
    """For tests and embedded use."""

    def note(self, text: str) -> None:
        del text

    def failure(self, what: str, error: BaseException) -> None:
        del what, error

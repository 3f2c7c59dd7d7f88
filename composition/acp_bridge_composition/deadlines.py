"""How long the end may take: one setting, `undo_seconds`, and what is derived from it.

Owns: the four nested bounds. Must not know: what is undone. Invariant: whatever is nested has less time than what
holds it, so that the innermost is named as the one that hung, and all bounds end before the last resort.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["DEFAULT_SECONDS", "LEAST_SECONDS", "MOST_SECONDS", "Deadlines"]

# A running command's grace period fits in; editors wait some two seconds for an agent that was told to end.
DEFAULT_SECONDS = 1.8
LEAST_SECONDS, MOST_SECONDS = 1.0, 60.0

# Between two that are nested. Enough for the inner one's failure to be handed out.
STEP = 0.2
# Parts of the composite effect, whose times add up, and a second for the interpreter.
PARTS = 5


class Deadlines(Struct, frozen=True):
    """Seconds. `part` bounds each part of the composite effect."""

    part: float = DEFAULT_SECONDS

    @property
    def effect(self) -> float:
        """For each effect of each plugin."""
        return self.part - STEP

    @property
    def rest(self) -> float:
        """For a session to come to rest; then it is cut off and its open calls are recorded so."""
        return self.part - 2 * STEP

    @property
    def exit(self) -> float:
        """For the process; it ends only what all others could not."""
        return PARTS * self.part + 1

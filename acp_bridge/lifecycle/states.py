"""The states of a mounted plugin or effect, as one table.

Owns: which move is legal from which state. Must not know: what loading or unloading does.
Invariant: a move that the table does not list raises `IllegalMove`; nothing is ever guessed.
"""

from __future__ import annotations

from enum import StrEnum

from acp_bridge.errors import IllegalMove

__all__ = ["MOVES", "State", "advance"]


class State(StrEnum):
    PENDING = "pending"
    LOADING = "loading"
    ACTIVE = "active"
    UNLOADING = "unloading"
    DISPOSED = "disposed"
    FAILED = "failed"


MOVES: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.LOADING, State.DISPOSED}),
    # Back to pending: a plugin whose need went away gives up its loading, or unloads, and waits for the need again.
    State.LOADING: frozenset({State.ACTIVE, State.FAILED, State.PENDING}),
    # Failed while in use: a part of it died and nobody had asked for an undo.
    State.ACTIVE: frozenset({State.UNLOADING, State.FAILED}),
    State.UNLOADING: frozenset({State.DISPOSED, State.FAILED, State.PENDING}),
    State.DISPOSED: frozenset(),
    State.FAILED: frozenset({State.DISPOSED}),
}


def advance(what: str, current: State, target: State) -> State:
    """Return `target`. Raises IllegalMove if the table does not allow it."""
    if target not in MOVES[current]:
        raise IllegalMove(what, current.value, target.value)
    return target

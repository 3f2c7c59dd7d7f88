"""What a user can set, as `[plugins.word_count] settings` in config.toml.

Owns: names, types, bounds and defaults. Invariant: what is unknown or out of bounds is refused when the file is read.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["WordCountSettings"]

Positive = Annotated[int, Meta(ge=1)]


class WordCountSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of fewer than `min_length` characters are not counted. A note after every `note_every` results."""

    min_length: Positive = 1
    note_every: Positive = 100

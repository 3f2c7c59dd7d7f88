"""Screenplays for tests, from plain values (docs/screenplays.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["call", "play", "text"]


def play(folder: Path, *turns: list[dict[str, Any]], name: str = "play.json") -> Path:
    """Write one; each turn is a list of steps. Every session of the agent plays it from its own beginning."""
    path = folder / name
    path.write_text(json.dumps({"turns": [{"steps": steps} for steps in turns]}))
    return path


def text(*pieces: str | dict[str, str]) -> dict[str, Any]:
    """A step of text; a piece may be `{"wait_for_file": name}`."""
    return {"text": list(pieces)}


def call(id: str, name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    """A call; arguments that are a string are sent as they stand."""
    key = "raw_arguments" if isinstance(arguments, str) else "arguments"
    return {"id": id, "name": name, key: arguments, **more}

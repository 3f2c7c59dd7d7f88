"""What one `acp-bridge sessions` command is made of, and what all of them share.

Owns: the shape of a command, and finding the session that a person means. Must not know: any command, the file format.
Invariant: an id that no listing shows may still open; then the store says why it does not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable

from msgspec import Struct

from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.session.codec import Vocabulary
from acp_bridge_composition.settings import bare_settings
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog

__all__ = ["Command", "chosen_id", "stored_sessions"]


class Command(Struct, frozen=True):
    """`configure` declares the arguments. `run` gives the lines to print; a BridgeError it raises is status 1."""

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Iterable[str]]


def stored_sessions() -> Catalog:
    """Raises SettingsError when the directory is not known."""
    return Catalog(bare_settings(os.environ).sessions_dir, Vocabulary(), Silent())


def chosen_id(catalog: Catalog, prefix: str) -> str:
    """The one session whose id begins so, else what was given."""
    matches = [found.header.id for found in catalog.snapshots() if found.header.id.startswith(prefix)]
    return matches[0] if len(matches) == 1 else prefix

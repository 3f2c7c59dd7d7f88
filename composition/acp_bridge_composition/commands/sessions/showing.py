"""`acp-bridge sessions show ID`: one session's log, readably.

Invariant: reading never writes and never locks; it works while an agent is using the session.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from acp_bridge_composition.commands.sessions.command import Command, chosen_id, stored_sessions
from acp_bridge_composition.commands.transcript import terminal_columns, transcript

__all__ = ["SHOW"]


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a unique prefix is enough")


def _run(options: argparse.Namespace) -> Iterator[str]:
    catalog = stored_sessions()
    header, events = catalog.read(chosen_id(catalog, options.id))
    return transcript(header, events, columns=terminal_columns())


SHOW = Command("show", "one session's log, readably", _configure, _run)

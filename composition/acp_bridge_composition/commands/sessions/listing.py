"""`acp-bridge sessions list`: one line per session, newest first.

Invariant: reads headers only, writes nothing; control characters in what others stored are made visible.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime

from acp_bridge.persistence.persistence import SessionSnapshot
from acp_bridge.tools.visible import visible_line
from acp_bridge_composition.commands.sessions.command import Command, stored_sessions

__all__ = ["LIST"]


def _configure(parser: argparse.ArgumentParser) -> None:
    del parser


def _run(options: argparse.Namespace) -> Iterator[str]:
    for snapshot in sorted(stored_sessions().snapshots(), key=lambda found: -found.updated_at):
        yield _line(snapshot)


def _line(snapshot: SessionSnapshot) -> str:
    when = datetime.fromtimestamp(snapshot.updated_at).astimezone().strftime("%Y-%m-%d %H:%M")
    cwd, title = visible_line(snapshot.header.cwd or "-"), visible_line(snapshot.title or "")
    return f"{snapshot.header.id}  {when}  {cwd}  {title}".rstrip()


LIST = Command("list", "the sessions on this machine", _configure, _run)

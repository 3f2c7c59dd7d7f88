"""`acp-bridge sessions list | show ID`: what is stored, readably.

Owns: choosing the session and printing. Must not know: the file format.
Invariant: reading never writes and never locks; it works while an agent is using the session.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime

from acp_bridge.errors import BridgeError
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.persistence.persistence import SessionSnapshot
from acp_bridge.session.codec import Vocabulary
from acp_bridge.tools.visible import visible_line
from acp_bridge_composition.commands.transcript import terminal_columns, transcript
from acp_bridge_composition.settings import bare_settings
from acp_bridge_plugins.persistence_jsonl.catalog import Catalog

__all__ = ["sessions"]

USAGE = "usage: acp-bridge sessions list\n       acp-bridge sessions show ID   (a unique prefix of ID is enough)\n"


def sessions(arguments: list[str]) -> int:
    if arguments != ["list"] and not (len(arguments) == 2 and arguments[0] == "show"):
        sys.stderr.write(USAGE)
        return 2
    try:
        catalog = Catalog(bare_settings(os.environ).sessions_dir, Vocabulary(), Silent())
        lines = _listed(catalog) if arguments == ["list"] else _shown(catalog, arguments[1])
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except BridgeError as error:
        sys.stderr.write(f"acp-bridge: {error}\n")
        return 1
    except BrokenPipeError:
        # `| head` is enough for the reader; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _listed(catalog: Catalog) -> list[str]:
    return [_line(snapshot) for snapshot in sorted(catalog.snapshots(), key=lambda found: -found.updated_at)]


def _line(snapshot: SessionSnapshot) -> str:
    when = datetime.fromtimestamp(snapshot.updated_at).astimezone().strftime("%Y-%m-%d %H:%M")
    cwd, title = visible_line(snapshot.header.cwd or "-"), visible_line(snapshot.title or "")
    return f"{snapshot.header.id}  {when}  {cwd}  {title}".rstrip()


def _shown(catalog: Catalog, prefix: str) -> list[str]:
    matches = [found.header.id for found in catalog.snapshots() if found.header.id.startswith(prefix)]
    # An id that no listing shows may still open: let the store say why it does not.
    header, events = catalog.read(matches[0] if len(matches) == 1 else prefix)
    return list(transcript(header, events, columns=terminal_columns()))

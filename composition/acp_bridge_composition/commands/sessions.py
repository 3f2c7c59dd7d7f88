"""`acp-bridge sessions list | show ID`: what is stored, readably.

Owns: choosing the session and printing. Must not know: the file format.
Invariant: reading never writes and never locks; it works while an agent is using the session.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime

import anyio

from acp_bridge.errors import BridgeError
from acp_bridge.persistence.persistence import Persistence, SessionSnapshot
from acp_bridge.session.events import Event, Header
from acp_bridge_composition.commands.transcript import transcript
from acp_bridge_composition.settings import load_settings

__all__ = ["sessions"]

USAGE = "usage: acp-bridge sessions list\n       acp-bridge sessions show ID   (a unique prefix of ID is enough)\n"


def sessions(arguments: list[str]) -> int:
    if arguments == ["list"]:
        work = _list
    elif len(arguments) == 2 and arguments[0] == "show":
        work = lambda store: _show(store, arguments[1])  # noqa: E731  # the two branches read alike
    else:
        sys.stderr.write(USAGE)
        return 2
    try:
        anyio.run(lambda: work(_store()))
    except BridgeError as error:
        sys.stderr.write(f"acp-bridge: {error}\n")
        return 1
    except BrokenPipeError:
        return 0
    return 0


def _store() -> Persistence:
    from acp_bridge_plugins.persistence_jsonl.plugin import read_only_store

    from acp_bridge.lifecycle.diagnostics import Silent

    return read_only_store(load_settings(os.environ).sessions_dir, Silent())


async def _list(store: Persistence) -> None:
    for snapshot in await _sorted(store):
        when = datetime.fromtimestamp(snapshot.updated_at).astimezone().strftime("%Y-%m-%d %H:%M")
        print(f"{snapshot.header.id}  {when}  {snapshot.header.cwd or '-'}  {snapshot.title or ''}")  # noqa: T201


async def _show(store: Persistence, prefix: str) -> None:
    matches = [s.header.id for s in await _sorted(store) if s.header.id.startswith(prefix)]
    # An id that no listing shows may still open: let the store say why it does not.
    session_id = matches[0] if len(matches) == 1 else prefix
    header, events = await store.read(session_id)
    sys.stdout.write(_rendered(header, events))


def _rendered(header: Header, events: list[Event]) -> str:
    return "\n".join(transcript(header, events, color=sys.stdout.isatty())) + "\n"


async def _sorted(store: Persistence) -> list[SessionSnapshot]:
    return sorted(await store.list(), key=lambda snapshot: -snapshot.updated_at)

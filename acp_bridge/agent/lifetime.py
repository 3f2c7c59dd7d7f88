"""How a session becomes live, and how it ends: what every front shares, whoever it talks to.

Owns: a new or reopened log, its agent, and the strict order in which log, agent and handle come and go. Must not
know: ACP, who shows the session, which plugin stores.
Invariant: reopening appends the closing events of a crash durably before anything is shown, and starts no model
request and no tool. Leaving brings the agent to rest first (its real step/end and turn/end written and flushed), then
takes the session out of the store, then closes the handle, which drains and releases the lock.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from acp_bridge.agent.agent import Agent
from acp_bridge.agent.parts import AgentParts
from acp_bridge.agent.ticket import Ticket
from acp_bridge.approval.modes import Mode, preset_of
from acp_bridge.errors import CheckpointFailed, InvalidParams
from acp_bridge.persistence.persistence import Persistence, WriteHandle
from acp_bridge.session.codec import FORMAT_VERSION
from acp_bridge.session.content import UserSource, text_message
from acp_bridge.session.events import Event, Header, PresetSet, SandboxModeSet, TitleSet
from acp_bridge.session.fold import last_body
from acp_bridge.session.log import now_ms
from acp_bridge.session.repair import closers
from acp_bridge.session.session import Session
from acp_bridge.tools.tool import EditorFiles
from acp_bridge.tools.visible import visible_line

__all__ = ["create", "live_agent", "prompt", "reopen", "session_root", "switch_mode", "title_of"]

# Characters of a path in an error, and of a title.
SHOWN_PATH = 300
TITLE_CHARACTERS = 60


def session_root(cwd: str) -> str:
    """The canonical directory of a session. Raises InvalidParams."""
    if not Path(cwd).is_absolute():
        raise InvalidParams("cwd must be an absolute path.", field="cwd")
    if not os.path.isdir(cwd):  # noqa: PTH112  # Path.is_dir raises for a name that is too long or not readable
        raise InvalidParams(f"cwd is not an existing directory: {visible_line(cwd[:SHOWN_PATH])}.", field="cwd")
    return os.path.realpath(cwd)


async def create(persistence: Persistence, cwd: str) -> WriteHandle:
    """A fresh session under a new id. Nothing is stored yet."""
    return await persistence.create(Header(FORMAT_VERSION, str(uuid.uuid4()), now_ms(), cwd))


async def reopen(persistence: Persistence, session_id: str) -> tuple[WriteHandle, list[Event]]:
    """Claim a stored session and append durably the endings that a crash left out.

    Raises SessionNotFound, SessionAlreadyOwned, LogCorrupt, SessionFormatUnsupported, CheckpointFailed; nothing stays
    claimed then.
    """
    try:
        handle = await persistence.open(session_id)
        return handle, await _repaired(handle)
    except OSError as error:
        raise CheckpointFailed(session_id, error.strerror or type(error).__name__, "it was not loaded") from error


async def _repaired(handle: WriteHandle) -> list[Event]:
    try:
        events = await handle.read()
        closing = closers(events)
        if closing:
            await handle.append(closing)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await handle.close()
        raise
    return [*events, *closing]


@asynccontextmanager
async def live_agent(
    parts: AgentParts,
    handle: WriteHandle,
    roots: tuple[str, ...],
    events: Sequence[Event],
    *,
    editor: EditorFiles | None = None,
) -> AsyncIterator[Agent]:
    """The agent of the session over `events`, serving prompts until this is left. Owns `handle`."""
    try:
        with parts.store.entered(handle.header, roots, events) as session:
            agent = Agent(parts, session, editor=editor)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, name=f"agent {session.id}")
                try:
                    yield agent
                finally:
                    with anyio.CancelScope(shield=True):
                        await agent.dispose()
    finally:
        with anyio.CancelScope(shield=True):
            await handle.close()


def switch_mode(session: Session, mode: Mode) -> None:
    """Counts from the next call on. A log that says nothing yet is told even the default."""
    events = session.log.events
    if last_body(events, PresetSet) is None or preset_of(events).id != mode.id:
        session.log.append(PresetSet(mode.id))
        session.log.append(SandboxModeSet(mode.sandbox))


def prompt(agent: Agent, text: str) -> Ticket:
    """Queue a person's prompt; the first one names the session. Raises SessionClosed."""
    ticket = agent.prompt(text_message(str(uuid.uuid4()), text, UserSource()))
    log = agent.session.log
    if last_body(log.events, TitleSet) is None:
        log.append(TitleSet(title_of(text), source={"kind": "prompt"}))
    return ticket


def title_of(text: str) -> str:
    """A short title from the first line of a prompt."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_CHARACTERS else line[: TITLE_CHARACTERS - 1].rstrip() + "…"

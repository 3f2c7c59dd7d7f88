"""`open_agent`: the whole agent, mounted inside this process for as long as a block lasts (docs/embedding.md).

Owns: the embedded API and its settings. Must not know: how plugins work, terminals, ACP.
Invariant: it is the same composite effect as the editor's agent, with another front: policy, storage and barriers are
the same, and leaving the block, however it is left, writes and flushes the real ending of a running turn.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio

from acp_bridge.agent.lifetime import prompt
from acp_bridge.approval.modes import MODES, preset_of
from acp_bridge.errors import InvalidParams
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.session.events import AbortReason
from acp_bridge.wire.transport import Transport
from acp_bridge_composition.build import composed
from acp_bridge_composition.deadlines import Deadlines
from acp_bridge_composition.diagnostics import FileDiagnostics
from acp_bridge_composition.embedded.front import Answer, EmbeddedFront, Tell, Wanted
from acp_bridge_composition.embedded.told import Result, result
from acp_bridge_composition.settings import load_settings
from acp_bridge_composition.version import version
from acp_bridge_composition.workshop import Workshop

__all__ = ["EmbeddedAgent", "open_agent"]

USER = AbortReason("user")


class EmbeddedAgent:
    """One live session. Made by `open_agent`; it works inside its block only."""

    def __init__(self, front: EmbeddedFront, deadlines: Deadlines) -> None:
        self._front = front
        self.deadlines = deadlines

    @property
    def session_id(self) -> str:
        """What to pass as `resume` another time."""
        return self._front.session_id

    @property
    def cwd(self) -> str:
        """The session's folder, canonical."""
        return self._front.agent.session.cwd

    @property
    def mode(self) -> str:
        return preset_of(self._front.agent.session.log.events).id

    @property
    def model(self) -> str:
        """`provider/model`, as it is configured now."""
        config = self._front.config()
        return f"{config.provider}/{config.model}"

    async def prompt(self, text: str) -> Result:
        """Send one prompt and wait for the end of its turn. Several at once run one after the other.

        A failed turn is a Result, too (`stop_reason` is `error`). Cancelling the caller cancels the turn.
        Raises InvalidParams for an empty text, AuthRequired without a usable model, SessionClosed after the block.
        """
        if not text.strip():
            raise InvalidParams("The prompt is empty.", field="text")
        agent = self._front.agent
        self._front.require_model()
        ticket = prompt(agent, text)
        try:
            ending = await ticket.ending()
        except BaseException:
            agent.cancel(USER)
            # The turn's own work ends before the caller goes on; what hangs is left to the end of the block.
            with anyio.move_on_after(self.deadlines.rest, shield=True):
                await ticket.ending()
            raise
        session = agent.session
        return result(session.id, session.log.events, ticket.message_id, ending, self._front.teller(session))

    def cancel(self) -> None:
        """Cancel the running turn and discard waiting prompts; their results say `cancelled`."""
        self._front.agent.cancel(USER)


@asynccontextmanager
async def open_agent(
    *,
    cwd: str | os.PathLike[str] | None = None,
    model: str | None = None,
    answer: Answer | None = None,
    on_event: Tell | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    mode: str | None = None,
    resume: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[EmbeddedAgent]:
    """Open a session, or the stored one `resume`, repaired first if its process was killed.

    `answer` is asked before what the session's `mode` does not allow by itself; without it, or on anything but True,
    the call is refused. `on_event` hears each streamed piece at once and must not block. `model` (`provider/model`) and
    `state_dir` stand above the environment and config.toml; `environ` stands in for the process's own environment.
    Raises SettingsError, AuthRequired, InvalidParams, SessionNotFound, SessionAlreadyOwned, LogCorrupt,
    SessionFormatUnsupported, CheckpointFailed; and at the end ExceptionGroup when an ending could not be saved.
    """
    if mode is not None and mode not in MODES:
        raise InvalidParams(f"There is no mode {mode!r}; there are {', '.join(MODES)}.", field="mode")
    surroundings = _surroundings(os.environ if environ is None else environ, model, state_dir)
    settings = load_settings(surroundings)
    shop = Workshop(settings, surroundings, FileDiagnostics(settings.state_dir), version(), _no_editor)
    wanted = Wanted(None if cwd is None else _absolute(cwd), mode, resume)
    front = EmbeddedFront(shop.parts, shop.missing_model, wanted, answer, on_event, rest_seconds=shop.deadlines.rest)
    shop.front = front
    async with open_scope("acp-bridge embedded") as root:
        await composed(shop, root)
        yield EmbeddedAgent(front, shop.deadlines)


def _surroundings(
    environ: Mapping[str, str], model: str | None, state_dir: str | os.PathLike[str] | None
) -> dict[str, str]:
    given = {
        "ACP_BRIDGE_MODEL": model,
        "ACP_BRIDGE_STATE_DIR": None if state_dir is None else _absolute(state_dir),
    }
    return {**environ, **{name: value for name, value in given.items() if value is not None}}


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


def _no_editor() -> AbstractAsyncContextManager[Transport]:
    raise RuntimeError("an embedded agent has no connection to an editor")

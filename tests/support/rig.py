"""A real agent on real parts, with fakes only for the model, the tools, the storage and the person.

Owns: building and mounting as the product does. Invariant: leaving `live` checks what the test leaves behind: the log
breaks no structural rule, and every request that the model got can be rebuilt from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import Any

import anyio

from acp_bridge import hookspecs
from acp_bridge.agent.agent import Agent
from acp_bridge.agent.parts import AgentParts
from acp_bridge.agent.ticket import Ticket
from acp_bridge.approval.approval import Approval
from acp_bridge.approval.modes import MODES
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.hooks import hookimpl
from acp_bridge.lifecycle.kernel import Context, Kernel, Plugin, ServiceKey
from acp_bridge.lifecycle.scope import Part, open_scope
from acp_bridge.llm.model import Models
from acp_bridge.session.check import check_log
from acp_bridge.session.codec import FORMAT_VERSION
from acp_bridge.session.content import Message, UserSource, text_message
from acp_bridge.session.events import Event, Header, PresetSet, RequestConfig, SandboxModeSet, TurnEndReason
from acp_bridge.session.requests import rebuild_requests
from acp_bridge.session.session import Session, SessionStore
from acp_bridge.tools.pipeline import Pipeline
from acp_bridge.tools.registry import Tools
from acp_bridge_plugins.checkpoint_policy.plugin import CheckpointPolicy
from acp_bridge_plugins.permission_modes.plugin import PermissionModes
from tests.support.fakes import FakeModel, FakeTool, MemoryBackend, Move, Person

__all__ = ["CONFIG", "HEADER", "Notes", "Rig", "ending", "prompt"]

CONFIG = RequestConfig("fake", "model-1")
HEADER = Header(FORMAT_VERSION, "session-1", 1_000, "/project")


def prompt(message_id: str) -> Message:
    return text_message(message_id, f"prompt {message_id}", UserSource())


class Notes(Silent):
    """What would be written to the diagnostics file."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def failure(self, what: str, error: BaseException) -> None:
        self.failures.append(f"{what}: {error}")


class _Recorder:
    """Hears every event of every session, whoever else does; `errors` are the agent's live reports."""

    name = "recorder"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.errors: list[str] = []

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        self.events.append(event)

    @hookimpl
    def agent_error(self, session: Session, failure: Any) -> None:
        self.errors.append(failure.message)


class Rig:
    """`prior` is a log to go on from. `extra` plugins are mounted outermost."""

    def __init__(
        self,
        *replies: Sequence[Move],
        tools: Sequence[FakeTool] = (),
        person: Person | None = None,
        mode: str = "full-access",
        prior: Sequence[Event] = (),
        extra: Sequence[Plugin] = (),
        max_steps: int = 200,
        max_parallel: int = 10,
    ) -> None:
        self.notes = Notes()
        self.kernel = Kernel(hookspecs, self.notes)
        times = count(1_000)
        self.store = SessionStore(self.kernel.hooks, clock=lambda: next(times))
        self.model = FakeModel(*replies)
        self.backend = MemoryBackend()
        self.policy = CheckpointPolicy(self.store)
        self.config = CONFIG
        self._prior = list(prior)
        self._mode = mode
        self._tools = tools
        self._recorder = _Recorder()
        self._plugins = [self._recorder, *extra, PermissionModes(), person or Person()]
        self._parts = self._agent_parts(max_steps, max_parallel)
        self._agent: Agent | None = None

    def _agent_parts(self, max_steps: int, max_parallel: int) -> AgentParts:
        registry, models = Tools(), Models()
        self.registry, self.models = registry, models
        pipeline = Pipeline(registry, Approval(self.notes), self.notes)
        return AgentParts(
            self.store,
            models,
            registry,
            pipeline,
            self.notes,
            lambda session: self.config,
            lambda session: "Be brief.",
            max_steps,
            max_parallel,
        )

    @property
    def agent(self) -> Agent:
        assert self._agent is not None, "the agent is not mounted"
        return self._agent

    @property
    def events(self) -> list[Event]:
        """The whole log, chunks included."""
        return [*self._prior, *self._recorder.events]

    @property
    def errors(self) -> list[str]:
        return self._recorder.errors

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def bodies(self, kind: type) -> list[Any]:
        return [event.data for event in self.events if isinstance(event.data, kind)]

    def parts(self) -> list[Part]:
        """What one composite effect owns, in the product's order."""
        return [
            ("plugins", self._mounted_plugins),
            ("persistence", lambda: self.kernel.mounted(self.backend)),
            ("checkpoint_policy", lambda: self.kernel.mounted(self.policy)),
            ("bridge", self._live_session),
        ]

    @asynccontextmanager
    async def live(self) -> AsyncIterator[Agent]:
        async with open_scope("root") as root:
            await root.composite("product", self.parts())
            yield self.agent
        self.check()

    def check(self) -> None:
        assert check_log(self.events) == []
        rebuilt = rebuild_requests(self.events)
        sent = [(request.header, request.messages) for request in self.model.requests]
        possible = iter([(request.header, request.messages) for request in rebuilt])
        assert all(request in possible for request in sent), "a request that the log does not show"
        answered = [request for request in rebuilt if request.answered and request.turn > self._turns_before()]
        assert len(answered) <= len(sent), "the log shows a request that the model did not get"

    def _turns_before(self) -> int:
        return sum(event.type == "turn/start" for event in self._prior)

    @asynccontextmanager
    async def _mounted_plugins(self) -> AsyncIterator[None]:
        async with open_scope("plugins") as scope:
            for plugin in self._plugins:
                await scope.effect(plugin.name, self.kernel.mounted(plugin))
            yield

    @asynccontextmanager
    async def _live_session(self) -> AsyncIterator[Agent]:
        """As the bridge does it: the agent comes to rest before the session leaves the store."""
        with ExitStack() as stack:
            for tool in self._tools:
                stack.enter_context(self.registry.registered(tool))
            stack.enter_context(self.models.registered(self.model))
            session = stack.enter_context(self.store.entered(HEADER, ("/project",), self._prior))
            if not self._prior:
                session.log.append(PresetSet(self._mode))
                session.log.append(SandboxModeSet(MODES[self._mode].sandbox))
            self._agent = Agent(self._parts, session)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._agent.run)
                try:
                    yield self._agent
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._agent.dispose()


async def ending(ticket: Ticket) -> TurnEndReason:
    """A prompt's ending, waited for with a bound."""
    with anyio.fail_after(5):
        return await ticket.ending()

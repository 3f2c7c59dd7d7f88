"""Small stand-ins for what an agent works with: a model, tools, a durable backend, a person who answers.

Each one does what its seam promises and lets a test hold it at a point, or make it fail there. Owns no order: what is
mounted before what is the test's business.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_bridge.approval.approval import ApprovalOutcome, ApprovalRequest
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.chunks import Chunk, Failure, Finish, FinishReason, TextDelta, ToolCallDelta
from acp_bridge.session.events import Event, Presentation
from acp_bridge.session.session import Session
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome

__all__ = ["FakeModel", "FakeTool", "Gate", "MemoryBackend", "Move", "Person", "ask_for", "fail", "say"]


class Gate:
    """A point where somebody can be held: `reached` tells that he is there, `open` lets him go on."""

    def __init__(self, *, closed: bool = True) -> None:
        self.reached = anyio.Event()
        self._open = anyio.Event()
        if not closed:
            self._open.set()

    def open(self) -> None:
        self._open.set()

    async def pass_through(self) -> None:
        self.reached.set()
        await self._open.wait()

    async def wait_until_reached(self) -> None:
        with anyio.fail_after(5):
            await self.reached.wait()


# One thing a scripted reply does: send a chunk, wait at a gate, or raise.
Move = Chunk | Gate | Exception


def say(*pieces: str) -> list[Move]:
    """A reply of text, to its end."""
    return [*(TextDelta(0, piece) for piece in pieces), Finish(FinishReason("stop"))]


def ask_for(*calls: tuple[str, str] | tuple[str, str, str], words: str = "") -> list[Move]:
    """A reply with calls, each (id, tool name[, arguments])."""
    moves: list[Move] = [TextDelta(0, words)] if words else []
    for index, (call_id, name, *arguments) in enumerate(calls, 1):
        moves.append(ToolCallDelta(index, call_id, arguments[0] if arguments else "{}", name))
    return [*moves, Finish(FinishReason("tool-calls"))]


def fail(message: str, code: str = "SERVER") -> list[Move]:
    return [Finish(FinishReason("error", Failure(message, code)))]


class FakeModel:
    """Plays one list of moves per request, in order, and keeps the requests."""

    provider = "fake"

    def __init__(self, *replies: Sequence[Move]) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.constructed = 0
        self.closed = 0

    def unusable(self, model: str) -> str | None:
        return None

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        self.constructed += 1
        return self._play(request)

    async def _play(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        try:
            for move in self.replies.pop(0):
                if isinstance(move, Exception):
                    raise move
                if isinstance(move, Gate):
                    await move.pass_through()
                else:
                    yield move
        finally:
            self.closed += 1


class FakeTool:
    """Every hold is by call id. `ran` lists the calls whose body was entered, `done` those whose body ended."""

    description = "does nothing, carefully"

    def __init__(
        self,
        name: str,
        *,
        effect: str = "none",
        safe: bool | Exception = False,
        parameters: dict[str, Any] | None = None,
        paths: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.parameters = parameters or {"type": "object"}
        self.ran: list[str] = []
        self.done: list[str] = []
        self.gates: dict[str, Gate] = {}
        self.outcomes: dict[str, ToolOutcome | Exception] = {}
        self.on_execute: Callable[[Execution], None] = lambda execution: None
        self.prepare_failure: Exception | None = None
        self._effect = effect
        self._safe = safe
        self._paths = paths

    def present(self, arguments: Any, cwd: str) -> Presentation:
        return Presentation(self.name.title(), "other")

    def concurrency_safe(self, arguments: Any) -> bool:
        if isinstance(self._safe, Exception):
            raise self._safe
        return self._safe

    async def prepare(self, execution: Execution) -> Prepared:
        if self.prepare_failure is not None:
            raise self.prepare_failure
        access = Access(self._effect, self._paths)  # type: ignore[arg-type]  # the literals, from a test
        return Prepared(self.present(execution.arguments, execution.session.cwd), access)

    async def execute(self, execution: Execution) -> ToolOutcome:
        call_id = execution.call_id
        self.ran.append(call_id)
        self.on_execute(execution)
        if call_id in self.gates:
            await self.gates[call_id].pass_through()
        self.done.append(call_id)
        outcome = self.outcomes.get(call_id, ToolOutcome(f"did {call_id}"))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class MemoryBackend:
    """Stores in memory what a disk would hold: only flushed events are durable, and nothing after the unload.

    `gates` are passed by the flushes in order, `failures` raised by them in order (None: that flush succeeds).
    """

    name = "memory_backend"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.durable: list[Event] = []
        self.attached = False
        self.flushes = 0
        self.gates: list[Gate] = []
        self.failures: list[Exception | None] = []

    async def mount(self, context: Context) -> None:
        await context.effect("storage", self._attached())

    @asynccontextmanager
    async def _attached(self) -> AsyncIterator[None]:
        self.attached = True
        try:
            yield
        finally:
            self._drain()
            self.attached = False

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        if self.attached:
            self.heard.append(event)

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        self.flushes += 1
        if self.gates:
            await self.gates.pop(0).pass_through()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self._drain()

    def _drain(self) -> None:
        self.durable[:] = self.heard


class Person:
    """Answers questions: `answers` in order; a gate among them holds the answer that follows it."""

    name = "person"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, *answers: ApprovalOutcome | Gate | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    async def approval_request(self, request: ApprovalRequest, next: Next[ApprovalOutcome]) -> ApprovalOutcome:
        self.asked.append(request)
        if not self.answers:
            return await next()
        answer = self.answers.pop(0)
        if isinstance(answer, Gate):
            await answer.pass_through()
            answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]  # never two gates in a row

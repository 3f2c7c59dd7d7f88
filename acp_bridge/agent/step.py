"""One step: one model request and the tools it calls (contracts §2.5).

Owns: the request as logged, receiving the reply, running its calls. Must not know: turns, prompts, ACP.
Invariant: what is sent can be rebuilt from the log alone; a reply that was cut short keeps what the person saw of
it, as an interrupted message; a half-received call never runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from acp_bridge import hookspecs
from acp_bridge.agent.calls import REPEATED_ID, parse_arguments, unique_calls
from acp_bridge.agent.parts import AgentParts
from acp_bridge.approval.modes import sandbox_mode_of
from acp_bridge.llm.model import ModelCall, ModelRequest
from acp_bridge.session.chunks import Assembly, Chunk, Failure, interrupted_blocks
from acp_bridge.session.content import Message, ModelSource, TextBlock, ToolCallBlock, ToolResultBlock, ToolSource
from acp_bridge.session.derive import derive_messages
from acp_bridge.session.events import (
    AssistantChunk,
    AssistantMessage,
    ModelHeader,
    RequestContext,
    RequestHeader,
    TodoWrite,
    ToolCallEvent,
    ToolResult,
    TurnEndReason,
)
from acp_bridge.session.fold import last_body
from acp_bridge.session.repair import assistant_message_id, unanswered
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.outcomes import failed
from acp_bridge.tools.schedule import run_calls
from acp_bridge.tools.tool import EditorFiles, Execution, ToolOutcome

__all__ = ["Step"]

# Chunks between two looks at the back-pressure. The bounds it guards are megabytes; a look at each chunk costs 6 us.
PRESSURE_STRIDE = 32


class Step:
    """`used_call_ids` is the agent's set of every call id of the session; this step adds its own."""

    def __init__(
        self,
        parts: AgentParts,
        session: Session,
        turn: int,
        number: int,
        signal: Signal,
        *,
        editor: EditorFiles | None,
        used_call_ids: set[str],
        first_request: bool,
    ) -> None:
        self._parts = parts
        self._session = session
        self._log = session.log
        self._turn = turn
        self._number = number
        self._signal = signal
        self._editor = editor
        self._used = used_call_ids
        self._first_request = first_request
        self._call_seqs: dict[str, int] = {}

    async def run(self) -> TurnEndReason | None:
        """The turn's ending as far as this step knows it; None to go on with the next step.

        Raises what a checkpoint raises, and ModelFailed when no adapter serves the route.
        """
        request = self._request()
        assembly = await self._receive(request)
        if self._signal.aborted:
            return None
        finish = assembly.finish
        kind = finish.kind if finish else "stop"
        if kind in ("error", "aborted"):
            failure = finish.failure if finish and finish.failure else Failure("The model request failed.", "UNKNOWN")
            self._keep_interrupted(request, assembly)
            return TurnEndReason("error", error=failure)
        message, repeated = self._commit(request, assembly)
        if kind == "max-tokens" or kind == "refusal":
            return TurnEndReason(kind)
        calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
        if not calls:
            return TurnEndReason("completed")
        await self._run_calls(calls, repeated)
        return None

    def _request(self) -> ModelRequest:
        config = self._parts.config(self._session)
        schemas = self._parts.tools.schemas() or None
        header = ModelHeader(config, self._parts.system(self._session), schemas)
        self._log_header(header)
        return ModelRequest(header, tuple(derive_messages(self._log.events)))

    def _log_header(self, header: ModelHeader) -> None:
        last = last_body(self._log.events, RequestHeader)
        if self._first_request or last is None:
            self._log.append(RequestHeader(header, "resume" if last else "initial"))
        elif last.header != header:
            self._log.append(RequestHeader(header, "change"))
        context = RequestContext(header.config.provider, header.config.model)
        if last_body(self._log.events, RequestContext) != context:
            self._log.append(context)

    async def _receive(self, request: ModelRequest) -> Assembly:
        """Consume the stream. On abort the stream is dropped at once; whatever cuts it, what was shown is kept."""
        assembly = Assembly()
        try:
            with self._signal.cancels():
                stream = await self._session.hooks.waterfall(
                    hookspecs.llm_stream, ModelCall(request, self._session), lambda: self._open(request)
                )
                await self._consume(stream, assembly)
        except BaseException:
            self._keep_interrupted(request, assembly)
            raise
        if self._signal.aborted:
            self._keep_interrupted(request, assembly)
        return assembly

    async def _open(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        return self._parts.models.adapter(request.header.config.provider).stream(request)

    async def _consume(self, stream: AsyncIterator[Chunk], assembly: Assembly) -> None:
        append, add, hooks = self._log.append, assembly.add, self._session.hooks
        received = 0
        async with aclosing(stream) as chunks:  # type: ignore[type-var]  # streams are async generators by the seam
            async for chunk in chunks:
                append(AssistantChunk(self._turn, self._number, chunk))
                add(chunk)
                received += 1
                if received % PRESSURE_STRIDE:
                    continue
                await hooks.serial(hookspecs.session_pressure, self._session)

    def _keep_interrupted(self, request: ModelRequest, assembly: Assembly) -> None:
        blocks = interrupted_blocks(event.data.chunk for event in self._log.open_chunks)
        if blocks:
            message = self._message(request, blocks)
            self._log.append(
                AssistantMessage(self._turn, self._number, message, assembly.usage, interrupted=True),
                sources=self._log.chunk_sources(),
            )

    def _commit(self, request: ModelRequest, assembly: Assembly) -> tuple[Message, frozenset[str]]:
        place = f"{self._turn}-{self._number}"
        blocks, repeated = unique_calls(assembly.blocks(), self._used, place)
        self._used.update(block.id for block in blocks if isinstance(block, ToolCallBlock))
        message = self._message(request, blocks, assembly)
        body = AssistantMessage(self._turn, self._number, message, assembly.usage)
        self._log.append(body, sources=self._log.chunk_sources())
        return message, repeated

    def _message(self, request: ModelRequest, blocks: tuple, assembly: Assembly | None = None) -> Message:  # type: ignore[type-arg]
        config = request.header.config
        source = ModelSource(config.provider, config.model, assembly.replay_state if assembly else None)
        return Message(assistant_message_id(self._turn, self._number), "assistant", blocks, source)

    async def _run_calls(self, calls: list[ToolCallBlock], repeated: frozenset[str]) -> None:
        raw = {call.id: call.arguments for call in calls}

        def begin(execution: Execution) -> None:
            # Read here, not when the calls were made: the person may narrow it while an earlier call runs.
            execution.sandbox_mode = sandbox_mode_of(self._log.events)
            body = ToolCallEvent(self._turn, self._number, execution.call_id, execution.name, raw[execution.call_id])
            self._call_seqs[execution.call_id] = self._log.append(body).seq

        def refused(execution: Execution) -> ToolOutcome | None:
            return failed(REPEATED_ID) if execution.call_id in repeated else None

        try:
            await run_calls(
                [self._execution(call) for call in calls],
                self._parts.pipeline,
                begin=begin,
                commit=self._commit_result,
                refused=refused,
                cap=self._parts.max_parallel,
            )
        except BaseException:
            self._close_calls()
            raise

    def _close_calls(self) -> None:
        """Cut off from outside or failed inside: each call that is left gets what can be known of it."""
        for body, sources in unanswered(self._log.events):
            self._log.append(body, sources=sources)

    def _execution(self, call: ToolCallBlock) -> Execution:
        return Execution(
            self._session,
            call.id,
            call.name,
            parse_arguments(call.arguments),
            self._signal,
            self._turn,
            self._number,
            sandbox_mode_of(self._log.events),
            self._editor,
            root_call_id=call.id,
        )

    def _commit_result(self, execution: Execution, outcome: ToolOutcome) -> None:
        if execution.todos is not None and not outcome.is_error:
            self._log.append(TodoWrite(execution.todos))
        call_id = execution.call_id
        block = ToolResultBlock(call_id, (TextBlock(outcome.text),), outcome.is_error)
        message = Message(f"result-{call_id}", "user", (block,), ToolSource(call_id))
        result = ToolResult(self._turn, self._number, message, outcome.error, outcome.meta)
        self._log.append(result, sources=(self._call_seqs[call_id],))

"""The agent loop of one session: prompts in order, one turn each (design §6, contracts §2).

Owns: the inbox, turns, cancellation and each prompt's ending. Must not know: ACP, storage, any plugin.
Invariant: the log stays balanced whatever fails (every turn and step that started ends); after every turn/end the
loop flushes before the next turn starts or idle can be observed; started work is awaited, never abandoned.
"""

from __future__ import annotations

import anyio

from acp_bridge import hookspecs
from acp_bridge.agent.hooks import AgentFailure, PreStep, StepEntry
from acp_bridge.agent.inbox import Inbox, Target
from acp_bridge.agent.parts import AgentParts
from acp_bridge.agent.step import Step
from acp_bridge.agent.ticket import Ticket
from acp_bridge.errors import BridgeError, CheckpointFailed, ModelFailed, SessionClosed
from acp_bridge.session.chunks import Failure
from acp_bridge.session.content import Message, ToolCallBlock
from acp_bridge.session.events import (
    AbortReason,
    AssistantMessage,
    NoticeShown,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from acp_bridge.session.fold import last_turn
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.tool import EditorFiles

__all__ = ["Agent"]

DISPOSED = AbortReason("disposed")


class Agent:
    def __init__(self, parts: AgentParts, session: Session, *, editor: EditorFiles | None = None) -> None:
        self.session = session
        self._parts = parts
        self._editor = editor
        self._inbox = Inbox(session.log)
        self._turn = last_turn(session.log.events)
        self._used_call_ids = _call_ids(session)
        self._requested = False
        self._tickets: dict[str, Ticket] = {}
        self._signal: Signal | None = None
        self._notices: dict[str, str] = {}
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._disposed = False

    @property
    def running(self) -> bool:
        return not self._idle.is_set()

    def prompt(self, message: Message) -> Ticket:
        """Queue one prompt; it opens a turn of its own. Raises SessionClosed once disposed."""
        if self._disposed:
            raise SessionClosed(self.session.id)
        if not self.running:
            # Left over from before a crash: nobody waits for it any more, so it must not run by itself.
            self._inbox.discard("next-turn")
        self._inbox.send(message, "next-turn")
        ticket = self._tickets[message.id] = Ticket(message.id)
        self._idle = anyio.Event() if self._idle.is_set() else self._idle
        self._wake.set()
        return ticket

    def inject(self, message: Message) -> None:
        """A message for the next step, which wakes nobody."""
        self._inbox.send(message, "next-step")

    def tell(self, topic: str, text: str | None) -> None:
        """Tell the person, in the running turn or at the start of the next: editors take no message between turns.
        A newer text on the same topic replaces one that still waits; None takes it back."""
        self._notices.pop(topic, None)
        if text is not None:
            self._notices[topic] = text
        if self._signal is not None:
            self._say()

    def cancel(self, cause: AbortReason) -> None:
        """Abort the running turn and discard queued prompts; each gets its `aborted` ending. First cause wins."""
        if self._inbox.pending("next-turn"):
            for message in self._inbox.clear():
                self._settle(message.id, TurnEndReason("aborted", reason=cause))
        if self._signal is not None:
            self._signal.abort(cause)

    async def when_idle(self) -> None:
        await self._idle.wait()

    async def dispose(self) -> None:
        """Cancel, wait until the running turn has written its real ending and flushed it, then refuse work."""
        self._disposed = True
        self.cancel(DISPOSED)
        self._wake.set()
        await self.when_idle()

    async def run(self) -> None:
        """Serve turns until disposed. Run it in a task of the session's own group.

        However it ends, nobody is left waiting: neither for a prompt's ending nor for idle.
        """
        try:
            while not self._disposed or self._inbox.pending("next-turn"):
                await self._wake.wait()
                self._wake = anyio.Event()
                while self._inbox.pending("next-turn"):
                    await self._serve_turn()
                self._idle.set()
        finally:
            self._disposed = True
            for message_id in list(self._tickets):
                self._settle(message_id, TurnEndReason("aborted", reason=DISPOSED))
            self._idle.set()

    async def _serve_turn(self) -> None:
        self._turn += 1
        self._signal = Signal()
        if self._disposed:
            self._signal.abort(DISPOSED)
        claimed: list[Message] = []
        reason = TurnEndReason("aborted", reason=DISPOSED)
        self.session.log.append(TurnStart(self._turn))
        self._say()
        try:
            reason = await self._contained(self._signal, claimed)
        finally:
            self.session.log.append(TurnEnd(self._turn, reason))
            self._signal = None
            # Here, so that even a turn that was cut off from outside is flushed and answered.
            unsaved = await self._final_flush()
            for message in claimed:
                self._settle(message.id, _told(reason, unsaved))

    def _say(self) -> None:
        notices, self._notices = self._notices, {}
        for topic, text in notices.items():
            self.session.log.append(NoticeShown(topic, text))

    async def _contained(self, signal: Signal, claimed: list[Message]) -> TurnEndReason:
        """The turn's ending, whatever was raised. An abort in effect outranks an error."""
        try:
            reason = await self._steps(signal, claimed)
        except Exception as error:
            reason = TurnEndReason("error", error=_failure(error))
            if not isinstance(error, BridgeError):
                self._parts.diagnostics.failure("a turn failed", error)
        if signal.cause is not None:
            return TurnEndReason("aborted", reason=signal.cause)
        if reason.error is not None:
            self._report(reason.error)
        return reason

    async def _steps(self, signal: Signal, claimed: list[Message]) -> TurnEndReason:
        ending: TurnEndReason | None = None
        target: Target = "next-turn"
        number = 0
        while True:
            messages = self._inbox.claim(target)
            claimed.extend(messages)
            entry = await self._enter(number + 1, messages, signal)
            if entry.kind == "block":
                return TurnEndReason("blocked")
            if signal.aborted or (not entry.messages and (ending is not None or number == 0)):
                self._keep(entry.messages)
                return ending or TurnEndReason("completed")
            if number == self._parts.max_steps:
                self._keep(entry.messages)
                return TurnEndReason("max-steps")
            number += 1
            ending = await self._step(number, entry.messages, signal)
            if signal.aborted or (ending is not None and not self._inbox.pending("next-step")):
                return ending or TurnEndReason("completed")
            target = "next-step"

    async def _enter(self, number: int, messages: tuple[Message, ...], signal: Signal) -> StepEntry:
        """Pre-step hooks. What was claimed is never lost: it stays in the conversation when they refuse or fail."""

        async def enter() -> StepEntry:
            return StepEntry("enter", messages)

        try:
            subject = PreStep(self.session, self._turn, number, messages, signal)
            entry = await self.session.hooks.waterfall(hookspecs.agent_pre_step, subject, enter)
        except BaseException:
            self._keep(messages)
            raise
        if entry.kind == "block":
            self._keep(messages)
        return entry

    def _keep(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self.session.log.append(UserMessage(message.id, message.role, message.content, message.source))

    async def _step(self, number: int, messages: tuple[Message, ...], signal: Signal) -> TurnEndReason | None:
        log = self.session.log
        log.append(StepStart(self._turn, number))
        try:
            self._keep(messages)
            step = Step(
                self._parts,
                self.session,
                self._turn,
                number,
                signal,
                editor=self._editor,
                used_call_ids=self._used_call_ids,
                first_request=not self._requested,
            )
            self._requested = True
            return await step.run()
        finally:
            log.append(StepEnd(self._turn, number))

    async def _final_flush(self) -> Failure | None:
        """The closing checkpoint. A rejected one is reported live and later work goes on (contracts §2.9)."""
        try:
            with anyio.CancelScope(shield=True):
                await self._parts.store.flush(self.session)
        except CheckpointFailed as error:
            failure = _failure(
                CheckpointFailed(error.session_id, error.reason, "the end of this turn is not saved yet")
            )
        except BridgeError as error:
            failure = _failure(error)
        else:
            return None
        self._report(failure)
        return failure

    def _report(self, failure: Failure) -> None:
        subject = AgentFailure(self._turn, 0, failure.message, failure.code)
        self.session.hooks.emit(hookspecs.agent_error, self.session, subject)

    def _settle(self, message_id: str, reason: TurnEndReason) -> None:
        ticket = self._tickets.pop(message_id, None)
        if ticket is not None:
            ticket.settle(reason)


def _told(reason: TurnEndReason, unsaved: Failure | None) -> TurnEndReason:
    """What the prompt's sender is told. A turn that is complete but not saved is no ordinary end: nobody should take
    its reply for kept. A cancelled one stays cancelled (editors rule 1)."""
    if unsaved is None or reason.kind in ("aborted", "error"):
        return reason
    return TurnEndReason("error", error=unsaved)


def _failure(error: Exception) -> Failure:
    if isinstance(error, ModelFailed):
        return Failure(error.message, error.code, status=error.status)
    if isinstance(error, CheckpointFailed):
        return Failure(str(error), "CHECKPOINT_FAILED")
    if isinstance(error, BridgeError):
        return Failure(str(error), "UNKNOWN")
    return Failure(f"The turn failed inside the agent ({type(error).__name__}); its log has the details.", "UNKNOWN")


def _call_ids(session: Session) -> set[str]:
    return {
        block.id
        for event in session.log.events
        if isinstance(event.data, AssistantMessage)
        for block in event.data.message.content
        if isinstance(block, ToolCallBlock)
    }

"""`acp-bridge run PROMPT`: one turn of an embedded agent, from the arguments to the exit status.

Owns: signals and the order of start, turn, teardown and the last line. Must not know: plugins, how it looks.
Invariant: the status is decided after teardown, so that it never says "completed" of a turn whose ending is not
stored; the first SIGINT cancels the turn and waits for its real ending, the second one, SIGTERM and SIGHUP tear down.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack

import anyio

from acp_bridge.errors import BridgeError
from acp_bridge_composition.agent_process import bounded_exit
from acp_bridge_composition.commands.run.asking import Asker, can_ask
from acp_bridge_composition.commands.run.options import FAILED, Options, exit_status, parsed
from acp_bridge_composition.commands.run.output import Output
from acp_bridge_composition.commands.run.printing import End, JsonLines, Plain, Printer, Session
from acp_bridge_composition.deadlines import Deadlines
from acp_bridge_composition.diagnostics import FileDiagnostics
from acp_bridge_composition.embedded import EmbeddedAgent, Permission, Result, Told, open_agent
from acp_bridge_composition.settings import bare_settings

__all__ = ["run"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds that the last lines of a run that was cut short may take to be read.
READ_SECONDS = 1.0


def run(arguments: list[str]) -> int:
    """Raises SystemExit for arguments that are not understood."""
    options = parsed(arguments)
    with ExitStack() as last_resort:
        return anyio.run(_main, options, last_resort)


async def _main(options: Options, last_resort: ExitStack) -> int:
    # What a shell or nohup has told this process to ignore stays ignored.
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*heard) as signals:
        async with anyio.create_task_group() as tasks:
            one = _Run(options, last_resort)
            tasks.start_soon(one.output.run)
            tasks.start_soon(one.listen, signals)
            status = await one.status()
            tasks.cancel_scope.cancel()
    return status


class _Run:
    def __init__(self, options: Options, last_resort: ExitStack) -> None:
        self._options = options
        self._last_resort = last_resort
        self._working = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._agent: EmbeddedAgent | None = None
        self._session_id: str | None = None
        self._result: Result | None = None
        self._ended_by: int | None = None
        self._unasked = False
        self.output = Output(lambda: self._end(signal.SIGPIPE))
        self._printer: Printer = JsonLines(self.output) if options.json else Plain(self.output)

    async def listen(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._end(number)

    async def status(self) -> int:
        end = await self._ending()
        self._printer.end(end)
        self._reading.deadline = math.inf if self._ended_by is None else anyio.current_time() + READ_SECONDS
        with self._reading:
            await self.output.drained()
        return self._signalled if self._reading.cancelled_caught else end.exit_status

    def _end(self, number: int) -> None:
        first = self._ended_by is None
        self._ended_by = self._ended_by or number
        # A whole run whose last lines nobody reads waits for the reader, until this.
        self._reading.deadline = anyio.current_time() + READ_SECONDS
        if first and number == signal.SIGINT and self._agent is not None:
            self._agent.cancel()
        elif not self._working.cancel_called:
            self._last_resort.enter_context(bounded_exit(self._exit_seconds))
            self._working.cancel()

    async def _ending(self) -> End:
        try:
            with self._working:
                await self._turn()
        except Exception as error:
            # A turn that failed has said why; that its ending could not be stored either adds nothing.
            if self._result is None or self._result.error is None:
                text = self._result.text if self._result else ""
                return End(self._session_id, "error", FAILED, text, _sentence(error), _code(error))
        result = self._result
        if result is None:
            return End(self._session_id, "cancelled", self._signalled)
        status = exit_status(result, unasked=self._unasked)
        if result.stop_reason == "cancelled":
            status = self._signalled
        return End(result.session_id, result.stop_reason, status, result.text, result.error, result.code)

    @property
    def _signalled(self) -> int:
        return 128 + (self._ended_by or signal.SIGINT)

    @property
    def _exit_seconds(self) -> float:
        return (self._agent.deadlines if self._agent else Deadlines()).exit

    async def _turn(self) -> None:
        """Sets the result, unless it is cut short before there is one."""
        options = self._options
        async with open_agent(
            cwd=options.cwd,
            mode=options.mode,
            resume=options.resume,
            answer=Asker(self.output).answer if can_ask() else None,
            on_event=self._told,
        ) as agent:
            self._session_id = agent.session_id
            opened = Session(agent.session_id, agent.cwd, agent.mode, agent.model, options.resume is not None)
            self._printer.session(opened)
            if self._ended_by is None:
                self._agent = agent
                try:
                    self._result = await agent.prompt(options.prompt)
                finally:
                    self._agent = None

    def _told(self, told: Told) -> None:
        self._unasked = self._unasked or (isinstance(told, Permission) and told.outcome == "unavailable")
        self._printer.told(told)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _code(error: Exception) -> str:
    return type(_first(error)).__name__


def _sentence(error: Exception) -> str:
    """What a person reads; of what we did not foresee, the details go to the log."""
    first = _first(error)
    if isinstance(first, BridgeError):
        return str(first)
    if isinstance(first, OSError):
        return f"The end of the run could not be saved: {first.strerror or type(first).__name__}."
    state_dir = bare_settings(os.environ).state_dir
    FileDiagnostics(state_dir).failure("a run failed", error)
    return f"The run failed inside the agent ({type(first).__name__}); {state_dir / 'logs' / 'agent.log'} says more."

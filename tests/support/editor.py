"""An editor for end-to-end tests: the official Python SDK as ACP client, over a real process and real stdio.

Owns the connection, the waiting and the view of what happened. Pipes are `stdio`'s business, answers `permissions`'
and `buffers`', rules `frames`'.
Invariant: leaving the `async with` block is bounded, ends the process, and fails the test if any frame of the agent
breaks a rule or the agent does not end by itself, with status 0, when its stdin is closed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import acp
import anyio
from acp import schema
from anyio.abc import TaskGroup

from tests.support import transcript
from tests.support.buffers import Buffers
from tests.support.client import EditorClient, SdkTransport, client_capabilities
from tests.support.frames import Frame, check_frames
from tests.support.permissions import PermissionRequest, Permissions, Policy
from tests.support.stdio import AgentProcess
from tests.support.transcript import Message, ToolCallView
from tests.support.turns import Turn

__all__ = ["Editor", "client_capabilities"]

T = TypeVar("T")

TIMEOUT_S = 10.0
EXIT_S = 5.0  # above the 2 s that design §15 promises, so that a slow machine is not a failure here


class Editor:
    """Made by `start`. `agent` is the SDK's connection: initialize, new_session, prompt, cancel and so on."""

    agent: acp.ClientSideConnection

    def __init__(self, capabilities: schema.ClientCapabilities, permissions: Policy, buffers: Buffers) -> None:
        self.capabilities = capabilities
        self.permissions = Permissions(permissions, self._notify)
        self.buffers = buffers
        self._process: AgentProcess
        self._turns: TaskGroup
        self._changes = anyio.Event()
        self._raw_ids = 0
        self._late: list[str] = []

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        capabilities: schema.ClientCapabilities | None = None,
        permissions: Policy = (),
        buffers: Buffers | None = None,
        check: bool = True,
    ) -> AsyncIterator[Editor]:
        """Start an agent with exactly `env` in `cwd`. With `check` off, `problems()` is left to the test.

        Raises AssertionError on leaving if there are problems, unless the block raised already.
        """
        editor = cls(capabilities or client_capabilities(), permissions, buffers or Buffers())
        failure: BaseException | None = None
        async with AgentProcess.open(argv, env=env, cwd=cwd, changed=editor._notify) as process:
            editor._process = process
            async with anyio.create_task_group() as editor._turns:
                editor._connect()
                try:
                    yield editor
                except anyio.get_cancelled_exc_class():
                    raise
                except BaseException as error:
                    failure = error  # raised below: a task group would wrap it into an ExceptionGroup
                finally:
                    with anyio.CancelScope(shield=True):
                        await editor._close()
        if failure is not None:
            failure.add_note(editor._evidence())
            raise failure
        if check:
            assert not editor.problems(), "\n".join(["the agent broke rules:", *editor.problems(), editor.stderr])

    def _connect(self) -> None:
        client = EditorClient(self.permissions, self.buffers)
        self.agent = acp.connect_to_agent(cast(acp.Client, client), SdkTransport(self._process, self.permissions))

    async def _close(self) -> None:
        by_itself = self.returncode is None and not self._process.signals
        await self.agent.close()
        self._process.resume_reading()
        self.close_stdin()
        try:
            status = await self._process.wait_exit(EXIT_S)
            if by_itself and status != 0:
                self._late.append(f"the agent ended with status {status} when stdin was closed")
        except TimeoutError:
            self._late.append(f"the agent was still there {EXIT_S:g} s after stdin was closed")
            self.kill()
        with anyio.move_on_after(1) as held:
            await self._process.stdout_ended.wait()
        if held.cancelled_caught:
            self._late.append("stdout stayed open after the agent had ended: a child holds it")
        self._turns.cancel_scope.cancel()

    async def initialize(self, **more: Any) -> schema.InitializeResponse:
        """The SDK's initialize with this editor's capabilities; `more` ends up in `_meta`."""
        with anyio.fail_after(TIMEOUT_S):
            info = schema.Implementation(name="test-editor", title="Test editor", version="1.0")
            response: schema.InitializeResponse = await self.agent.initialize(
                acp.PROTOCOL_VERSION, self.capabilities, info, **more
            )
        return response

    async def new_session(self, cwd: Path) -> str:
        """Initialize if that was not done yet, make a session and return its id."""
        await self._ensure_initialized()
        with anyio.fail_after(TIMEOUT_S):
            response: schema.NewSessionResponse = await self.agent.new_session(str(cwd), mcp_servers=[])
        return response.session_id

    async def load_session(self, session_id: str, cwd: Path) -> schema.LoadSessionResponse:
        """Initialize if that was not done yet, and load a session."""
        await self._ensure_initialized()
        with anyio.fail_after(TIMEOUT_S):
            response: schema.LoadSessionResponse = await self.agent.load_session(str(cwd), session_id, mcp_servers=[])
        return response

    async def prompt(self, session_id: str, *content: Any, timeout: float = TIMEOUT_S) -> schema.PromptResponse:
        """Prompt with texts or content blocks and wait for the response. Raises RequestError, TimeoutError."""
        with anyio.fail_after(timeout):
            return await self._prompt(session_id, content)

    def start_prompt(self, session_id: str, *content: Any) -> Turn:
        """Prompt without waiting; the request leaves at the next await."""
        turn = Turn()
        self._turns.start_soon(turn.run, lambda: self._prompt(session_id, content))
        return turn

    async def cancel(self, session_id: str, *, answer_pending: bool = True) -> None:
        """Send session/cancel, then answer what is still asked with `cancelled`, as the protocol wants it."""
        await self.agent.cancel(session_id)
        if answer_pending:
            self.permissions.cancel_pending(session_id)

    async def _prompt(self, session_id: str, content: Sequence[Any]) -> schema.PromptResponse:
        blocks = [acp.text_block(block) if isinstance(block, str) else block for block in content]
        response: schema.PromptResponse = await self.agent.prompt(session_id, blocks)
        return response

    async def _ensure_initialized(self) -> None:
        if not any(frame.method == "initialize" for frame in self.frames):
            await self.initialize()

    async def send_raw(self, data: bytes) -> None:
        """Bytes as they are: bad lines, half lines, several lines in one write."""
        await self._process.write(data)

    async def send(self, message: dict[str, Any]) -> None:
        """One JSON line, outside the SDK."""
        await self.send_raw(json.dumps(message).encode() + b"\n")

    async def request(
        self, method: str, params: Any = None, *, id: int | str | None = None, timeout: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """A request outside the SDK; returns the whole response. Ids default to texts, which the SDK never uses."""
        self._raw_ids += 1
        id = f"raw-{self._raw_ids}" if id is None else id
        since = len(self.frames)
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params})
        frame = await self.wait_for(lambda frame: frame.is_response and frame.id == id, since=since, timeout=timeout)
        return frame.message or {}

    async def wait_for(
        self, predicate: Callable[[Frame], object], *, since: int = 0, timeout: float = TIMEOUT_S
    ) -> Frame:
        """The first agent frame from number `since` on for which `predicate` holds, past or future."""

        next_frame = since  # each frame is looked at once, else waiting would be quadratic in a long turn

        def found() -> Frame | None:
            nonlocal next_frame
            while next_frame < len(self.frames):
                frame = self.frames[next_frame]
                next_frame += 1
                if frame.sender == "agent" and predicate(frame):
                    return frame
            return None

        return await self.wait_until(found, timeout=timeout)

    async def wait_until(self, condition: Callable[[], T | None], *, timeout: float = TIMEOUT_S) -> T:
        """Look at `condition` after each frame; its first true value. AssertionError at the deadline or at EOF."""
        with anyio.move_on_after(timeout):
            while not (value := condition()):
                if self._process.stdout_ended.is_set():
                    break
                await self._changes.wait()
            else:
                return value
        raise AssertionError(f"it did not happen; {self._evidence()}")

    async def wait_for_permission(self, number: int = 1, *, timeout: float = TIMEOUT_S) -> PermissionRequest:
        """The permission request with this number, counted from 1, as soon as it has come; it may still be open."""
        requests = self.permissions.requests
        return await self.wait_until(lambda: requests[number - 1] if len(requests) >= number else None, timeout=timeout)

    async def wait_exit(self, timeout: float = EXIT_S) -> int:
        """The exit status; negative is a signal. Raises TimeoutError."""
        return await self._process.wait_exit(timeout)

    def _evidence(self) -> str:
        status = f"the agent's status is {self.returncode}, its stderr: {self.stderr[-4000:]}"
        return "\n".join(["the last frames:", *map(str, self.frames[-12:]), *self.problems(), status])

    def _notify(self) -> None:
        self._changes.set()
        self._changes = anyio.Event()

    @property
    def pid(self) -> int:
        return self._process.process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.process.returncode

    @property
    def stderr(self) -> str:
        """What has come on stderr so far."""
        return self._process.stderr.decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL for the agent alone."""
        self._process.send_signal(signal.SIGKILL)

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """A signal for the agent alone."""
        self._process.send_signal(number)

    def close_stdin(self) -> None:
        self._process.close("stdin")

    def close_stdout(self) -> None:
        """Stop being there for the agent's output: its next write fails with EPIPE."""
        self._process.close("stdout")

    def pause_reading(self) -> None:
        self._process.pause_reading()

    def resume_reading(self) -> None:
        self._process.resume_reading()

    @property
    def frames(self) -> list[Frame]:
        """Every line in both directions, in order. `len(frames)` is a mark for the `since` of other methods."""
        return self._process.frames

    def problems(self) -> list[str]:
        """Every rule that the agent broke so far, and what the test did not expect."""
        found = check_frames(self.frames) + self.permissions.problems + self._late
        if self._process.torn and self.returncode is not None and not self._process.signals:
            found.append(f"stdout ended in the middle of a line: {self._process.torn[-80:]!r}")
        return found

    def updates(self, session_id: str, since: int = 0) -> list[dict[str, Any]]:
        return transcript.updates(self.frames[since:], session_id)

    def text(self, session_id: str, since: int = 0) -> str:
        """The agent's text, joined."""
        return transcript.text(self.frames[since:], session_id)

    def thoughts(self, session_id: str, since: int = 0) -> str:
        return transcript.text(self.frames[since:], session_id, "agent_thought_chunk")

    def messages(self, session_id: str, since: int = 0) -> list[Message]:
        return transcript.messages(self.frames[since:], session_id)

    def tool_calls(self, session_id: str, since: int = 0) -> dict[str, ToolCallView]:
        return transcript.tool_calls(self.frames[since:], session_id)

    def plan(self, session_id: str, since: int = 0) -> list[dict[str, Any]]:
        return transcript.plan(self.frames[since:], session_id)

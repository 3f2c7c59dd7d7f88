"""`acp-bridge demo`: the whole job on a small project, with the real agent process and a scripted model.

Owns: the story and its checks. Must not know: how the agent works; it sees only the wire and the disk.
Invariant: every claim that is printed was checked; a claim that does not hold ends the demo with status 1.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.errors import BridgeError
from acp_bridge_composition.commands.demo.client import DemoEditor, started_agent
from acp_bridge_composition.commands.demo.show import Screen
from acp_bridge_composition.commands.demo.stage import PROMPTS, PUBLISHED, Stage, set_stage

__all__ = ["demo"]

# Seconds between looks at a file that a sandboxed command writes, and how often to look at most.
LOOK_SECONDS, LOOKS = 0.05, 400


class ClaimBrokenError(Exception):
    """Something that the demo says did not hold."""


def demo(arguments: list[str]) -> int:
    if arguments not in ([], ["--yes"]):
        sys.stderr.write("usage: acp-bridge demo [--yes]\n")
        return 2
    asks = not arguments and sys.stdin.isatty()
    status = 0
    with tempfile.TemporaryDirectory(prefix="acp-bridge-demo-") as folder:
        try:
            anyio.run(_Story(set_stage(Path(folder).resolve()), asks=asks).tell)
        except* (ClaimBrokenError, BridgeError) as group:
            sys.stderr.write(f"\nThe demo failed: {_first(group)}\n")
            status = 1
        except* KeyboardInterrupt:
            status = 130
    return status


def _first(group: BaseExceptionGroup[Exception]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Story:
    def __init__(self, stage: Stage, *, asks: bool) -> None:
        self._stage = stage
        self._asks = asks
        self._screen = Screen()
        self._refused = False

    async def tell(self) -> None:
        screen = self._screen
        screen.note(f"project: {self._stage.project}")
        screen.note("model:   a screenplay, so no key is needed; everything else is the real agent")
        async with self._agent() as editor:
            session_id = await self._first_session(editor)
            await self._killed(editor, session_id)
        async with self._agent() as editor:
            await self._reopened(editor, session_id)
        self._log(session_id)
        screen.chapter("That was the whole job. Add it to your editor: see editor_configs/")

    def _agent(self) -> Any:
        stage = self._stage
        return started_agent(stage.environ, str(stage.project), self._screen.update, self._permission)

    async def _first_session(self, editor: DemoEditor) -> str:
        screen = self._screen
        screen.chapter("1. An editor starts the agent and opens a session")
        await editor.request("initialize", protocolVersion=1, clientCapabilities={})
        opened = await editor.request("session/new", cwd=str(self._stage.project), mcpServers=[])
        session_id: str = opened["sessionId"]
        screen.note(f"session {session_id}, mode {opened['modes']['currentModeId']}")
        screen.chapter("2. A prompt: streaming, an edit with its diff, a sandboxed command")
        reason = await self._prompt(editor, session_id, PROMPTS[0])
        _claim(reason == "end_turn", f"the turn ended with {reason}")
        if not self._asks:
            fixed = (self._stage.project / "greet.sh").read_text(encoding="utf-8")
            _claim("Hello" in fixed, "the edit is not on disk")
        return session_id

    async def _killed(self, editor: DemoEditor, session_id: str) -> None:
        screen = self._screen
        screen.chapter("3. kill -9 in the middle of a command")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._doomed_prompt, editor, session_id)
            await self._wait_for_effect()
            screen.note(f"the command has begun ({PUBLISHED} exists); now: kill -9 {editor.process.pid}")
            editor.kill()
            tasks.cancel_scope.cancel()

    async def _doomed_prompt(self, editor: DemoEditor, session_id: str) -> None:
        reason = await self._prompt(editor, session_id, PROMPTS[1])
        if self._refused:
            raise ClaimBrokenError(
                "you refused the publishing, so there is nothing to interrupt; run it again and allow it"
            )
        raise ClaimBrokenError(f"the publishing turn ended by itself ({reason}); it was to be interrupted")

    async def _wait_for_effect(self) -> None:
        published = self._stage.project / PUBLISHED
        for _ in range(LOOKS):
            if published.exists() and published.read_text(encoding="utf-8").endswith("\n"):
                return
            await anyio.sleep(LOOK_SECONDS)
        raise ClaimBrokenError(f"{PUBLISHED} did not appear")

    async def _reopened(self, editor: DemoEditor, session_id: str) -> None:
        screen = self._screen
        screen.chapter("4. A new process loads the session: the history, and the truth about the open call")
        await editor.request("initialize", protocolVersion=1, clientCapabilities={})
        await editor.request("session/load", sessionId=session_id, cwd=str(self._stage.project), mcpServers=[])
        self._claim_published_once("loading ran something again")
        screen.chapter("5. The next prompt: the model is told, and looks before it acts")
        reason = await self._prompt(editor, session_id, PROMPTS[2])
        _claim(reason == "end_turn", f"the turn ended with {reason}")
        self._claim_published_once("the command was run again")
        screen.note(f"checked: {PUBLISHED} still has exactly one entry")
        await editor.request("session/close", sessionId=session_id)

    def _claim_published_once(self, otherwise: str) -> None:
        lines = (self._stage.project / PUBLISHED).read_text(encoding="utf-8").splitlines()
        _claim(len(lines) == 1, f"{otherwise}: {len(lines)} entries")

    def _log(self, session_id: str) -> None:
        from acp_bridge.lifecycle.diagnostics import Silent
        from acp_bridge.session.codec import Vocabulary
        from acp_bridge_composition.commands.transcript import terminal_columns, transcript
        from acp_bridge_plugins.persistence_jsonl.catalog import Catalog

        self._screen.chapter(f"6. The session log (acp-bridge sessions show {session_id[:8]})")
        header, events = Catalog(self._stage.state / "sessions", Vocabulary(), Silent()).read(session_id)
        for line in transcript(header, events, columns=terminal_columns()):
            self._screen.say(line)

    async def _prompt(self, editor: DemoEditor, session_id: str, text: str) -> str:
        self._screen.user(text)
        block = {"type": "text", "text": text}
        result = await editor.request("session/prompt", sessionId=session_id, prompt=[block])
        reason: str = result["stopReason"]
        return reason

    async def _permission(self, request: dict[str, Any]) -> str:
        self._screen.question(request)
        if not self._asks:
            self._screen.note("answered: allow once")
            return "allow-once"
        answer = await anyio.to_thread.run_sync(input, "        allow once? [Y/n] ", abandon_on_cancel=True)
        self._refused = answer.strip().lower().startswith("n")
        return "reject-once" if self._refused else "allow-once"


def _claim(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ClaimBrokenError(otherwise)

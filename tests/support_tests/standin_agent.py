"""A small agent on the official SDK's agent side, for the editor's own tests. A prompt's first word says what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import schema

OPTIONS = [
    schema.PermissionOption(option_id=kind, name=kind, kind=kind)
    for kind in ("allow_once", "allow_always", "reject_once")
]


class StandIn:
    """One session, one scripted behaviour per prompt text."""

    client: Any
    calls = 0

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        capabilities = schema.AgentCapabilities(load_session=True)
        return acp.InitializeResponse(protocol_version=1, agent_capabilities=capabilities)

    async def new_session(self, **_: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="s1")

    async def load_session(self, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        await self._say(session_id, schema.UserMessageChunk, "user_message_chunk", "hello")
        await self._say(session_id, schema.AgentMessageChunk, "agent_message_chunk", "Hello!")
        return acp.LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        self.cancelled = asyncio.Event()
        reason = await getattr(self, prompt[0].text.split()[0])(session_id, *prompt[0].text.split()[1:])
        return acp.PromptResponse(stop_reason=reason or "end_turn")

    async def talk(self, session: str) -> None:
        await self._say(session, schema.AgentThoughtChunk, "agent_thought_chunk", "hm")
        for piece in ("Hel", "lo"):
            await self._say(session, schema.AgentMessageChunk, "agent_message_chunk", piece)

    async def edit(self, session: str, path: str) -> None:
        before = await self.client.read_text_file(session_id=session, path=path)
        diff = schema.FileEditToolCallContent(type="diff", path=path, old_text=before.content, new_text="new")
        self.calls += 1
        call: dict[str, Any] = {
            "tool_call_id": f"t{self.calls}",
            "title": f"Edit {path}",
            "kind": "edit",
            "status": "pending",
            "raw_input": {"path": path},
            "locations": [schema.ToolCallLocation(path=path)],
        }
        await self.client.session_update(session, schema.ToolCallStart(session_update="tool_call", **call))
        answer = await self.client.request_permission(
            session_id=session, tool_call=schema.ToolCallUpdate(**call, content=[diff]), options=OPTIONS
        )
        allowed = getattr(answer.outcome, "option_id", "").startswith("allow")
        if allowed:
            await self.client.write_text_file(session_id=session, path=path, content="new")
        update = schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=call["tool_call_id"],
            status="completed" if allowed else "failed",
            content=[diff],
        )
        await self.client.session_update(session, update)
        await self._say(session, schema.AgentMessageChunk, "agent_message_chunk", str(answer.outcome.outcome))

    async def wait(self, session: str) -> str:
        await self._say(session, schema.AgentMessageChunk, "agent_message_chunk", "waiting")
        await self.cancelled.wait()
        return "cancelled"

    async def fail(self, session: str) -> None:
        raise acp.RequestError.internal_error({"details": "It did not work."})

    async def _say(self, session: str, model: Any, kind: str, text: str) -> None:
        content = schema.TextContentBlock(type="text", text=text)
        await self.client.session_update(session, model(session_update=kind, content=content, message_id=kind))


if __name__ == "__main__":
    asyncio.run(acp.run_agent(StandIn()))  # type: ignore[arg-type]  # it has only the methods its tests need

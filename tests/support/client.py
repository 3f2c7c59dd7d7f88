"""The client side of the official SDK, fed from recorded lines instead of streams.

Owns which frame a handler answers, and the client's manners towards `$/cancel_request`, which the SDK does not know.
What is answered is decided in `permissions` and `buffers`.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any

import anyio
from acp import RequestError, schema

from tests.support.buffers import Buffers
from tests.support.frames import Frame
from tests.support.permissions import Permissions
from tests.support.stdio import AgentProcess

__all__ = ["EditorClient", "SdkTransport", "client_capabilities"]

# The SDK handles each message in a task made by its receive loop, which copies the context: a handler finds its frame.
_CURRENT: ContextVar[Frame] = ContextVar("frame")


def client_capabilities(
    *, read: bool = True, write: bool = True, terminal: bool = False, auth_terminal: bool = False, **more: Any
) -> schema.ClientCapabilities:
    """Client capabilities; `more` are further fields of the SDK's ClientCapabilities.

    `terminal` only says so: this editor answers no terminal/* request.
    """
    return schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=read, write_text_file=write),
        terminal=terminal,
        auth=schema.AuthCapabilities(terminal=auth_terminal),
        **more,
    )


class EditorClient:
    """What the SDK calls for the agent's requests. Results are plain values, so that odd clients can be played."""

    def __init__(self, permissions: Permissions, buffers: Buffers) -> None:
        self.permissions = permissions
        self.buffers = buffers

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Nothing to do: the frame is recorded already."""

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        return await self.permissions.decide(_CURRENT.get())

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> Any:
        return await self.buffers.read(path, line, limit)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        return await self.buffers.write(path, content)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Unknown notifications are ignored."""


class SdkTransport:
    """The SDK's message transport (structural type `acp._transport.Transport`) over a recorded process."""

    def __init__(self, process: AgentProcess, permissions: Permissions) -> None:
        self._process = process
        self._permissions = permissions

    async def send(self, message: dict[str, Any]) -> None:
        """One line, encoded as the SDK's own stdio transport does it."""
        await self._process.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message for the SDK, None at the end. Lines without one are left to the frame check."""
        while True:
            try:
                frame = await self._process.agent_frames.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return None
            if frame.method == "$/cancel_request":
                self._permissions.cancel_request(frame.params.get("requestId"))
            elif frame.message is not None and isinstance(frame.id, str | int | None):
                _CURRENT.set(frame)
                return frame.message

    async def close(self) -> None:
        """Nothing to do: the process belongs to the editor."""

"""The editor's buffers as a view of files (ACP: fs/read_text_file, fs/write_text_file).

Owns: the two requests and their timeouts. Must not know: which tool asks, what is on disk.
Invariant: only what the client offered is called; a client that cannot or does not answer costs a bounded wait.
"""

from __future__ import annotations

import msgspec

from acp_bridge.errors import BridgeError
from acp_bridge.wire.acp_types import ReadTextParams, WriteTextParams
from acp_bridge.wire.dispatcher import Dispatcher

__all__ = ["ClientFiles"]

# Seconds. Editors answer from memory in milliseconds; some never answer what they do not know (editors rule 7).
ANSWER_SECONDS = 10.0


class _Text(msgspec.Struct):
    content: str


class ClientFiles:
    def __init__(self, dispatcher: Dispatcher, session_id: str, *, can_read: bool, can_write: bool) -> None:
        self._dispatcher = dispatcher
        self._session_id = session_id
        self.can_read = can_read
        self.can_write = can_write

    async def read(self, path: str) -> str | None:
        params = ReadTextParams(self._session_id, path)
        try:
            raw = await self._dispatcher.request("fs/read_text_file", params, timeout=ANSWER_SECONDS)
            return msgspec.json.decode(raw, type=_Text).content
        except (BridgeError, msgspec.DecodeError):
            return None

    async def write(self, path: str, text: str) -> None:
        params = WriteTextParams(self._session_id, path, text)
        await self._dispatcher.request("fs/write_text_file", params, timeout=ANSWER_SECONDS)

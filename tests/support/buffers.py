"""The text files of an editor as its agent sees them: open buffers first, then the disk, with the oddities of clients.

Owns what fs/read_text_file and fs/write_text_file answer. Knows no process and no frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import anyio
from acp import RequestError

__all__ = ["Buffers", "ReadStyle", "WriteStyle"]

ReadStyle = Literal["text", "empty_if_missing", "null", "error", "never"]
WriteStyle = Literal["object", "null", "text", "error", "lost", "never"]


class Buffers:
    """Unsaved texts by absolute path, and what was asked of them.

    `read_style`: `text` is a good client; `empty_if_missing` answers "" for a file that does not exist (editors §6.3,
    §6.9). `write_style`: `object` is a good client, `null` and `text` write and answer null or an error sentence as
    result (editors §1 rule 20), `lost` answers well and writes nothing. `error` and `never` do nothing else.
    """

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self.reads: list[str] = []
        self.writes: list[tuple[str, str]] = []
        self.read_style: ReadStyle = "text"
        self.write_style: WriteStyle = "object"

    async def read(self, path: str, line: int | None, limit: int | None) -> Any:
        """The result of fs/read_text_file; RequestError -32002 for a file that is neither open nor on disk."""
        self.reads.append(path)
        await _misbehave(self.read_style)
        if self.read_style == "null":
            return None
        text = self._text(path)
        if text is None:
            if self.read_style == "empty_if_missing":
                return {"content": ""}
            raise RequestError.resource_not_found(path)
        first = max(line or 1, 1) - 1
        lines = text.splitlines(keepends=True)[first:]
        return {"content": "".join(lines if limit is None else lines[:limit])}

    async def write(self, path: str, content: str) -> Any:
        """The result of fs/write_text_file, after the text went to the buffer, if there is one, and to disk."""
        self.writes.append((path, content))
        await _misbehave(self.write_style)
        if self.write_style == "lost":
            return {}
        if path in self.texts:
            self.texts[path] = content
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content, encoding="utf-8", newline="")
        return {"object": {}, "null": None, "text": "Failed to write: nobody knows why"}[self.write_style]

    def _text(self, path: str) -> str | None:
        if path in self.texts:
            return self.texts[path]
        # Not read_text: universal newlines would hide a carriage return from the agent.
        return Path(path).read_bytes().decode() if Path(path).is_file() else None


async def _misbehave(style: str) -> None:
    if style == "error":
        raise RequestError.internal_error({"details": "The editor could not do it."})
    if style == "never":
        await anyio.sleep_forever()

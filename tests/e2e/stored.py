"""A session's log as it lies on disk, read without the product's own reader.

Owns: finding the file below a test's state directory, and its events as plain JSON. Knows frames and lines only.
Invariant: never writes, takes no lock, and of a torn tail shows whole lines only.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import zstandard

__all__ = ["StoredLog", "decoded"]

POLL_S = 0.005  # nothing tells that another process has written


def decoded(data: bytes) -> list[dict[str, Any]]:
    """The header and the events in these bytes of a log."""
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        lines = reader.read().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


class StoredLog:
    """The log of one session of the agents that `start_agent` starts for `tmp_path`; it need not exist yet."""

    def __init__(self, tmp_path: Path, session_id: str) -> None:
        self._state = tmp_path / "state"
        self._session_id = session_id

    @property
    def path(self) -> Path:
        """AssertionError unless there is exactly one file."""
        found = self._found()
        assert len(found) == 1, f"{len(found)} logs of session {self._session_id}"
        return found[0]

    @property
    def bytes(self) -> bytes:
        return self.path.read_bytes()

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every whole event, in file order; none while there is no file."""
        return decoded(self.bytes)[1:] if self._found() else []

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The `data` of all events of one type."""
        return [event["data"] for event in self.events if event["type"] == kind]

    @property
    def endings(self) -> list[str]:
        """The kind of each turn's ending."""
        return [data["reason"]["kind"] for data in self.of("turn/end")]

    @property
    def results(self) -> dict[str, str]:
        """By call id: `ok`, the error code, or `error` where there is none."""
        found = {}
        for data in self.of("tool/result"):
            block = data["message"]["content"][0]
            failed = (data.get("error") or {}).get("code", "error") if block.get("isError") else "ok"
            found[block["toolCallId"]] = failed
        return found

    async def wait(self, condition: Callable[[StoredLog], object], *, timeout: float = 5.0) -> None:
        """Look again and again until `condition` holds. AssertionError after `timeout` s."""
        with anyio.move_on_after(timeout):
            while not condition(self):
                await anyio.sleep(POLL_S)
            return
        raise AssertionError(f"not on disk after {timeout:g} s; there is: {[event['type'] for event in self.events]}")

    def _found(self) -> list[Path]:
        return list(self._state.glob(f"sessions/*/{self._session_id}/session.v*.jsonl*"))

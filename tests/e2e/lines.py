"""JSON-RPC lines as bytes, for tests that send what no SDK would, and the agent's answers to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.support.frames import Frame
from tests.support.schema import mapping

__all__ = ["answers", "answers_to", "code_of", "line", "notification", "request", "text_prompt"]


def line(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def request(id: Any, method: str, params: Any = None, **more: Any) -> bytes:
    """`params` as they are, or `more` as an object."""
    return line({"jsonrpc": "2.0", "id": id, "method": method, "params": more if params is None else params})


def notification(method: str, **params: Any) -> bytes:
    return line({"jsonrpc": "2.0", "method": method, "params": params})


def text_prompt(id: Any, session: str, text: str) -> bytes:
    return request(id, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


def answers(frames: Iterable[Frame]) -> list[Frame]:
    """Every result and error that the agent sent."""
    return [frame for frame in frames if frame.sender == "agent" and frame.is_response]


def answers_to(id: Any) -> Callable[[Frame], bool]:
    """For `Editor.wait_for`."""
    return lambda frame: frame.is_response and bool(frame.id == id)


def code_of(frames: Sequence[Frame], id: Any) -> int | None:
    """The error code of the one answer to `id`; None for a result. AssertionError unless there is exactly one."""
    found = [frame for frame in answers(frames) if frame.id == id]
    assert len(found) == 1, f"{len(found)} answers to {id!r}"
    code: int | None = mapping(mapping(found[0].message).get("error")).get("code")
    return code

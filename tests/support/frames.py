"""The lines that crossed the wire between an editor and an agent, and the check of all rules over them.

Owns the recorded line and how it is read. The rules themselves live in `shapes`, `order` and `schema`.
Invariant: a frame is what was read or written, byte for byte; everything else is derived from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tests.support.order import Order
from tests.support.schema import mapping
from tests.support.shapes import shape_problems

__all__ = ["Frame", "check_frames"]


@dataclass(frozen=True)
class Frame:
    """One line. `time` is `time.monotonic()` seconds, `raw` the line without its newline."""

    sender: Literal["agent", "client"]
    time: float
    raw: bytes

    @cached_property
    def message(self) -> dict[str, Any] | None:
        """The JSON object of the line, or None if it holds none (strict UTF-8, no NaN, nested as Python can)."""
        try:
            value = json.loads(self.raw.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    @property
    def method(self) -> str | None:
        """Method of a request or notification."""
        return mapping(self.message).get("method")

    @property
    def id(self) -> Any:
        """Id of a request or response."""
        return mapping(self.message).get("id")

    @property
    def params(self) -> dict[str, Any]:
        """Params of a request or notification, empty for anything else."""
        return mapping(mapping(self.message).get("params"))

    @property
    def session_id(self) -> str | None:
        """The session that a request or notification is about."""
        return self.params.get("sessionId")

    @property
    def update(self) -> dict[str, Any]:
        """The update of a `session/update`, empty for anything else."""
        return mapping(self.params.get("update")) if self.method == "session/update" else {}

    @property
    def kind(self) -> str | None:
        """The `sessionUpdate` of a `session/update`."""
        return self.update.get("sessionUpdate")

    @property
    def is_response(self) -> bool:
        """A result or an error."""
        return self.message is not None and "method" not in self.message and "id" in self.message

    def __str__(self) -> str:
        return f"{'agent ' if self.sender == 'agent' else 'client'} {self.raw[:300].decode(errors='replace')}"


def check_frames(frames: Iterable[Frame]) -> list[str]:
    """Every violation by the agent in a connection's frames, one sentence each, with the frame's number and start.

    Client frames are context only: what a test sends wrong on purpose is no violation.
    """
    order = Order()
    problems = []
    for number, frame in enumerate(frames):
        if frame.sender == "client":
            order.client(frame.message)
            continue
        problems += [f"frame {number}: {problem} [{frame.raw[:160]!r}]" for problem in _problems(frame, order)]
    return problems


def _problems(frame: Frame, order: Order) -> Iterator[str]:
    message = frame.message
    if message is None:
        yield "rule 4: stdout carried a line that is not a JSON object"
        return
    if "method" in message and not isinstance(message["method"], str):
        yield "method is not a text"
        return
    request = order.answered(message)
    yield from shape_problems(message, request.method if request else None)
    yield from order.problems(message, request)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")

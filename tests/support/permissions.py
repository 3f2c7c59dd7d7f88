"""How the person at the editor answers permission requests: by a script, by a function, or not at all.

Owns the record of requests and their answers, odd answers of real clients included. Knows no process.
Invariant: a request that the script does not cover is answered `cancelled` and reported as a problem, never allowed.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from acp import RequestError

from tests.support.frames import Frame

__all__ = ["Answer", "PermissionRequest", "Permissions", "Policy", "held"]

Answer = Literal[
    "allow_once",
    "allow_always",
    "reject_once",
    "reject_always",
    "cancelled",
    "error",  # a JSON-RPC error
    "request_cancelled",  # the error -32800, as good clients answer $/cancel_request
    "never",  # not even after session/cancel (editors §6.5, §6.9)
    "no_option",  # selected without optionId (editors §6.5)
    "unknown_option",
    "unknown_outcome",
    "null",
]


@dataclass
class PermissionRequest:
    """One session/request_permission as it was on the wire, and its answer once there is one."""

    frame: Frame
    answer: Answer | None = None
    _waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope, repr=False)

    @property
    def tool_call(self) -> dict[str, Any]:
        return dict(self.frame.params["toolCall"])

    @property
    def options(self) -> list[dict[str, Any]]:
        return list(self.frame.params["options"])

    @property
    def title(self) -> str:
        return str(self.tool_call.get("title"))

    def settle(self, answer: Answer) -> None:
        """Answer now, whatever the policy is waiting for; without effect once answered."""
        if self.answer is None:
            self.answer = answer
            self._waiting.cancel()


Choice = Answer | Callable[[PermissionRequest], Answer | Awaitable[Answer]]
Policy = Choice | Sequence[Choice]


def held(event: anyio.Event, answer: Answer) -> Callable[[PermissionRequest], Awaitable[Answer]]:
    """A policy that answers once `event` is set."""

    async def policy(request: PermissionRequest) -> Answer:
        await event.wait()
        return answer

    return policy


class Permissions:
    """Answers by `policy`: a list holds one choice per request in order, a single choice is for all of them."""

    def __init__(self, policy: Policy = (), changed: Callable[[], None] = lambda: None) -> None:
        self.policy = policy
        self._changed = changed
        # Kept for requests that the SDK has not handed over yet when the cancel is sent or comes.
        self._cancelled: dict[str | None, float] = {}
        self._withdrawn: list[Any] = []
        self.requests: list[PermissionRequest] = []
        self.problems: list[str] = []

    @property
    def pending(self) -> list[PermissionRequest]:
        """Requests without an answer."""
        return [request for request in self.requests if request.answer is None]

    def cancel_pending(self, session_id: str) -> None:
        """What a client owes after session/cancel: the outcome `cancelled` for what was asked before."""
        self._cancelled[session_id] = time.monotonic()
        for request in self.pending:
            if request.frame.session_id == session_id:
                request.settle("cancelled")

    def cancel_request(self, id: Any) -> None:
        """What a client owes after $/cancel_request: an error for that request, if it is still open."""
        self._withdrawn.append(id)
        for request in self.pending:
            if request.frame.id == id:
                request.settle("request_cancelled")

    async def decide(self, frame: Frame) -> Any:
        """The result for a permission request; RequestError if the answer is an error."""
        request = PermissionRequest(frame)
        self.requests.append(request)
        self._changed()
        if frame.time < self._cancelled.get(frame.session_id, 0.0):
            request.settle("cancelled")
        elif frame.id in self._withdrawn:
            request.settle("request_cancelled")
        with request._waiting:
            request.answer = request.answer or await self._ask(request)
        assert request.answer is not None
        if request.answer == "never":
            await anyio.sleep_forever()
        return self._result(request, request.answer)

    async def _ask(self, request: PermissionRequest) -> Answer:
        if isinstance(self.policy, str) or callable(self.policy):
            return await _choose(self.policy, request)
        number = len(self.requests) - 1
        if number < len(self.policy):
            return await _choose(self.policy[number], request)
        self.problems.append(f"a permission request that the test did not expect: {request.title}")
        return "cancelled"

    def _result(self, request: PermissionRequest, answer: Answer) -> Any:
        if answer == "error":
            raise RequestError.internal_error({"details": "The editor could not ask."})
        if answer == "request_cancelled":
            raise RequestError(-32800, "Request cancelled")
        if answer in ODD_RESULTS:
            return ODD_RESULTS[answer]
        chosen = [option["optionId"] for option in request.options if option.get("kind") == answer]
        if not chosen:
            self.problems.append(f"the person wanted {answer}, which was not offered for: {request.title}")
            return ODD_RESULTS["cancelled"]
        return {"outcome": {"outcome": "selected", "optionId": chosen[0]}}


async def _choose(choice: Choice, request: PermissionRequest) -> Answer:
    if not callable(choice):
        return choice
    answer = choice(request)
    return await answer if inspect.isawaitable(answer) else answer


ODD_RESULTS: dict[str, Any] = {
    "cancelled": {"outcome": {"outcome": "cancelled"}},
    "no_option": {"outcome": {"outcome": "selected"}},
    "unknown_option": {"outcome": {"outcome": "selected", "optionId": "no-such-option"}},
    "unknown_outcome": {"outcome": {"outcome": "perhaps"}},
    "null": None,
}

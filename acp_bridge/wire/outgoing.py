"""Our own requests to the peer. Owns their ids and who waits for which answer.

Must not know: incoming requests; the two directions have separate id spaces (editors rule 6). Invariant: a caller
gets exactly one of: the answer, the peer's error, a timeout, its own cancellation, ConnectionClosed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import anyio
import msgspec
from msgspec import Raw

from acp_bridge.errors import BridgeError, ConnectionClosed, PeerError, RequestTimedOut
from acp_bridge.wire.jsonrpc import IdKey, Response, encode_notification, encode_request, id_key

__all__ = ["Outgoing"]


class _PeerErrorBody(msgspec.Struct):
    """Read leniently: an error that breaks the rules is still an error."""

    code: object = 0
    message: object = ""


class _Call:
    __slots__ = ("method", "outcome", "settled")

    def __init__(self, method: str) -> None:
        self.method = method
        self.settled = anyio.Event()
        self.outcome: Raw | BridgeError | None = None

    def settle(self, outcome: Raw | BridgeError) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.settled.set()


class Outgoing:
    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._numbers = count(1)  # not 0, which is false in the languages many clients are written in
        self._calls: dict[IdKey, _Call] = {}
        self._closed = False

    async def request(self, method: str, params: object, *, timeout: float | None) -> Raw:
        """See Dispatcher.request."""
        if self._closed:
            raise ConnectionClosed
        number = next(self._numbers)
        self._send(encode_request(number, method, params))
        call = self._calls[number] = _Call(method)
        seconds = math.inf if timeout is None else timeout
        try:
            with anyio.move_on_after(seconds):
                await call.settled.wait()
        finally:
            # Reached by cancellation too. After an answer that came in the same turn nothing is left to cancel.
            del self._calls[number]
            if call.outcome is None:
                self._abandon(number)
        if call.outcome is None:
            raise RequestTimedOut(method, seconds)
        if isinstance(call.outcome, BridgeError):
            raise call.outcome
        return call.outcome

    def answer(self, response: Response) -> None:
        """Late answers and ids that are not ours are dropped."""
        call = self._find(response.id)
        if call is not None:
            call.settle(
                _peer_error(call.method, response.error) if len(memoryview(response.error)) else response.result
            )

    def fail(self, id_raw: Raw, error: BridgeError) -> bool:
        """A line that should have been the answer was broken. False when nobody waits for that id."""
        call = self._find(id_raw)
        if call is not None:
            call.settle(error)
        return call is not None

    def close(self) -> None:
        """No answer can come any more."""
        self._closed = True
        for call in self._calls.values():
            call.settle(ConnectionClosed())

    def _find(self, id_raw: Raw) -> _Call | None:
        with suppress(msgspec.DecodeError):
            return self._calls.get(id_key(id_raw))
        return None

    def _abandon(self, number: int) -> None:
        with suppress(ConnectionClosed):
            self._send(encode_notification("$/cancel_request", {"requestId": number}))


def _peer_error(method: str, raw: Raw) -> PeerError:
    try:
        body = msgspec.json.decode(raw, type=_PeerErrorBody)
    except (msgspec.DecodeError, RecursionError):
        body = _PeerErrorBody()
    code = body.code if isinstance(body.code, int) else 0
    return PeerError(method, code, body.message if isinstance(body.message, str) else "")

"""Requests and notifications to their handlers, and answers back. Knows JSON-RPC, not ACP.

Owns: read order, one task per request, the one answer each request gets, and `$/cancel_request`. Must not know:
methods, sessions, descriptors. Invariants:
- handlers are called in read order; only the awaitable that a request handler returns runs concurrently;
- each request is answered exactly once, by the end of its awaitable and by nothing else. A cancel only asks: work
  that still returns a result was done, so its result is the answer, otherwise the answer is "cancelled";
- what a handler sent before it returned precedes its answer, because everything leaves through one buffer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw

from acp_bridge.errors import BridgeError, ConnectionClosed, InvalidRequest, MethodNotFound, RequestCancelled
from acp_bridge.wire.errors import to_wire_error
from acp_bridge.wire.jsonrpc import (
    IdKey,
    Invalid,
    Line,
    Notification,
    Request,
    Response,
    encode_error,
    encode_notification,
    encode_result,
    id_key,
    parse,
    too_long,
)
from acp_bridge.wire.outgoing import Outgoing
from acp_bridge.wire.transport import Transport
from acp_bridge.wire.wakeup import Wakeup

if TYPE_CHECKING:
    from acp_bridge.lifecycle.diagnostics import Diagnostics

__all__ = ["Dispatcher", "NotificationHandler", "RequestContext", "RequestHandler"]

_READ_PAUSE = 16 * 1024 * 1024
"""Outgoing bytes at which reading pauses. Far above the producers' own mark, so that a cancel is still read while
the editor is slow to take a stream; without it a peer that sends and never reads would grow our memory."""


class RequestContext:
    """One request in flight. A handler may set `on_cancel` before it returns its awaitable or while that runs: the
    peer's cancel then calls it, once, instead of cancelling the awaitable."""

    __slots__ = ("_scope", "cancel_requested", "id", "method", "on_cancel")

    def __init__(self, id_: Raw, method: str) -> None:
        self.id = id_
        self.method = method
        self.on_cancel: Callable[[], None] | None = None
        self.cancel_requested = False
        self._scope = anyio.CancelScope()

    def cancel(self) -> None:
        if self.cancel_requested:
            return
        self.cancel_requested = True
        if self.on_cancel is not None:
            self.on_cancel()
        else:
            self._scope.cancel()


RequestHandler: TypeAlias = Callable[[RequestContext, Raw], Awaitable[object]]
NotificationHandler: TypeAlias = Callable[[Raw], None]
FrameObserver: TypeAlias = Callable[[str, bytes], None]


class _CancelParams(msgspec.Struct, rename="camel"):
    request_id: Raw


class Dispatcher:
    """Enter it inside the transport's context, then `run`.

    Teardown is the owner's: `run` returns at the end of the stream (or after `stop`) with handlers still running.
    The owner brings them to rest, waits with `settled`, and leaves the context, which cancels what is left and
    answers it with "cancelled". The transport flushes those answers when it is left after that.

    `on_frame` sees each line ("in") and each frame ("out") as bytes. `diagnostics` gets what handlers raise outside
    the BridgeError family, whose text never reaches the wire.
    """

    def __init__(
        self,
        transport: Transport,
        requests: Mapping[str, RequestHandler],
        notifications: Mapping[str, NotificationHandler],
        *,
        on_frame: FrameObserver | None = None,
        diagnostics: Diagnostics | None = None,
    ) -> None:
        self._transport = transport
        self._requests = requests
        self._notifications = {**notifications, "$/cancel_request": self._cancel_request}
        self._on_frame = on_frame
        self._diagnostics = diagnostics
        self._send = transport.send if on_frame is None else self._send_observed
        self._outgoing = Outgoing(self._send)
        self._in_flight: dict[IdKey, RequestContext] = {}
        self._answered = Wakeup()

    @property
    def in_flight(self) -> tuple[RequestContext, ...]:
        """The peer's requests that have no answer yet, oldest first."""
        return tuple(self._in_flight.values())

    def notify(self, method: str, params: object) -> None:
        """Send a notification.

        Raises:
            ConnectionClosed: the transport was closed by this side.
        """
        self._send(encode_notification(method, params))

    async def request(self, method: str, params: object, *, timeout: float | None) -> Raw:
        """Ask the peer. `timeout` is in seconds. A caller that gives up (timeout, cancellation) has the peer told
        with `$/cancel_request`, and the late answer is dropped.

        Raises:
            PeerError: the peer answered with an error.
            RequestTimedOut: it did not answer in time.
            ConnectionClosed: the stream ended, before or after sending.
            ParseError, InvalidRequest: the answer came but was broken or over the cap.
        """
        return await self._outgoing.request(method, params, timeout=timeout)

    async def drain(self) -> None:
        """Back-pressure for producers of notifications; returns without a checkpoint when the peer keeps up."""
        await self._transport.drain()

    async def run(self) -> None:
        """Serve until the end of the stream or `stop`. Then our open requests get ConnectionClosed, and `drain`
        holds nobody up any more."""
        try:
            with self._reading:
                while not self._reading.cancel_called and (lines := await self._transport.receive()):
                    for line in lines:
                        self._take(line)
                    await self._transport.drain(_READ_PAUSE)
        finally:
            self._outgoing.close()
            self._transport.relax()

    def stop(self) -> None:
        """Read no further. Handlers go on and can still be answered."""
        self._reading.cancel()

    async def settled(self) -> None:
        """Wait until every request read so far is answered."""
        while self._in_flight:
            await self._answered.wait()

    async def __aenter__(self) -> Self:
        self._reading = anyio.CancelScope()
        self._tasks: TaskGroup = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._outgoing.close()
        self._tasks.cancel_scope.cancel()
        # Without the body's exception, which would come back wrapped in a group.
        await self._tasks.__aexit__(None, None, None)

    def _take(self, line: Line) -> None:
        if isinstance(line, bytes):
            if self._on_frame is not None:
                self._on_frame("in", line)
            message = parse(line)
        else:
            message = too_long(line)
        if isinstance(message, Request):
            self._take_request(message)
        elif isinstance(message, Notification):
            self._take_notification(message)
        elif isinstance(message, Response):
            self._outgoing.answer(message)
        else:
            self._take_invalid(message)

    def _take_request(self, request: Request) -> None:
        key = id_key(request.id)
        handler = self._requests.get(request.method)
        if handler is None and key is None and request.method in self._notifications:
            # Serializers that cannot leave out a member write notifications with "id": null.
            self._take_notification(Notification(request.method, request.params))
        elif key in self._in_flight:
            self._send_error(request.id, InvalidRequest("A request with this id is still in flight."))
        elif handler is None:
            self._send_error(request.id, MethodNotFound(request.method))
        else:
            context = self._in_flight[key] = RequestContext(request.id, request.method)
            try:
                work = handler(context, request.params)
            except Exception as failure:
                self._answer(context, key, self._failure(context, failure))
            else:
                self._tasks.start_soon(self._serve, context, key, work, name=request.method)

    async def _serve(self, context: RequestContext, key: IdKey, work: Awaitable[object]) -> None:
        frame: bytes | None = None
        try:
            with context._scope:
                frame = encode_result(context.id, await work)
        except Exception as failure:
            frame = self._failure(context, failure)
        except BaseException as end:
            # Teardown cancels from outside; the peer still gets its answer before the task ends.
            cancelled = isinstance(end, anyio.get_cancelled_exc_class())
            self._answer(context, key, self._failure(context, RequestCancelled() if cancelled else end))
            raise
        self._answer(context, key, frame or self._failure(context, RequestCancelled()))

    def _answer(self, context: RequestContext, key: IdKey, frame: bytes) -> None:
        del self._in_flight[key]
        self._answered.wake()
        self._send_if_open(frame)

    def _failure(self, context: RequestContext, failure: BaseException) -> bytes:
        if not isinstance(failure, BridgeError):
            self._note(context.method, failure)
        return _error_frame(context.id, failure)

    def _take_notification(self, notification: Notification) -> None:
        handler = self._notifications.get(notification.method)
        if handler is None:
            return
        try:
            handler(notification.params)
        except Exception as failure:
            self._note(notification.method, failure)

    def _take_invalid(self, line: Invalid) -> None:
        ours = line.kind != "request" and line.id is not None and self._outgoing.fail(line.id, line.error)
        if not ours and line.kind != "response":
            self._send_error(line.id, line.error)

    def _note(self, method: str, failure: BaseException) -> None:
        if self._diagnostics is not None:
            self._diagnostics.failure(f"{method} failed", failure)

    def _cancel_request(self, params: Raw) -> None:
        try:
            key = id_key(msgspec.json.decode(params, type=_CancelParams).request_id)
        except msgspec.DecodeError:
            return
        context = self._in_flight.get(key)
        if context is not None:
            context.cancel()

    def _send_error(self, id_raw: Raw | None, error: BridgeError) -> None:
        self._send_if_open(_error_frame(id_raw, error))

    def _send_if_open(self, frame: bytes) -> None:
        try:
            self._send(frame)
        except ConnectionClosed:
            return  # answers need no reader; only new traffic must learn that the transport is closed

    def _send_observed(self, frame: bytes) -> None:
        self._transport.send(frame)
        if self._on_frame is not None:
            self._on_frame("out", frame)


def _error_frame(id_raw: Raw | None, failure: BaseException) -> bytes:
    error = to_wire_error(failure)
    return encode_error(id_raw, error.code, error.message, error.data)

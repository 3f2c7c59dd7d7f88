"""The HTTP side of the scripted model endpoint: listening, one thread per connection, playing a reply step by step.

Owns bytes and sockets; which reply a request gets is decided by its owner, `openai_server`. Knows no ACP.
Invariant: a handler never waits without looking at the owner's `closing` and at whether its client is still there.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.support.replies import Close, Hold, Reply, Reset

__all__ = ["Exchange", "Listener", "Owner"]


@dataclass
class Exchange:
    """One recorded request and how its reply went. Times are `time.monotonic()` seconds."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON, or the bytes if it is none."""
    time: float
    sent: list[float] = field(default_factory=list)
    """When each event of the reply had been handed to the kernel."""
    finished: threading.Event = field(default_factory=threading.Event)
    """Set once the reply is over, whatever ended it."""
    disconnected: threading.Event = field(default_factory=threading.Event)
    """Set when the client left before the reply was over; noticed while holding and on writing."""


class Owner(Protocol):
    """What a handler asks of the server it works for."""

    models: list[str]
    closing: threading.Event

    def record(self, request: Exchange) -> None: ...
    def next_reply(self, request: Exchange) -> Reply: ...


class Listener(ThreadingHTTPServer):
    """Accepts on a free loopback port; `close` ends every connection and joins every thread."""

    request_queue_size = 64

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._handlers: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", 0), _Handler)
        # shutdown() returns after at most one poll interval; the default of 0.5 s would be paid by every test.
        self._accepting = threading.Thread(target=self.serve_forever, args=(0.01,), name="openai-server", daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        self._accepting.start()

    def close(self, *, timeout: float) -> None:
        """Stop, break open connections, join within `timeout` seconds per thread; AssertionError if one stays."""
        self.shutdown()
        self.server_close()
        for connection in self._handlers.values():
            _shut(connection)
        threads = [self._accepting, *self._handlers]
        for thread in threads:
            thread.join(timeout)
        assert not any(thread.is_alive() for thread in threads), "a thread of the model endpoint did not end"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Registered before it starts: `close` must find a connection that was accepted a moment ago."""
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._handlers[thread] = request
        thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests; anything else should be seen."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # closed by its handler already


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Listener

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the record is the owner's."""

    def do_GET(self) -> None:
        request = self._record(b"")
        owner = self.server.owner
        if request.path == "/v1/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in owner.models]
            self._send_whole(200, json.dumps({"object": "list", "data": data}).encode())
        else:
            self._send_error_reply(Reply.status(404, f"no such path: {request.path}"))
        request.finished.set()

    def do_POST(self) -> None:
        request = self._record(self.rfile.read(int(self.headers.get("content-length", "0"))))
        try:
            self._answer(request)
        except OSError:
            self.close_connection = True
            if not self.server.owner.closing.is_set():
                request.disconnected.set()
        finally:
            request.finished.set()

    def _record(self, body: bytes) -> Exchange:
        try:
            decoded: Any = json.loads(body) if body else None
        except ValueError:
            decoded = body
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Exchange(self.command, self.path, headers, decoded, time.monotonic())
        self.server.owner.record(request)
        return request

    def _answer(self, request: Exchange) -> None:
        if request.path != "/v1/chat/completions":
            return self._send_error_reply(Reply.status(404, f"no such path: {request.path}"))
        if not isinstance(request.body, dict) or request.body.get("stream") is not True:
            return self._send_error_reply(Reply.status(400, "this endpoint only streams"))
        reply = self.server.owner.next_reply(request)
        if reply.before_headers is not None:
            self._hold(reply.before_headers)
        if reply.error is not None:
            return self._send_error_reply(reply)
        if reply.body is not None:
            return self._send_whole(reply.status_code, reply.body, dict(reply.headers))
        return self._stream(reply, request)

    def _send_error_reply(self, reply: Reply) -> None:
        self._send_whole(reply.status_code, json.dumps(reply.error).encode(), dict(reply.headers))

    def _send_whole(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply, request: Exchange) -> None:
        self.send_response(reply.status_code)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        due = time.monotonic()
        for step in reply.steps(str(request.body.get("model"))):
            if isinstance(step, Reset | Close):
                return self._break_off(reset=isinstance(step, Reset))
            if isinstance(step, Hold):
                self._hold(step)
                due = time.monotonic()
                continue
            if reply.pace_s and request.sent:
                due += reply.pace_s
                self.server.owner.closing.wait(max(0.0, due - time.monotonic()))
            request.sent.append(time.monotonic())  # before the write: whoever has received it finds it counted
            self.wfile.write(b"%x\r\n%b\r\n" % (len(step), step))
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _hold(self, hold: Hold) -> None:
        """Returns when released; raises OSError when the client has gone or the server closes."""
        gate = hold.gate or threading.Event()
        while not gate.wait(0.01):
            if self.server.owner.closing.is_set() or self._client_has_gone():
                raise ConnectionAbortedError

    def _client_has_gone(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def _break_off(self, *, reset: bool) -> None:
        self.close_connection = True
        if reset:
            # Linger 0 makes close send RST. The server's own shutdown would send FIN first, which reads as an
            # orderly end, so the descriptor is taken from it and closed here.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())

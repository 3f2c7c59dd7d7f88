"""A real OpenAI-compatible model endpoint on loopback that plays scripted replies, one per chat request.

Owns the script and the record of every request. Sockets are `openai_http`'s business, replies `replies`'.
Invariant: leaving the `with` block ends within a bounded time whatever a reply waits for, and a chat request that
nobody scripted fails the test there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType

import anyio.to_thread

from tests.support.openai_http import Exchange, Listener
from tests.support.replies import Reply

__all__ = ["Exchange", "OpenAIServer", "Reply", "Script"]

JOIN_S = 5.0  # a handler that outlives its socket by this long is a bug here, not a slow machine

Script = Reply | Callable[[Exchange], Reply]


class OpenAIServer:
    """Serve `POST /v1/chat/completions` (streaming) and `GET /v1/models` from a script.

    `script` holds one reply per chat request; a callable gets the request and returns the reply. With `fallback`,
    requests beyond the script get that; without, they get a 400 and the `with` block raises AssertionError.
    """

    def __init__(
        self,
        script: Sequence[Script] = (),
        *,
        fallback: Script | None = None,
        models: Sequence[str] = ("test-model",),
    ) -> None:
        self.models = list(models)
        self.requests: list[Exchange] = []
        self.closing = threading.Event()
        self._changed = threading.Condition()
        self._script = list(script)
        self._fallback = fallback
        self._unscripted = 0
        self._listener = Listener(self)

    @property
    def base_url(self) -> str:
        """What goes into OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}/v1"

    @property
    def chats(self) -> list[Exchange]:
        """The chat completion requests only."""
        return [request for request in list(self.requests) if request.path.endswith("/chat/completions")]

    @property
    def remaining(self) -> int:
        """Scripted replies that nobody asked for yet."""
        return len(self._script)

    def add(self, *replies: Script) -> None:
        """Append replies to the script while the server runs."""
        with self._changed:
            self._script.extend(replies)

    async def wait_for_chats(self, count: int, *, timeout: float = 10.0) -> Exchange:
        """Wait until `count` chat requests have arrived and return it. AssertionError after `timeout` s."""

        def arrived() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: len(self.chats) >= count or self.closing.is_set(), timeout)

        # abandon_on_cancel: the thread ends by itself, its own wait is bounded.
        await anyio.to_thread.run_sync(arrived, abandon_on_cancel=True)
        assert len(self.chats) >= count, f"{len(self.chats)} of {count} chat requests arrived within {timeout:g} s"
        return self.chats[count - 1]

    async def wait_for(self, event: threading.Event, *, timeout: float = 10.0) -> None:
        """Wait for an exchange's `finished` or `disconnected`. AssertionError after `timeout` s."""
        in_time = await anyio.to_thread.run_sync(event.wait, timeout, abandon_on_cancel=True)
        assert in_time, f"the model endpoint did not see it within {timeout:g} s"

    def record(self, request: Exchange) -> None:
        """Called by the HTTP side for every request."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def next_reply(self, request: Exchange) -> Reply:
        """Called by the HTTP side for a chat request."""
        with self._changed:
            script = self._script.pop(0) if self._script else self._fallback
            if script is None:
                self._unscripted += 1
                return Reply.status(400, "the test scripted no reply for this request")
        return script(request) if callable(script) else script

    def __enter__(self) -> OpenAIServer:
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        with self._changed:
            self._changed.notify_all()
        self._listener.close(timeout=JOIN_S)
        if error is None:
            assert not self._unscripted, f"{self._unscripted} chat requests came after the end of the script"

"""The official SDK's client: made when first needed, kept, closed once.

Owns: importing the SDK, the client's life, opening a reply, telling the SDK's errors apart. Must not know: chunks.
Invariant: nothing is imported or connected before the first request; a reply's connection is closed when the
block is left, however it is left, within `CLOSE_S`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

from acp_bridge.errors import ModelFailed
from acp_bridge.session.chunks import Failure
from acp_bridge_plugins.models_openai.failures import Endpoint, http_failure, transport_failure

__all__ = ["CLOSE_S", "OpenaiClient", "failure_of"]

CLOSE_S = 2.0
NO_KEY = "no-key"
"""Sent where a local endpoint needs none: the SDK insists on a value."""

# A compressed stream is held back by the compressor until a block is full.
_HEADERS = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
_LIBRARIES = {"openai", "httpx", "httpx2", "httpcore", "httpcore2", "h11", "h2", "anyio", "ssl", "zlib"}


class OpenaiClient:
    def __init__(self, api_key: str | None, base_url: str, *, read_timeout_s: float, max_retries: int) -> None:
        self._api_key = api_key or NO_KEY
        self._base_url = base_url
        self._read_timeout_s = read_timeout_s
        self._max_retries = max_retries
        self._sdk: tuple[Any, Any] | None = None
        self._making = anyio.Lock()

    @asynccontextmanager
    async def reply(self, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of one streaming reply. Raises ModelFailed when the SDK is missing, and the SDK's errors."""
        http = (await self._opened(body)).response
        pieces = http.aiter_bytes()
        try:
            yield pieces
        finally:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await pieces.aclose()
                await http.aclose()

    async def _opened(self, body: bytes) -> Any:
        # Not chat.completions.create: it walks every message three times, 50 ms for a long thread.
        client, stream_type = await self._made()
        return await client.post(
            "/chat/completions",
            cast_to=object,
            content=body,
            options={"headers": _HEADERS},
            stream=True,
            stream_cls=stream_type,
        )

    async def aclose(self) -> None:
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await sdk[0].close()

    async def _made(self) -> tuple[Any, Any]:
        async with self._making:
            if self._sdk is None:
                # In a thread, and left behind on a cancel: the import takes about a second.
                self._sdk = await anyio.to_thread.run_sync(self._make, abandon_on_cancel=True)
            return self._sdk

    def _make(self) -> tuple[Any, Any]:
        try:
            openai = importlib.import_module("openai")
        except ModuleNotFoundError as error:
            raise ModelFailed(
                "The package openai is not installed. Install acp-editor-bridge[openai].", "NO_ADAPTER"
            ) from error
        client = openai.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=self._max_retries,
            timeout=openai.Timeout(self._read_timeout_s, connect=5.0),
        )
        return client, openai.AsyncStream[object]


def failure_of(error: Exception, endpoint: Endpoint, *, started: bool) -> Failure:
    """The failure that an error of the SDK or the network stands for. Any other error is raised again."""
    if isinstance(error, ModelFailed):
        return Failure(error.message, error.code, error.status)
    if not (isinstance(error, OSError) or _libraries(error) & _LIBRARIES):
        raise error
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        headers = {name.lower(): value for name, value in error.response.headers.items()}  # type: ignore[attr-defined]  # the SDK's status errors carry it
        return http_failure(endpoint, status, error.body, headers, now=time.time())  # type: ignore[attr-defined]  # likewise
    cause = error.__cause__ or error
    timed_out = any("Timeout" in kind.__name__ for kind in (*type(error).__mro__, *type(cause).__mro__))
    reason = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return transport_failure(endpoint, reason, started=started, timed_out=timed_out)


def _libraries(error: Exception) -> set[str]:
    return {kind.__module__.partition(".")[0] for kind in type(error).__mro__}

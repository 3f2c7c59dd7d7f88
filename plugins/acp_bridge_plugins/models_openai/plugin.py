"""Models behind any OpenAI-compatible endpoint, as a model adapter (design §14, contracts §2.5).

Owns: what can be served, and the course of one request. Must not know: the log, tools, the bridge.
Invariant: nothing is sent before the first pull; each chunk is passed on when its bytes are there; every failure of
the provider is a terminal `Finish`; a cancel passes through and closes the connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import anyio

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.llm.model import MODELS, ModelRequest
from acp_bridge.session.chunks import Chunk, Failure, Finish, FinishReason
from acp_bridge_plugins.models_openai.client import OpenaiClient, failure_of
from acp_bridge_plugins.models_openai.decode import ReplyDecoder
from acp_bridge_plugins.models_openai.failures import OFFICIAL_URL, Endpoint, fault_failure
from acp_bridge_plugins.models_openai.request import encoded_body
from acp_bridge_plugins.models_openai.sse import SseReader

__all__ = ["ModelsOpenai"]

DRAIN_S = 0.1
"""How long the end of the body may lag behind the end of the reply before the connection is given up for reuse."""


class ModelsOpenai:
    """`api_key` and `base_url` are OPENAI_API_KEY and OPENAI_BASE_URL; without a URL it is OpenAI's own.

    `read_timeout_s` bounds the wait for each piece of a reply; local servers load a model before the first one.
    `max_retries` counts attempts after the first, all before the first byte of a reply.
    """

    name = "models_openai"
    needs: tuple[ServiceKey[Any], ...] = (MODELS,)
    provider = "openai"

    def __init__(
        self, api_key: str | None, base_url: str | None, *, read_timeout_s: float = 600.0, max_retries: int = 2
    ) -> None:
        self._key = (api_key or "").strip()
        self._base_url = (base_url or "").strip()
        self._client = OpenaiClient(
            self._key, self._base_url or OFFICIAL_URL, read_timeout_s=read_timeout_s, max_retries=max_retries
        )

    async def mount(self, context: Context) -> None:
        await context.effect("openai client", aclosing(self._client))
        await context.effect("model adapter openai", entered(context.require(MODELS).registered(self)))

    def unusable(self, model: str) -> str | None:
        if not self._key and not self._base_url:
            return "Set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint that needs no key."
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            return "OPENAI_API_KEY holds characters that no key has; set it again."
        parts = urlsplit(self._base_url or OFFICIAL_URL)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return "OPENAI_BASE_URL must be a URL such as http://localhost:8000/v1."
        return None if model else "ACP_BRIDGE_MODEL must name a model, as in openai/NAME."

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        endpoint = Endpoint(self._base_url or OFFICIAL_URL, request.header.config.model, self._key)
        if reason := self.unusable(endpoint.model):
            yield _failed(Failure(reason, "INVALID_CREDENTIAL"))
            return
        reader, decoder, opened = SseReader(), ReplyDecoder(), False
        try:
            async with self._client.reply(encoded_body(request, official=endpoint.official)) as pieces:
                opened = True
                async for piece in pieces:
                    for payload in reader.feed(piece):
                        for chunk in decoder.feed(payload):
                            yield chunk
                    if _over(reader, decoder):
                        break
                await _drain(pieces, decoder)
        except Exception as error:
            failure = failure_of(error, endpoint, started=opened)
            if not decoder.complete:
                yield _failed(failure)
                return
        for chunk in (*_tail(reader, decoder), *decoder.finish()):
            yield chunk
        if decoder.fault is not None:
            yield _failed(fault_failure(endpoint, decoder.fault))


def _over(reader: SseReader, decoder: ReplyDecoder) -> bool:
    if reader.garbage is not None:
        decoder.reject(reader.garbage)
    return decoder.done or decoder.fault is not None


def _tail(reader: SseReader, decoder: ReplyDecoder) -> list[Chunk]:
    """What a body held that ended in the middle of an event; after a good beginning that means it was cut."""
    if decoder.fault is not None or decoder.done:
        return []
    began = decoder.began
    chunks = [chunk for payload in reader.finish() for chunk in decoder.feed(payload)]
    if _over(reader, decoder) and began:
        decoder.forgive()
    return chunks


async def _drain(pieces: AsyncIterator[bytes], decoder: ReplyDecoder) -> None:
    """HTTP/1.1 keeps a connection only when its body was read to the end."""
    if decoder.done:
        with anyio.move_on_after(DRAIN_S):
            async for _ in pieces:
                pass


def _failed(failure: Failure) -> Finish:
    return Finish(FinishReason("error", failure))

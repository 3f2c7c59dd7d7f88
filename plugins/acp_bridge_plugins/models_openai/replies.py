"""The course of one model request: send, decode each piece as it comes, end with a `Finish`.

Owns: how a reply begins, ends and fails. Must not know: framing, sentences, settings.
Invariant: nothing is sent before the first pull; each chunk is passed on when its bytes are there; every failure of
the provider is a terminal `Finish`; a cancel passes through and closes the connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import anyio

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.chunks import Chunk, Failure, Finish, FinishReason
from acp_bridge_plugins.models_openai.client import OpenaiClient, failure_of
from acp_bridge_plugins.models_openai.decode import ReplyDecoder
from acp_bridge_plugins.models_openai.failures import Endpoint, fault_failure
from acp_bridge_plugins.models_openai.request import encoded_body
from acp_bridge_plugins.models_openai.sse import SseReader

__all__ = ["Replies"]

DRAIN_S = 0.1
"""How long the end of the body may lag behind the end of the reply before the connection is given up for reuse."""


class Replies:
    """Every reply of one endpoint, over one client."""

    def __init__(self, api_key: str, base_url: str, *, official: bool, read_timeout_s: float, max_retries: int) -> None:
        self._key = api_key
        self._base_url = base_url
        self._official = official
        self._client = OpenaiClient(api_key, base_url, read_timeout_s=read_timeout_s, max_retries=max_retries)

    async def stream(self, request: ModelRequest, unusable: str | None) -> AsyncGenerator[Chunk, None]:
        """`unusable` is why nothing can be sent, if so."""
        if unusable is not None:
            yield _failed(Failure(unusable, "INVALID_CREDENTIAL"))
            return
        endpoint = Endpoint(self._base_url, request.header.config.model, self._key, official=self._official)
        reader, decoder, opened = SseReader(), ReplyDecoder(), False
        try:
            async with self._client.reply(encoded_body(request, official=self._official)) as pieces:
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

    async def aclose(self) -> None:
        await self._client.aclose()


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

"""The model seam: what a request is, and who can serve it (design §6, contracts §2.5).

Owns: requests, routes, the adapter Protocol and the registry. Must not know: any vendor, HTTP.
Invariant: an adapter turns every failure of its provider into a terminal `Finish`; it sends nothing before the
first pull of its stream; two adapters never serve one provider name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from acp_bridge.errors import ModelFailed, PluginRejected
from acp_bridge.lifecycle.kernel import ServiceKey
from acp_bridge.session.chunks import Chunk
from acp_bridge.session.content import Message
from acp_bridge.session.events import ModelHeader
from acp_bridge.session.session import Session

__all__ = ["MODELS", "ModelAdapter", "ModelCall", "ModelRequest", "Models"]


class ModelRequest(Struct, frozen=True):
    """What is sent: the header as it was logged, and the messages derived from the log."""

    header: ModelHeader
    messages: tuple[Message, ...]


class ModelCall(Struct, frozen=True):
    """The subject of `llm_stream`. `session` is None for a request that belongs to no session."""

    request: ModelRequest
    session: Session | None = None


class ModelAdapter(Protocol):
    """Serves every model of one provider."""

    provider: str

    def unusable(self, model: str) -> str | None:
        """None when a request could be sent, else one sentence that says what to set. Cheap: no IO, no imports."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Chunks by contracts §1.6, `Finish` last. Cancelling the consumer closes the connection."""


class Models:
    def __init__(self) -> None:
        self._adapters: dict[str, ModelAdapter] = {}

    @contextmanager
    def registered(self, adapter: ModelAdapter) -> Iterator[None]:
        if adapter.provider in self._adapters:
            raise PluginRejected(adapter.provider, "model adapter", "another adapter serves this provider")
        self._adapters[adapter.provider] = adapter
        try:
            yield
        finally:
            del self._adapters[adapter.provider]

    def adapter(self, provider: str) -> ModelAdapter:
        """Raises ModelFailed(NO_ADAPTER)."""
        if provider not in self._adapters:
            known = ", ".join(sorted(self._adapters)) or "none"
            raise ModelFailed(f"No adapter serves the provider {provider!r} (known: {known}).", "NO_ADAPTER")
        return self._adapters[provider]

    def unusable(self, provider: str, model: str) -> str | None:
        """None when the route can be served, else one sentence that says what to do."""
        try:
            return self.adapter(provider).unusable(model)
        except ModelFailed as error:
            return str(error)


MODELS = ServiceKey[Models]("models")

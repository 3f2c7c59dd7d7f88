"""Models behind any OpenAI-compatible endpoint, as a model adapter (design §14, contracts §2.5).

Owns: the settings, and whether a route can be served. Must not know: the log, tools, the bridge.
Invariant: whatever only a request needs is imported with the first request: this module is on the start path.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.llm.model import MODELS, ModelRequest
from acp_bridge.session.chunks import Chunk

if TYPE_CHECKING:
    from acp_bridge_plugins.models_openai.replies import Replies

__all__ = ["ModelsOpenai"]

OFFICIAL_URL = "https://api.openai.com/v1"


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
        self._read_timeout_s = read_timeout_s
        self._max_retries = max_retries
        self._replies: Replies | None = None

    async def mount(self, context: Context) -> None:
        await context.effect("openai client", aclosing(self))
        await context.effect("model adapter openai", entered(context.require(MODELS).registered(self)))

    def unusable(self, model: str) -> str | None:
        if not self._key and not self._base_url:
            return "Set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint that needs no key."
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            return "OPENAI_API_KEY holds characters that no key has; set it again."
        scheme, _, host = self._base_url.partition("://")
        if self._base_url and (scheme not in ("http", "https") or not host.strip("/")):
            return "OPENAI_BASE_URL must be a URL such as http://localhost:8000/v1."
        return None if model else "ACP_BRIDGE_MODEL must name a model, as in openai/NAME."

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """A route that cannot be served gets a failure in words, as any other."""
        return self._made().stream(request, self.unusable(request.header.config.model))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._replies is not None:
            await self._replies.aclose()

    def _made(self) -> Replies:
        if self._replies is None:
            from acp_bridge_plugins.models_openai.replies import Replies

            self._replies = Replies(
                self._key,
                self._base_url or OFFICIAL_URL,
                official=self._base_url.rstrip("/") in ("", OFFICIAL_URL),
                read_timeout_s=self._read_timeout_s,
                max_retries=self._max_retries,
            )
        return self._replies

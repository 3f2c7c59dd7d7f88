"""Models behind any OpenAI-compatible endpoint, as a model adapter (design §14, contracts §2.5).

Owns: the settings, and whether a route can be served. Must not know: the log, tools, the bridge.
Invariant: whatever only a request needs is imported with the first request: this module is on the start path.
Each request uses the credentials of its moment: a login in another process counts without a restart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.llm.model import MODELS, ModelRequest
from acp_bridge.session.chunks import Chunk

if TYPE_CHECKING:
    from acp_bridge_plugins.models_openai.replies import Replies

__all__ = ["ModelsOpenai"]

OFFICIAL_URL = "https://api.openai.com/v1"


Credentials = tuple[str | None, str | None]
"""OPENAI_API_KEY and OPENAI_BASE_URL; without a URL it is OpenAI's own."""


class ModelsOpenai:
    """`credentials` is asked again for every request.

    `read_timeout_s` bounds the wait for each piece of a reply; local servers load a model before the first one.
    `max_retries` counts attempts after the first, all before the first byte of a reply.
    """

    name = "models_openai"
    needs: tuple[ServiceKey[Any], ...] = (MODELS,)
    provider = "openai"

    def __init__(
        self, credentials: Callable[[], Credentials], *, read_timeout_s: float = 600.0, max_retries: int = 2
    ) -> None:
        self._credentials = credentials
        self._read_timeout_s = read_timeout_s
        self._max_retries = max_retries
        # One client for each credentials there were: an old one may still be receiving another session's reply.
        self._replies: dict[tuple[str, str], Replies] = {}

    async def mount(self, context: Context) -> None:
        await context.effect("openai client", aclosing(self))
        await context.effect("model adapter openai", entered(context.require(MODELS).registered(self)))

    def unusable(self, model: str) -> str | None:
        key, base_url = self._now()
        if not key and not base_url:
            return "Set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint that needs no key."
        if not (key.isascii() and key.isprintable()) or " " in key:
            return "OPENAI_API_KEY holds characters that no key has; set it again."
        scheme, _, host = base_url.partition("://")
        if base_url and (scheme not in ("http", "https") or not host.strip("/")):
            return "OPENAI_BASE_URL must be a URL such as http://localhost:8000/v1."
        return None if model else "ACP_BRIDGE_MODEL must name a model, as in openai/NAME."

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """A route that cannot be served gets a failure in words, as any other."""
        return self._made(*self._now()).stream(request, self.unusable(request.header.config.model))

    async def aclose(self) -> None:
        """Close the connections."""
        for replies in self._replies.values():
            await replies.aclose()

    def _now(self) -> tuple[str, str]:
        key, base_url = self._credentials()
        return (key or "").strip(), (base_url or "").strip()

    def _made(self, key: str, base_url: str) -> Replies:
        if (key, base_url) not in self._replies:
            from acp_bridge_plugins.models_openai.replies import Replies

            self._replies[key, base_url] = Replies(
                key,
                base_url or OFFICIAL_URL,
                official=base_url.rstrip("/") in ("", OFFICIAL_URL),
                read_timeout_s=self._read_timeout_s,
                max_retries=self._max_retries,
            )
        return self._replies[key, base_url]

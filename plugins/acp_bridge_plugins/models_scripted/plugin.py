"""The scripted model: plays a screenplay file instead of asking a provider (design §14, docs/screenplays.md).

Owns: the adapter. Must not know: the log, tools, the bridge.
Invariant: holds no state between requests, and imports what playing needs with the first route that is its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.llm.model import MODELS, ModelRequest
from acp_bridge.session.chunks import Chunk

__all__ = ["ModelsScripted"]


class ModelsScripted:
    """The model part of the route is the file, absolute or from the process's working directory.

    `file_wait_s` bounds a `wait_for_file`.
    """

    name = "models_scripted"
    needs: tuple[ServiceKey[Any], ...] = (MODELS,)
    provider = "scripted"

    def __init__(self, *, file_wait_s: float = 60.0) -> None:
        self._file_wait_s = file_wait_s

    async def mount(self, context: Context) -> None:
        await context.effect("model adapter scripted", entered(context.require(MODELS).registered(self)))

    def unusable(self, model: str) -> str | None:
        """Reads the file, unlike other adapters: it is small, and nothing else could say what is wrong with it."""
        from acp_bridge_plugins.models_scripted.playing import read

        found = read(model)
        return found if isinstance(found, str) else None

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Reads the file again: it may be edited between requests."""
        from acp_bridge_plugins.models_scripted.playing import play

        return play(request, self._file_wait_s)

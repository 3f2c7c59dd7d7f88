"""The scripted model: plays a screenplay file instead of asking a provider (design §14, docs/screenplays.md).

Owns: reading the file, waiting. Must not know: the log, tools, the bridge.
Invariant: holds no state between requests; what is wrong with the file or the request becomes a failure, never an
exception.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.llm.model import MODELS, ModelRequest
from acp_bridge.session.chunks import Chunk, Failure, Finish, FinishReason
from acp_bridge_plugins.models_scripted.screenplay import (
    Screenplay,
    WaitFile,
    WaitMs,
    missing,
    moves,
    parse,
    place_of,
)

__all__ = ["ModelsScripted"]

SIZE_LIMIT = 4 * 1024 * 1024
POLL_S = 0.01


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
        read = _read(model)
        return read if isinstance(read, str) else None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        path = request.header.config.model
        screenplay = _read(path)
        if isinstance(screenplay, str):
            yield _failed(screenplay)
            return
        turn, number = place_of(request)
        step = screenplay.step(turn, number)
        if lacking := missing(step, request):
            quoted = ", ".join(repr(text) for text in lacking)
            yield _failed(f"Screenplay {path}, turn {turn}, step {number}: the request lacks {quoted}.")
            return
        for move in moves(step, turn, number):
            if isinstance(move, WaitMs):
                await anyio.sleep(move.ms / 1000)
            elif not isinstance(move, WaitFile):
                yield move
            elif not await self._appeared(Path(path).parent / move.path):
                yield _failed(f"Screenplay {path}: {move.path} did not appear within {self._file_wait_s:g} s.")
                return

    async def _appeared(self, path: Path) -> bool:
        # Polled: this waits for a test or a demo, which create one file and are gone; a watcher costs more to start.
        with anyio.move_on_after(self._file_wait_s):
            while not await anyio.Path(path).exists():  # noqa: ASYNC110  # another process creates it
                await anyio.sleep(POLL_S)
            return True
        return False


def _read(model: str) -> Screenplay | str:
    """The screenplay, or one sentence that says why there is none."""
    if not model:
        return "ACP_BRIDGE_MODEL=scripted/FILE must name a screenplay file."
    path = Path(model)
    try:
        if not path.is_file() or path.stat().st_size > SIZE_LIMIT:
            return f"The screenplay {model} is no file of at most {SIZE_LIMIT // 1024**2} MiB; check ACP_BRIDGE_MODEL."
        return parse(path.read_bytes(), is_json=path.suffix == ".json")
    except (OSError, ValueError) as error:
        return f"The screenplay {model} cannot be read: {error}."


def _failed(sentence: str) -> Finish:
    return Finish(FinishReason("error", Failure(sentence, "SCREENPLAY")))

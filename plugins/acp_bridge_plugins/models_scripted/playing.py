"""Reading a screenplay and playing one step of it.

Owns: the file, the waits. Must not know: the format, the adapter.
Invariant: what is wrong with the file or the request becomes a failure in words, never an exception.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from acp_bridge.llm.model import ModelRequest
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

__all__ = ["play", "read"]

SIZE_LIMIT = 4 * 1024 * 1024
POLL_S = 0.01


async def play(request: ModelRequest, file_wait_s: float) -> AsyncGenerator[Chunk, None]:
    """The reply to `request`, at the pace of the file."""
    path = request.header.config.model
    screenplay = read(path)
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
        elif not await _appeared(Path(path).parent / move.path, file_wait_s):
            yield _failed(f"Screenplay {path}: {move.path} did not appear within {file_wait_s:g} s.")
            return


async def _appeared(path: Path, wait_s: float) -> bool:
    # Polled: this waits for a test or a demo, which create one file and are gone; a watcher costs more to start.
    with anyio.move_on_after(wait_s):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110  # another process creates it
            await anyio.sleep(POLL_S)
        return True
    return False


def read(model: str) -> Screenplay | str:
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

"""A prompt that runs while the test does something else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from acp import RequestError
from acp.schema import PromptResponse

__all__ = ["Turn"]


class Turn:
    """Started by `Editor.start_prompt`. `response` or `error` is set once `ended` is."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.response: PromptResponse | None = None
        self.error: RequestError | ConnectionError | None = None

    async def run(self, prompt: Callable[[], Awaitable[PromptResponse]]) -> None:
        """Run the prompt to its end; a JSON-RPC error or a lost connection is kept, not raised."""
        try:
            self.response = await prompt()
        except (RequestError, OSError) as error:
            self.error = error if isinstance(error, RequestError) else ConnectionError(str(error))
        finally:
            self.ended.set()

    async def result(self, *, timeout: float = 10.0) -> PromptResponse:
        """Wait for the end. Raises RequestError, ConnectionError if the agent went away, TimeoutError."""
        with anyio.fail_after(timeout):
            await self.ended.wait()
        if self.error is not None:
            raise self.error
        assert self.response is not None, "the turn was cancelled together with the editor"
        return self.response

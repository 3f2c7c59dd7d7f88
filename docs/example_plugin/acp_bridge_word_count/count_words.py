"""The tool `count_words`: how many words a text file holds.

Owns: the question and the answer. Must not know: who allows the call. Invariant: it reads exactly the place that was
resolved and shown before anybody was asked, and nothing that belongs to the agent itself.
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from acp_bridge.errors import ToolFailed
from acp_bridge.sandbox.beneath import read_file
from acp_bridge.sandbox.paths import Place, locate, refuse_read
from acp_bridge.session.events import Presentation
from acp_bridge.tools.arguments import absolute, spelled, text
from acp_bridge.tools.tool import Access, Execution, Prepared, ToolOutcome
from acp_bridge.tools.visible import visible_line

__all__ = ["CountWords"]

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, absolute or relative to the working directory."}
    },
    "required": ["path"],
}


class CountWords:
    name = "count_words"
    description = "Count the words of a text file as it is on disk."
    parameters = _PARAMETERS

    def __init__(self, private_dirs: tuple[str, ...], min_length: int = 1) -> None:
        self._private = private_dirs
        self._min_length = min_length

    def present(self, arguments: Any, cwd: str) -> Presentation:
        # Before the arguments were validated: they may be anything.
        path = text(arguments, "path")
        if not path:
            return Presentation("Count words", "read")
        where = absolute(path, cwd)
        return Presentation(f"Count words of {spelled(path, cwd)}", "read", ((where, 0),) if where else ())

    def concurrency_safe(self, arguments: Any) -> bool:
        return True

    async def prepare(self, execution: Execution) -> Prepared:
        session = execution.session
        place = await anyio.to_thread.run_sync(locate, execution.arguments["path"], session.roots)
        refuse_read(place, self._private)
        title = f"Count words of {spelled(place.shown, session.cwd)}"
        # The access is what policy decides on: reading outside the session's directories is asked about.
        return Prepared(Presentation(title, "read", ((place.shown, 0),)), Access("read", (place.path,)), place)

    async def execute(self, execution: Execution) -> ToolOutcome:
        place: Place = execution.prepared.plan  # type: ignore[union-attr]  # the pipeline always prepares first
        count = await anyio.to_thread.run_sync(self._count, place)
        return ToolOutcome(f"{count} words", meta={"path": place.shown, "words": count})

    def _count(self, place: Place) -> int:
        name = visible_line(place.shown)
        data = read_file(place.path, name)
        if data is None:
            raise ToolFailed(f"{name} does not exist")
        try:
            words = data.decode("utf-8").split()
        except UnicodeDecodeError as error:
            raise ToolFailed(f"{name} is not UTF-8 text") from error
        return sum(len(word) >= self._min_length for word in words)

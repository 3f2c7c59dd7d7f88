"""Which tools there are.

Owns: registration by unique name, schemas for the model. Must not know any tool.
Invariant: the order of tools is the order of registration, so that requests stay byte-stable for provider caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from acp_bridge.errors import PluginRejected
from acp_bridge.lifecycle.kernel import ServiceKey
from acp_bridge.session.events import Presentation, ToolSchema
from acp_bridge.tools.arguments import clipped
from acp_bridge.tools.schema import unsupported
from acp_bridge.tools.tool import Tool
from acp_bridge.tools.visible import visible_line

__all__ = ["TOOLS", "Tools"]

# Characters of an unknown tool's name in a title. Providers allow 64 for a known one's.
LONGEST_NAME = 200


class Tools:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    @contextmanager
    def registered(self, tool: Tool) -> Iterator[None]:
        """Raises PluginRejected for a taken name or a schema beyond the subset (contracts §3.2)."""
        if tool.name in self._tools:
            raise PluginRejected(tool.name, "tool name", "another tool has it")
        complaint = unsupported(tool.parameters)
        if complaint:
            raise PluginRejected(tool.name, "tool parameters", complaint)
        self._tools[tool.name] = tool
        try:
            yield
        finally:
            del self._tools[tool.name]

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def present(self, name: str, arguments: Any, cwd: str) -> Presentation:
        """What a person sees of a call, also of one to a tool that does not exist. Never raises."""
        tool = self._tools.get(name)
        if tool is None:
            return Presentation(f"Unknown tool {clipped(visible_line(name), LONGEST_NAME)}", "other")
        return tool.present(arguments, cwd)

    def schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(ToolSchema(tool.name, tool.description, tool.parameters) for tool in self._tools.values())


TOOLS = ServiceKey[Tools]("tools")

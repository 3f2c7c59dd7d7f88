"""Offers `search`.

Owns: registration. Must not know: other plugins. Invariant: the tool is gone when the plugin is unmounted.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.tools.registry import TOOLS
from acp_bridge_plugins.tools_search.search import Search

__all__ = ["ToolsSearch"]


class ToolsSearch:
    """`private_dirs`: directories of the agent itself (state, configuration) that no tool looks into."""

    name = "tools_search"
    needs: tuple[ServiceKey[Any], ...] = (TOOLS,)

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private_dirs = private_dirs

    async def mount(self, context: Context) -> None:
        tool = Search(self._private_dirs)
        await context.effect(f"tool {tool.name}", entered(context.require(TOOLS).registered(tool)))

"""Offers `read_file`, `write_file`, `edit_file` and `list_files`.

Owns: registration. Must not know: other plugins. Invariant: the tools are gone when the plugin is unmounted.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.tools.registry import TOOLS
from acp_bridge.tools.tool import Tool
from acp_bridge_plugins.tools_files.edit_file import EditFile
from acp_bridge_plugins.tools_files.list_files import ListFiles
from acp_bridge_plugins.tools_files.read_file import ReadFile
from acp_bridge_plugins.tools_files.write_file import WriteFile

__all__ = ["ToolsFiles"]


class ToolsFiles:
    """`private_dirs`: directories of the agent itself (state, configuration) that no tool touches in any mode."""

    name = "tools_files"
    needs: tuple[ServiceKey[Any], ...] = (TOOLS,)

    def __init__(self, private_dirs: tuple[str, ...] = ()) -> None:
        self._private_dirs = private_dirs

    async def mount(self, context: Context) -> None:
        kinds = (ReadFile, WriteFile, EditFile, ListFiles)
        tools: list[Tool] = [kind(self._private_dirs) for kind in kinds]
        for tool in tools:
            await context.effect(f"tool {tool.name}", entered(context.require(TOOLS).registered(tool)))

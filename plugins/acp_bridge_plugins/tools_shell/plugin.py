"""Offers `run_command`.

Owns: registration. Must not know: which plugin provides the sandbox: it is looked up for each command, so that one
that is missing or came late is seen as it is. Invariant: the tool is gone when the plugin is unmounted.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.sandbox.sandbox import SANDBOX
from acp_bridge.tools.registry import TOOLS
from acp_bridge_plugins.tools_shell.settings import ShellSettings
from acp_bridge_plugins.tools_shell.tool import RunCommand

__all__ = ["ToolsShell"]


class ToolsShell:
    name = "tools_shell"
    needs: tuple[ServiceKey[Any], ...] = (TOOLS,)

    def __init__(self, settings: ShellSettings | None = None) -> None:
        self._settings = settings or ShellSettings()

    async def mount(self, context: Context) -> None:
        tool = RunCommand(lambda: context.get(SANDBOX), self._settings)
        await context.effect(f"tool {tool.name}", entered(context.require(TOOLS).registered(tool)))

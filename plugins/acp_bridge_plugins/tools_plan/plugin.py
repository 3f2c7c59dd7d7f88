"""Offers `update_plan`.

Owns: registration. Must not know: other plugins. Invariant: the tool is gone when the plugin is unmounted.
"""

from __future__ import annotations

from typing import Any

from acp_bridge.lifecycle.kernel import Context, ServiceKey, entered
from acp_bridge.tools.registry import TOOLS
from acp_bridge_plugins.tools_plan.update_plan import UpdatePlan

__all__ = ["ToolsPlan"]


class ToolsPlan:
    name = "tools_plan"
    needs: tuple[ServiceKey[Any], ...] = (TOOLS,)

    async def mount(self, context: Context) -> None:
        tool = UpdatePlan()
        await context.effect(f"tool {tool.name}", entered(context.require(TOOLS).registered(tool)))

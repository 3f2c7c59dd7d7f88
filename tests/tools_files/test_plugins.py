"""The plugins offer their tools while they are mounted, and no longer."""

from __future__ import annotations

import pytest

from acp_bridge import hookspecs
from acp_bridge.errors import PluginRejected
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel, Plugin
from acp_bridge.tools.registry import TOOLS, Tools
from acp_bridge_plugins.tools_files.plugin import ToolsFiles
from acp_bridge_plugins.tools_plan.plugin import ToolsPlan
from acp_bridge_plugins.tools_search.plugin import ToolsSearch

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("plugin", "names"),
    [
        (ToolsFiles(), ["read_file", "write_file", "edit_file", "list_files"]),
        (ToolsSearch(), ["search"]),
        (ToolsPlan(), ["update_plan"]),
    ],
)
async def test_tools_are_registered_in_order_and_gone_after(plugin: Plugin, names: list[str]) -> None:
    kernel, tools = Kernel(hookspecs, Silent()), Tools()
    async with kernel.providing(TOOLS, tools, "test"):
        async with kernel.mounted(plugin):
            assert [schema.name for schema in tools.schemas()] == names
        assert tools.schemas() == ()


@pytest.mark.parametrize("plugin", [ToolsFiles(), ToolsSearch(), ToolsPlan()])
async def test_without_a_registry_nothing_is_mounted(plugin: Plugin) -> None:
    with pytest.raises(PluginRejected, match="need tools"):
        async with Kernel(hookspecs, Silent()).mounted(plugin):
            pass


async def test_the_private_directories_reach_every_tool() -> None:
    kernel, tools = Kernel(hookspecs, Silent()), Tools()
    files, search = ToolsFiles(("/private",)), ToolsSearch(("/private",))
    async with kernel.providing(TOOLS, tools, "test"), kernel.mounted(files), kernel.mounted(search):
        for schema in tools.schemas():
            assert getattr(tools.get(schema.name), "_private") == ("/private",)  # noqa: B009  # not in the Protocol

"""Building the product from its parts: the one composite effect.

Owns: mounting in the order of the tables. Must not know: argv, descriptors, what a plugin does.
Invariant: one composite effect owns plugins, persistence, checkpoint policy and bridge, in that order; undone in
reverse, so agents come to rest and their real endings are flushed before the policy and then storage go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from acp_bridge.lifecycle.kernel import Mount, Plugin
from acp_bridge.lifecycle.scope import Part, Scope, open_scope
from acp_bridge.llm.model import MODELS
from acp_bridge.tools.registry import TOOLS
from acp_bridge_composition.order import DURABLE_ORDER, PLUGINS
from acp_bridge_composition.workshop import Workshop

__all__ = ["UNDO_SECONDS", "composed"]

# Seconds for each part. Inside the bridge the agents have REST_SECONDS (workshop.py), a running command's grace period
# included; what is nested has less than what holds it, so that the innermost is told apart from its holders.
UNDO_SECONDS = 1.8
PLUGIN_SECONDS = 1.6


async def composed(shop: Workshop, root: Scope) -> None:
    """Mount the product into `root` as one composite effect."""
    parts: list[Part] = [("plugins", lambda: _plugins(shop))]
    parts += [(name, _mounted(shop, make)) for name, make in DURABLE_ORDER]
    await root.composite("product", parts, undo_seconds=UNDO_SECONDS)


def _mounted(shop: Workshop, make: Callable[[Workshop], Plugin]) -> Callable[[], AbstractAsyncContextManager[Mount]]:
    return lambda: shop.kernel.mounted(make(shop), undo_seconds=PLUGIN_SECONDS)


@asynccontextmanager
async def _plugins(shop: Workshop) -> AsyncIterator[Scope]:
    """The registries, then every plugin of the first table as a sibling."""
    kernel = shop.kernel
    async with (
        kernel.providing(MODELS, shop.models, "composition"),
        kernel.providing(TOOLS, shop.tools, "composition"),
        open_scope("plugins", undo_seconds=PLUGIN_SECONDS) as scope,
    ):
        for make in PLUGINS:
            plugin = make(shop)
            await scope.effect(plugin.name, kernel.mounted(plugin, undo_seconds=PLUGIN_SECONDS))
        yield scope

"""Building the product from its parts: the one composite effect.

Owns: mounting in the order of the tables. Must not know: argv, descriptors, what a plugin does.
Invariant: one composite effect owns plugins, persistence, checkpoint policy and bridge, in that order; undone in
reverse, so agents come to rest and their real endings are flushed before the policy and then storage go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec.structs import replace

from acp_bridge.errors import SettingsError
from acp_bridge.lifecycle.kernel import Mount
from acp_bridge.lifecycle.scope import Part, Scope, open_scope
from acp_bridge.llm.model import MODELS
from acp_bridge.sandbox.paths import PRIVATE_DIRS
from acp_bridge.tools.registry import TOOLS
from acp_bridge_composition.choices import Chosen, chosen, durable
from acp_bridge_composition.reloading import Reloading
from acp_bridge_composition.siblings import Siblings
from acp_bridge_composition.workshop import Workshop

__all__ = ["chosen_plugins", "composed"]


async def composed(shop: Workshop, root: Scope, *, front: bool = True, follow: bool = False) -> None:
    """Mount the product into `root` as one composite effect; without its `front`, nobody can talk to it.

    `follow`: the settings are followed while they change, and people are told through the ACP bridge.
    """
    plugins, composite = _choices(shop)
    siblings = Siblings(shop)
    parts: list[Part] = [("plugins", lambda: _plugins(shop, siblings, plugins))]
    parts += [(part.name, _mounted(shop, part)) for part in (composite if front else composite[:-1])]
    if follow:
        # Last in, first out: nothing changes any more once the end has begun.
        parts.append(("settings watch", Reloading(shop, siblings, composite).watching))
    await root.composite("product", parts, undo_seconds=shop.deadlines.part)


def chosen_plugins(shop: Workshop) -> tuple[Chosen, ...]:
    """Everything that `composed` mounts, in order."""
    plugins, composite = _choices(shop)
    return (*plugins, *composite)


def _choices(shop: Workshop) -> tuple[tuple[Chosen, ...], tuple[Chosen, ...]]:
    """With a config that cannot be followed the agent comes up with the default table, and takes no session."""
    try:
        return chosen(shop.settings), durable(shop.settings)
    except SettingsError as error:
        shop.trouble = _constant(str(error))
        default = replace(shop.settings, plugins={})
        return chosen(default), durable(default)


def _constant(text: str) -> Callable[[], str | None]:
    return lambda: text


def _mounted(shop: Workshop, part: Chosen) -> Callable[[], AbstractAsyncContextManager[Mount]]:
    return lambda: shop.kernel.mounted(part.make(shop), order=part.place, undo_seconds=shop.deadlines.effect)


@asynccontextmanager
async def _plugins(shop: Workshop, siblings: Siblings, wanted: tuple[Chosen, ...]) -> AsyncIterator[Scope]:
    """The registries, then every chosen plugin as a sibling."""
    kernel = shop.kernel
    async with (
        kernel.providing(MODELS, shop.models, "composition"),
        kernel.providing(TOOLS, shop.tools, "composition"),
        kernel.providing(PRIVATE_DIRS, shop.settings.private_dirs, "composition"),
        open_scope("plugins", undo_seconds=shop.deadlines.effect) as scope,
    ):
        siblings.scope = scope
        await siblings.become(wanted)
        shop.trouble = shop.trouble or siblings.trouble
        yield scope

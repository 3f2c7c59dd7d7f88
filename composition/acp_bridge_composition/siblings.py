"""The plugins that are mounted side by side, and how they become others.

Owns: what is mounted now, and the smallest way from there to what is wanted. Must not know: files, the table's reasons.
Invariant: what did not change is not touched; a plugin that cannot load is remembered with its reason and takes nobody
with it, unless it is one that the agent must not be without.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_bridge.lifecycle.kernel import Mount
from acp_bridge.lifecycle.scope import Scope
from acp_bridge.lifecycle.states import State
from acp_bridge_composition.choices import Chosen
from acp_bridge_composition.workshop import Workshop

__all__ = ["Siblings"]


class Siblings:
    """`scope` is where they hang, once it is open."""

    def __init__(self, shop: Workshop) -> None:
        self.scope: Scope | None = None
        self._shop = shop
        self._mounted: dict[str, tuple[Chosen, Mount]] = {}
        self._failures: dict[str, str] = {}

    async def become(self, wanted: Sequence[Chosen]) -> None:
        """Unload what is gone, has changed or has failed, last first; then load what is missing, in order.

        Raises what a plugin raised that the agent must not be without.
        """
        assert self.scope is not None, "plugins change only while their part of the composite is mounted"
        keep = {chosen.name: chosen for chosen in wanted}
        for name, (chosen, mount) in reversed(list(self._mounted.items())):
            if keep.get(name) != chosen or mount.state is State.FAILED:
                del self._mounted[name]
                await self.scope.detach(mount)
        self._failures.clear()
        for chosen in wanted:
            if chosen.name not in self._mounted:
                await self._load(chosen, self.scope)

    def differ_from(self, wanted: Sequence[Chosen]) -> bool:
        """Also when something that is wanted could not be loaded: it may load now."""
        failed = self._failures or any(mount.state is State.FAILED for _, mount in self._mounted.values())
        # By name: what was replaced once stands behind the others, and that is no difference.
        mounted = {name: chosen for name, (chosen, _) in self._mounted.items()}
        return bool(failed) or mounted != {chosen.name: chosen for chosen in wanted}

    def trouble(self) -> str | None:
        """A sentence about the first plugin that does not work, or None."""
        for name, reason in self._failures.items():
            return f"The plugin {name} could not be loaded: {reason} {_way_out(name)}"
        for name, (_, mount) in self._mounted.items():
            if mount.state is State.FAILED:
                return f"The plugin {name} failed: {mount.failure} {_way_out(name)}"
            if mount.state is State.PENDING and mount.waits_for:
                waiting = ", ".join(mount.waits_for)
                return f"The plugin {name} waits for {waiting}, which no plugin provides. {_way_out(name)}"
        return None

    async def _load(self, chosen: Chosen, scope: Scope) -> None:
        vital = chosen.entry.needed is not None
        try:
            plugin = chosen.make(self._shop)
            mount = await scope.effect(
                chosen.name,
                self._shop.kernel.mounted(
                    plugin,
                    vital=vital,
                    order=chosen.place,
                    undo_seconds=self._shop.deadlines.effect,
                    name=chosen.name,
                ),
            )
        except Exception as error:
            if vital:
                raise
            self._shop.kernel.diagnostics.failure(f"the plugin {chosen.name} could not be loaded", error)
            self._failures[chosen.name] = f"{type(error).__name__}: {error}".rstrip(".") + "."
        else:
            self._mounted[chosen.name] = (chosen, mount)


def _way_out(name: str) -> str:
    return f"Correct it, or set enabled = false under [plugins.{name}] in config.toml."

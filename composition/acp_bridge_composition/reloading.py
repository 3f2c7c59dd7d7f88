"""Hot reload: a changed config.toml becomes the smallest set of unloads and loads (design §4, contracts §10.7).

Owns: when the files are read again, and what a change waits for. Must not know: how a plugin is mounted.
Invariant: a file is validated whole before anything changes; a bad one changes nothing and says why; plugins change
only while no turn runs; the composite effect is never taken apart: its parts take new settings in place, or at the
next start, and people are told which.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from acp_bridge.errors import SettingsError
from acp_bridge.lifecycle.mount import Reconfigurable
from acp_bridge_composition.choices import Chosen, chosen, durable
from acp_bridge_composition.settings import settings_stamp
from acp_bridge_composition.siblings import Siblings
from acp_bridge_composition.workshop import Workshop

__all__ = ["Reloading"]

# Milliseconds without a further change after which a file counts as written, and the most to wait for that.
STABLE_MS, LONGEST_MS = 50, 1600


# What people are told about; a newer text takes the place of one that they have not seen yet.
TOPIC = "settings"


class Reloading:
    def __init__(self, shop: Workshop, siblings: Siblings, composite: tuple[Chosen, ...]) -> None:
        self._shop = shop
        self._siblings = siblings
        self._composite = composite
        self._stop = anyio.Event()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Follow the settings files while this is entered, from the first prompt on."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, name="settings watch")
            yield
            # First, because the watching thread looks at nothing else.
            self._stop.set()
            tasks.cancel_scope.cancel()

    async def reload(self) -> None:
        """Read the files now and become what they say. A mistake is told, and everything stays."""
        try:
            settings = self._shop.read_settings()
            wanted, composite = chosen(settings), durable(settings)
        except SettingsError as error:
            self._tell(f"The changed settings are not followed: {error}")
            return
        self._tell(None)
        changed = tuple(new for new in composite if new not in self._composite)
        if changed or self._siblings.differ_from(wanted):
            await self._become(wanted, changed)
            self._composite = composite
        self._shop.settings = settings
        self._shop.trouble = self._siblings.trouble
        self._shop.bridge.tell_options()
        self._shop.kernel.diagnostics.note("the changed settings are followed")

    async def _become(self, wanted: tuple[Chosen, ...], changed: tuple[Chosen, ...]) -> None:
        bridge = self._shop.bridge
        if bridge.busy:
            self._tell("The settings were changed. They count once no turn runs.")
            await bridge.when_idle()
        # Whole or not at all: given up half-way, a plugin would be gone although the settings name it.
        with anyio.CancelScope(shield=True):
            await self._siblings.become(wanted)
        late = [part.name for part in changed if not self._set(part)]
        trouble = self._siblings.trouble()
        if trouble is not None:
            self._tell(trouble)
        elif late:
            self._tell(f"The changed settings of {', '.join(late)} count from the next start of the agent.")

    def _set(self, part: Chosen) -> bool:
        """A part of the composite is never remounted under its sessions. Whether it took its settings as it stands."""
        plugin = self._shop.kernel.mounts[part.name].plugin
        if not isinstance(plugin, Reconfigurable):
            return False
        plugin.reconfigure(part.settings)
        return True

    def _tell(self, text: str | None) -> None:
        self._shop.bridge.tell(TOPIC, text)
        if text is not None:
            self._shop.kernel.diagnostics.note(text)

    async def _watch(self) -> None:
        await self._shop.in_use.wait()
        folder = self._shop.settings.config_dir
        stamp = self._shop.stamp
        # Tens of ms: in a thread, so that the answer on its way is not held up.
        await anyio.to_thread.run_sync(_imported)
        async for _ in _changes(folder, self._stop):
            now = settings_stamp(folder)
            if now != stamp:
                stamp = now
                await self.reload()


def _imported() -> None:
    import watchfiles

    del watchfiles


async def _changes(folder: Path, stop: anyio.Event) -> AsyncIterator[None]:
    """Something may have changed in `folder`; also when it, or what is above it, comes into being or goes."""
    from watchfiles import awatch

    while not stop.is_set():
        there = _nearest(folder)
        with suppress(FileNotFoundError):
            async for _ in awatch(
                there, recursive=False, debounce=LONGEST_MS, step=STABLE_MS, stop_event=stop, yield_on_timeout=True
            ):
                # On a timeout too: what happened before the watch stood is seen by the stamp alone.
                yield
                if _nearest(folder) != there:
                    break


def _nearest(folder: Path) -> Path:
    while not folder.is_dir():
        folder = folder.parent
    return folder

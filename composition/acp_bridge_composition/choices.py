"""The user's choice of plugins over the default table: `[plugins.NAME]` in config.toml (docs/plugins.md).

Owns: turning both into one validated list. Must not know: how plugins are mounted.
Invariant: pure but for reading installed entry points, and those only when the config names a plugin that is not ours;
everything is validated before anything is mounted; errors name file, key and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from acp_bridge.errors import SettingsError
from acp_bridge.lifecycle.kernel import Plugin
from acp_bridge_composition import order
from acp_bridge_composition.order import Entry, NoSettings
from acp_bridge_composition.settings import CONFIG, PluginChoice, Settings
from acp_bridge_composition.workshop import Workshop

__all__ = ["GROUP", "Chosen", "chosen", "durable"]

GROUP = "acp_bridge.plugins"
# Places of the default table are this far apart, so that a user's plugin has one between two of them for ever.
SPACING = 1000


class Chosen(Struct, frozen=True):
    """A plugin as it shall be mounted. Equal ones need no reload. `place` orders hooks."""

    entry: Entry
    place: int
    settings: Struct

    @property
    def name(self) -> str:
        return self.entry.name

    def make(self, shop: Workshop) -> Plugin:
        return self.entry.make(shop, self.settings)


def chosen(settings: Settings) -> tuple[Chosen, ...]:
    """The plugins that are mounted as siblings, in order. Raises SettingsError."""
    _check_names(settings)
    own = [
        Chosen(_entry(entry, settings), number * SPACING, _settings(entry, settings))
        for number, entry in enumerate(order.PLUGINS, 1)
        if _enabled(entry, settings)
    ]
    added = [name for name in settings.plugins if name not in _by_name(order.PLUGINS, order.DURABLE_ORDER)]
    foreign = [_added(name, number, settings) for number, name in enumerate(added, 1) if settings.plugins[name].enabled]
    return tuple(sorted([*own, *foreign], key=lambda plugin: plugin.place))


def durable(settings: Settings) -> tuple[Chosen, ...]:
    """The parts of the composite effect, in order. Raises SettingsError."""
    first = (len(order.PLUGINS) + 1) * SPACING
    return tuple(
        Chosen(entry, first + number * SPACING, _settings(entry, settings))
        for number, entry in enumerate(order.DURABLE_ORDER)
        if _enabled(entry, settings)
    )


def _by_name(*tables: Iterable[Entry]) -> dict[str, Entry]:
    return {entry.name: entry for table in tables for entry in table}


def _error(settings: Settings, name: str, key: str, expected: str) -> SettingsError:
    return SettingsError(str(settings.config_dir / CONFIG), f"plugins.{name}{key and '.'}{key}", expected)


def _check_names(settings: Settings) -> None:
    durable_names = _by_name(order.DURABLE_ORDER)
    for name, choice in settings.plugins.items():
        if name in durable_names and (choice.use or choice.after):
            key = "use" if choice.use else "after"
            raise _error(settings, name, key, "cannot be set: this plugin's place is what makes endings durable")
        if choice.after is not None and choice.after not in _by_name(order.PLUGINS):
            names = ", ".join(_by_name(order.PLUGINS))
            raise _error(settings, name, "after", f"expected one of {names}, not {choice.after!r}")


def _enabled(entry: Entry, settings: Settings) -> bool:
    choice = settings.plugins.get(entry.name)
    if choice is None or choice.enabled:
        return True
    if entry.needed is not None:
        raise _error(settings, entry.name, "enabled", f"cannot be turned off: {entry.needed}")
    return False


def _entry(entry: Entry, settings: Settings) -> Entry:
    """The default entry, or what the user put in its place."""
    choice = settings.plugins.get(entry.name)
    if choice is None or choice.use is None:
        return entry
    if choice.after is not None:
        raise _error(settings, entry.name, "after", "cannot be set here: a replacement takes the place of the original")
    return _installed(entry.name, choice.use, f"instead of ours: {entry.why}", settings)


def _added(name: str, number: int, settings: Settings) -> Chosen:
    choice = settings.plugins[name]
    entry = _installed(name, choice.use or name, "named in config.toml", settings)
    places = {own.name: place * SPACING for place, own in enumerate(order.PLUGINS, 1)}
    after = places[choice.after] if choice.after is not None else len(order.PLUGINS) * SPACING
    return Chosen(entry, after + number, _converted(entry.settings, name, choice, settings))


def _settings(entry: Entry, settings: Settings) -> Struct:
    choice = settings.plugins.get(entry.name, PluginChoice())
    return _converted(_entry(entry, settings).settings, entry.name, choice, settings)


def _converted(kind: type[Struct], name: str, choice: PluginChoice, settings: Settings) -> Struct:
    try:
        return msgspec.convert(choice.settings, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise _error(settings, name, f"settings{path.strip('`')}", message) from None


def _installed(name: str, wanted: str, why: str, settings: Settings) -> Entry:
    from importlib.metadata import entry_points  # tens of ms over many installed packages

    found = next(iter(entry_points(group=GROUP, name=wanted)), None)
    if found is None:
        known = sorted(entry_points(group=GROUP).names)
        there_are = f"installed are {', '.join(known)}" if known else "none is installed"
        raise _error(settings, name, "", f"no plugin {wanted!r} in the entry-point group {GROUP}; {there_are}")
    try:
        kind: Any = found.load()
    except Exception as error:
        raise _error(settings, name, "", f"{found.value} cannot be imported: {type(error).__name__}: {error}") from None
    return _foreign(name, kind, why)


@cache
def _foreign(name: str, kind: Any, why: str) -> Entry:
    """The same entry for the same class, so that a reload of the config finds it unchanged."""
    own: type[Struct] = getattr(kind, "Settings", NoSettings)
    make = (lambda shop, value: kind()) if own is NoSettings else (lambda shop, value: kind(value))
    return Entry(name, why, make, own)

"""What is wrong with a plugin's coming and going, in words.

Owns: the report. Must not know: how anything is found out. Invariant: each problem is named once, with the
circumstances under which it was seen.
"""

from __future__ import annotations

__all__ = ["Findings", "PluginLeaks"]

# Circumstances named for each problem; a plugin that leaks always does so under dozens of them.
NAMED = 4


class PluginLeaks(AssertionError):
    """`problems`: each with the circumstances it was seen under, in the order of the check."""

    def __init__(self, plugin: str, problems: dict[str, tuple[str, ...]]) -> None:
        lines = [f"the plugin {plugin!r} does not come and go cleanly:"]
        for what, circumstances in problems.items():
            lines += [f"  - {what}", *(f"      after {when}" for when in circumstances[:NAMED])]
            if len(circumstances) > NAMED:
                lines.append(f"      and {len(circumstances) - NAMED} more")
        super().__init__("\n".join(lines))
        self.plugin = plugin
        self.problems = problems


class Findings:
    """`fatal` once nothing more can be learned in bearable time: it cannot be loaded, or hangs."""

    def __init__(self) -> None:
        self.fatal = False
        self._problems: dict[str, list[str]] = {}

    def add(self, what: str, when: str, *, fatal: bool = False) -> None:
        circumstances = self._problems.setdefault(what, [])
        if when not in circumstances:
            circumstances.append(when)
        self.fatal |= fatal

    def raise_if_any(self, plugin: str) -> None:
        """Raises PluginLeaks."""
        if self._problems:
            raise PluginLeaks(plugin, {what: tuple(when) for what, when in self._problems.items()})

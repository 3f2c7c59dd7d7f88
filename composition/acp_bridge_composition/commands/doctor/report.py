"""What `acp-bridge doctor` found, as values and as text.

Owns: the shape that `--json` prints, and its readable form. Must not know: how anything is found out.
Invariant: holds no secret: a key is `set` or missing; every problem comes with what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from acp_bridge.lifecycle.scope import Node

__all__ = ["Finding", "PluginState", "Report", "text"]

_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


class Finding(Struct, frozen=True):
    """`problem`: the main job would not work. `warning`: something less would not. `help` says what to do."""

    about: str
    verdict: Literal["ok", "warning", "problem"]
    facts: str
    help: str = ""


class PluginState(Struct, frozen=True):
    """`settings` as they hold now; `waits_for` services that no plugin provides."""

    name: str
    state: str
    why: str
    settings: dict[str, object]
    waits_for: tuple[str, ...] = ()
    failure: str | None = None


class Report(Struct, frozen=True):
    version: str
    works: bool
    findings: tuple[Finding, ...]
    plugins: tuple[PluginState, ...]
    tree: Node


def text(report: Report) -> str:
    """For a terminal or a bug report."""
    lines = [f"acp-bridge {report.version}", ""]
    for finding in report.findings:
        lines.append(f"{_MARKS[finding.verdict]}  {finding.about}: {finding.facts}")
        if finding.help:
            lines.append(f"         -> {finding.help}")
    lines += ["", "Plugins, outermost first:"]
    for plugin in report.plugins:
        lines += _plugin(plugin)
    lines += ["", "The live tree:", *_tree(report.tree, "  ")]
    lines += ["", "The main job works." if report.works else "The main job does not work; see PROBLEM above."]
    return "\n".join(lines) + "\n"


def _plugin(plugin: PluginState) -> Iterator[str]:
    yield f"  {plugin.name:<20} {plugin.state:<9} {plugin.why}"
    for key, value in plugin.settings.items():
        yield f"  {'':<20} {key} = {value}"
    if plugin.waits_for:
        yield f"  {'':<20} waits for {', '.join(plugin.waits_for)}"
    if plugin.failure:
        yield f"  {'':<20} failed: {plugin.failure}"


def _tree(node: Node, indent: str) -> Iterator[str]:
    yield f"{indent}{node.name} [{node.state}]" if node.state else f"{indent}{node.name}"
    for child in node.children:
        yield from _tree(child, indent + "  ")

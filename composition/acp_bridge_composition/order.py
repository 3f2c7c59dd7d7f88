"""Which plugins there are, and in which order: the one place that decides it.

Owns: the two literal tables, a reason per line, and what of each plugin can be set. Must not know: how plugins are
mounted, the user's choices (choices.py). Invariant: hook order is table order, outermost first; what a plugin is made
from is only `Workshop` and its own settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from acp_bridge.lifecycle.kernel import Plugin
from acp_bridge_composition.workshop import Workshop
from acp_bridge_plugins.checkpoint_policy.plugin import CheckpointPolicy
from acp_bridge_plugins.models_openai.plugin import ModelsOpenai
from acp_bridge_plugins.models_scripted.plugin import ModelsScripted
from acp_bridge_plugins.permission_modes.plugin import PermissionModes
from acp_bridge_plugins.persistence_jsonl.plugin import PersistenceJsonl
from acp_bridge_plugins.sandbox_local.plugin import SandboxLocal
from acp_bridge_plugins.tools_files.plugin import ToolsFiles
from acp_bridge_plugins.tools_plan.plugin import ToolsPlan
from acp_bridge_plugins.tools_search.plugin import ToolsSearch
from acp_bridge_plugins.tools_shell.plugin import ToolsShell
from acp_bridge_plugins.tools_shell.settings import ShellSettings

__all__ = ["DURABLE_ORDER", "PLUGINS", "Entry", "NoSettings"]

Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class NoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin with nothing to set."""


class SandboxSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds that bubblewrap has to show that it works here."""

    probe_timeout_seconds: Seconds = 5.0


class OpenaiPluginSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds to wait for each piece of a reply; attempts after the first, all before the first byte."""

    read_timeout_s: Seconds = 600.0
    max_retries: Annotated[int, Meta(ge=0, le=20)] = 2


class ScriptedSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds that a step waits for a file."""

    file_wait_s: Seconds = 60.0


class Entry(Struct, frozen=True):
    """`needed` says why the user cannot turn it off; such a plugin's failure is the agent's."""

    name: str
    why: str
    make: Callable[[Workshop, Any], Plugin]
    settings: type[Struct] = NoSettings
    needed: str | None = None


# Siblings: they load in this order, and unload together.
PLUGINS: tuple[Entry, ...] = (
    Entry(
        "permission_modes",
        "Policy first: its decision wraps everything that a later plugin may say about a call.",
        lambda shop, own: PermissionModes(),
        needed="without it nothing would ask before edits and commands",
    ),
    Entry(
        "sandbox_local",
        "A sandbox before the tool that runs commands in it.",
        lambda shop, own: SandboxLocal(own.probe_timeout_seconds, private_dirs=shop.settings.private_dirs),
        SandboxSettings,
    ),
    Entry(
        "tools_files",
        "Tools in the order in which the model reads them: files come first.",
        lambda shop, own: ToolsFiles(private_dirs=shop.settings.private_dirs),
    ),
    Entry(
        "tools_search",
        "After files: what it finds is read with them.",
        lambda shop, own: ToolsSearch(private_dirs=shop.settings.private_dirs),
    ),
    Entry(
        "tools_shell",
        "After the tools that need no process, so that the model thinks of those first.",
        lambda shop, own: ToolsShell(own),
        ShellSettings,
    ),
    Entry("tools_plan", "Last of the tools: it changes nothing.", lambda shop, own: ToolsPlan()),
    Entry(
        "models_openai",
        "Models last: nothing waits for them.",
        lambda shop, own: ModelsOpenai(
            shop.openai_credentials, read_timeout_s=own.read_timeout_s, max_retries=own.max_retries
        ),
        OpenaiPluginSettings,
    ),
    Entry(
        "models_scripted",
        "Beside the other models.",
        lambda shop, own: ModelsScripted(file_wait_s=own.file_wait_s),
        ScriptedSettings,
    ),
)

# The composite effect: entered in this order, undone in reverse, each finished before the next begins.
DURABLE_ORDER: tuple[Entry, ...] = (
    Entry(
        "persistence_jsonl",
        "Storage outlives everything that can still write an ending.",
        lambda shop, own: PersistenceJsonl(shop.settings.sessions_dir, editor_name=shop.editor_name),
        needed="without it no session could be kept",
    ),
    Entry(
        "checkpoint_policy",
        "Barriers hold until the last agent has come to rest.",
        lambda shop, own: CheckpointPolicy(shop.store),
        needed="without it requests and calls would run ahead of the log",
    ),
    Entry(
        "acp_bridge",
        "The bridge goes first: its agents end their turns for real while both of the above still stand.",
        lambda shop, own: shop.front,
        needed="it is the connection to the editor",
    ),
)

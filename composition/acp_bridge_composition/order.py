"""Which plugins there are, and in which order: the one place that decides it.

Owns: the two literal tables, a reason per line. Must not know: how plugins are mounted.
Invariant: hook order is table order, outermost first.
"""

from __future__ import annotations

from collections.abc import Callable

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

__all__ = ["DURABLE_ORDER", "PLUGINS"]

# Siblings: none of them needs another, so they load in this order and unload together.
PLUGINS: tuple[Callable[[Workshop], Plugin], ...] = (
    # Policy first: its decision wraps everything that a later plugin may say about a call.
    lambda shop: PermissionModes(),
    # A sandbox before the tool that runs commands in it.
    lambda shop: SandboxLocal(private_dirs=shop.settings.private_dirs),
    # Tools in the order in which the model reads them.
    lambda shop: ToolsFiles(private_dirs=shop.settings.private_dirs),
    lambda shop: ToolsSearch(private_dirs=shop.settings.private_dirs),
    lambda shop: ToolsShell(),
    lambda shop: ToolsPlan(),
    # Models last: nothing waits for them.
    lambda shop: ModelsOpenai(shop.openai_credentials),
    lambda shop: ModelsScripted(),
)

# The composite effect: entered in this order, undone in reverse, each finished before the next begins.
DURABLE_ORDER: tuple[tuple[str, Callable[[Workshop], Plugin]], ...] = (
    # Storage outlives everything that can still write an ending.
    ("persistence_jsonl", lambda shop: PersistenceJsonl(shop.settings.sessions_dir, editor_name=shop.editor_name)),
    # Barriers hold until the last agent has come to rest.
    ("checkpoint_policy", lambda shop: CheckpointPolicy(shop.store)),
    # The bridge goes first: its agents end their turns for real while both of the above still stand.
    ("acp_bridge", lambda shop: shop.bridge),
)

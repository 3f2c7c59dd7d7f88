"""Checks for whoever writes a plugin (docs/plugins.md).

Owns: what is shipped for tests. Must not know: pytest, any plugin. Invariant: every wait is bounded, and what a check
finds is raised as an AssertionError that names it.
"""

from acp_bridge.testing.checking import check_plugin
from acp_bridge.testing.leaks import PluginLeaks

__all__ = ["PluginLeaks", "check_plugin"]

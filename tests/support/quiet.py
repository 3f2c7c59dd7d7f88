"""Hooks that nobody listens to, for sessions that a test makes by hand."""

from __future__ import annotations

from acp_bridge import hookspecs
from acp_bridge.lifecycle.hooks import Hooks

__all__ = ["QUIET"]

QUIET = Hooks(hookspecs, lambda hook, error: None)

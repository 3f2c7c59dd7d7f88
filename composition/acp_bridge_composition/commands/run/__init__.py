"""`acp-bridge run PROMPT`: one turn without an editor (docs/run.md)."""

from acp_bridge_composition.commands.run.command import run

__all__ = ["run"]

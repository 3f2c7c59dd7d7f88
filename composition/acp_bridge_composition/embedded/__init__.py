"""The agent inside another Python program (docs/embedding.md). Everything public is importable from here."""

from acp_bridge_composition.embedded.opening import EmbeddedAgent, open_agent
from acp_bridge_composition.embedded.told import Notice, Permission, Question, Result, Text, Thought, Told, ToolCall

__all__ = [
    "EmbeddedAgent",
    "Notice",
    "Permission",
    "Question",
    "Result",
    "Text",
    "Thought",
    "Told",
    "ToolCall",
    "open_agent",
]

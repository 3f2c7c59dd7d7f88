"""An example plugin for acp-bridge: a tool that counts words, and an audit of tool results."""

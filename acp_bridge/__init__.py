"""The kernel and the seams of acp-bridge. Names no plugin; see docs/architecture.md for the map."""

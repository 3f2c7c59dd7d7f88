"""The session log: events, the log in memory, what the model sees of it, crash repair (design §5, §10)."""

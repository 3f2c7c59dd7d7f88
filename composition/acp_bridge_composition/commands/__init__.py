"""The commands for people, one module each. None of them is imported by the agent."""

"""What end-to-end tests drive the agent with: a real editor, a real model endpoint, process and marker helpers."""

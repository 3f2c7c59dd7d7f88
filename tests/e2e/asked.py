"""What a model was asked: the conversation in a chat request, as plain values."""

from __future__ import annotations

from typing import Any

from tests.support.openai_server import Exchange

__all__ = ["calls", "conversation", "prompts", "results"]

MODE_NOTE = "Session mode: "  # the permission policy's own user message


def conversation(request: Exchange) -> list[tuple[str, str]]:
    """Role and text of each message after the system prompt, without the notes about the session mode."""
    return [
        (message["role"], message["content"] or "")
        for message in _messages(request)
        if message["role"] != "system" and not str(message["content"]).startswith(MODE_NOTE)
    ]


def prompts(request: Exchange) -> list[str]:
    """What the person has said so far."""
    return [text for role, text in conversation(request) if role == "user"]


def calls(request: Exchange) -> list[str]:
    """The ids of all calls, in order."""
    return [call["id"] for message in _messages(request) for call in message.get("tool_calls", [])]


def results(request: Exchange) -> dict[str, str]:
    """Text by call id. AssertionError when a call has two results."""
    found: dict[str, str] = {}
    for message in _messages(request):
        if message["role"] == "tool":
            assert message["tool_call_id"] not in found, f"two results of call {message['tool_call_id']}"
            found[message["tool_call_id"]] = message["content"]
    return found


def _messages(request: Exchange) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request.body["messages"]
    return found

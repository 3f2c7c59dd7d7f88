"""A model request as the body of a chat completion request (OpenAI: create chat completion).

Owns: the mapping of messages, ids and tools. Must not know: HTTP, the log.
Invariant: pure, and a prefix of messages maps to a prefix of the body, so that prompt caches hold; whatever the
messages hold, each call is followed at once by one result under the same id, ids are unique, names and arguments
have the form that endpoints insist on, so that one odd call of the model cannot spoil every later request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.content import Message, ModelSource, ReasoningBlock, ToolCallBlock, ToolResultBlock, text_of
from acp_bridge.session.derive import MISSING_RESULT
from acp_bridge.session.events import RequestConfig, ToolSchema

__all__ = ["chat_body", "encoded_body"]

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def chat_body(request: ModelRequest, *, official: bool) -> dict[str, Any]:
    """`official` endpoints take `max_completion_tokens`; compatible ones know only `max_tokens`."""
    header = request.header
    body: dict[str, Any] = {
        "model": header.config.model,
        "messages": _Conversation(header.config).mapped(header.system, request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_options(header.config, official=official),
    }
    if header.tools:
        body["tools"] = [_tool(tool) for tool in header.tools]
    return body


def encoded_body(request: ModelRequest, *, official: bool) -> bytes:
    """`chat_body` as JSON."""
    return msgspec.json.encode(chat_body(request, official=official))


def _options(config: RequestConfig, *, official: bool) -> dict[str, Any]:
    options = {
        "reasoning_effort": config.reasoning_effort,
        "temperature": config.temperature,
        "max_completion_tokens" if official else "max_tokens": config.max_tokens,
        "stop": list(config.stop) if config.stop else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


class _Conversation:
    """Maps one request. Results wait until all of a reply's are there, user messages wait behind them."""

    def __init__(self, config: RequestConfig) -> None:
        self._config = config
        self._out: list[dict[str, Any]] = []
        self._used_ids: set[str] = set()
        self._pending: list[tuple[str, str]] = []
        self._results: dict[str, str] = {}
        self._waiting: list[dict[str, Any]] = []

    def mapped(self, system: str | None, messages: Iterable[Message]) -> list[dict[str, Any]]:
        if system:
            self._out.append({"role": "system", "content": system})
        for message in messages:
            if message.role == "assistant":
                self._settle()
                self._assistant(message)
            else:
                self._user(message)
        self._settle()
        return self._out

    def _user(self, message: Message) -> None:
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                self._result(block)
        if text := text_of(message.content):
            self._waiting.append({"role": "user", "content": text})

    def _result(self, block: ToolResultBlock) -> None:
        """A result that answers no open call has no place in a request and is left out."""
        for call_id, sent_id in self._pending:
            if call_id == block.tool_call_id and sent_id not in self._results:
                self._results[sent_id] = text_of(block.content)
                return

    def _settle(self) -> None:
        for _, sent_id in self._pending:
            content = self._results.get(sent_id, MISSING_RESULT)
            self._out.append({"role": "tool", "tool_call_id": sent_id, "content": content})
        self._out.extend(self._waiting)
        self._pending, self._results, self._waiting = [], {}, []

    def _assistant(self, message: Message) -> None:
        calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
        text = text_of(message.content)
        if not text and not calls:
            return
        mapped: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            mapped["tool_calls"] = [self._call(call) for call in calls]
            self._replay(message, mapped)
        self._out.append(mapped)

    def _call(self, call: ToolCallBlock) -> dict[str, Any]:
        sent_id = self._unique(call.id)
        self._pending.append((call.id, sent_id))
        function = {"name": _name(call.name), "arguments": _arguments(call.arguments)}
        return {"id": sent_id, "type": "function", "function": function}

    def _unique(self, call_id: str) -> str:
        base = call_id or "call"
        sent_id, count = base, 1
        while sent_id in self._used_ids:
            count += 1
            sent_id = f"{base}-{count}"
        self._used_ids.add(sent_id)
        return sent_id

    def _replay(self, message: Message, mapped: dict[str, Any]) -> None:
        """Give the provider back what it asked for with the reply, if the same model is asked again."""
        source = message.source
        if not isinstance(source, ModelSource) or not source.replay_state:
            return
        if (source.provider, source.model) != (self._config.provider, self._config.model):
            return
        field = source.replay_state.get("reasoningField")
        if field in _REASONING_FIELDS:
            thoughts = [block.text for block in message.content if isinstance(block, ReasoningBlock)]
            mapped[field] = "".join(thoughts)
        extras = source.replay_state.get("callExtras")
        if isinstance(extras, list):
            for call, extra in zip(mapped["tool_calls"], extras, strict=False):
                if extra is not None:
                    call["extra_content"] = extra


def _name(name: str) -> str:
    return _UNNAMEABLE.sub("_", name)[:_NAME_LENGTH] or "unnamed"


def _arguments(raw: str) -> str:
    """A JSON object as it stands. What is none goes inside one: several endpoints refuse the whole request for it."""
    if not raw.strip():
        return "{}"
    try:
        _decode_object(raw)
    except (ValueError, RecursionError):
        return msgspec.json.encode({"invalid_arguments": raw}).decode()
    return raw

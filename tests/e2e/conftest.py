"""What every end-to-end test must leave behind: sound logs, and no model request that a log does not show.

Owns the two checks; the tests need not know of them. Only what lies below the test's own folder is looked at, and
where a log is damaged, or all are gone (they lay on a disk of their own), that is the test's own subject.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.check import check_log
from acp_bridge.session.codec import MalformedRecord, UnknownEventType, Vocabulary
from acp_bridge.session.events import Event
from acp_bridge.session.requests import rebuild_requests
from acp_bridge_plugins.models_openai.request import encoded_body
from tests.e2e.stored import decoded
from tests.support.openai_server import OpenAIServer

VOCABULARY = Vocabulary()


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> list[OpenAIServer]:
    """The model endpoints that the test has started."""
    found: list[OpenAIServer] = []
    enter = OpenAIServer.__enter__

    def noted(server: OpenAIServer) -> OpenAIServer:
        found.append(server)
        return enter(server)

    monkeypatch.setattr(OpenAIServer, "__enter__", noted)
    return found


@pytest.fixture(autouse=True)
def logs_are_sound(tmp_path: Path, servers: list[OpenAIServer]) -> Iterator[None]:
    """Design §5: the structural rules hold, and "model-visible means logged" for every request that was made."""
    yield
    logs = {path: _events(path) for path in sorted(tmp_path.glob("**/sessions/*/*/session.v*.jsonl.zstd"))}
    broken = {str(path): rules for path, events in logs.items() if (rules := check_log(events or []))}
    assert not broken, f"logs break the structural rules: {broken}"
    shown = [body for events in logs.values() for body in _bodies(events or [])]
    if not logs or None in logs.values():
        return
    for chat in (chat for server in servers for chat in server.chats):
        assert chat.body in shown, f"a model request that no log shows: {json.dumps(chat.body['messages'])[-2000:]}"


def _events(path: Path) -> list[Event] | None:
    """None for a log that cannot be read."""
    try:
        lines = [json.dumps(record).encode() for record in decoded(path.read_bytes())[1:]]
        return [VOCABULARY.decode_event(line) for line in lines]
    except (ValueError, zstandard.ZstdError, MalformedRecord, UnknownEventType):
        return None


def _bodies(events: list[Event]) -> Iterator[dict[str, Any]]:
    for logged in rebuild_requests(events):
        yield json.loads(encoded_body(ModelRequest(logged.header, logged.messages), official=False))

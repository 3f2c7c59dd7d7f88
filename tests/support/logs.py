"""Session logs that a test left on disk: sound, and the whole truth about what the model was asked.

Owns: finding and reading the logs with the product's own reader, and two assertions. `assert_log_is_sound` walks every
log below a state directory with the structural checker; `assert_requests_are_logged` holds what a model endpoint
recorded against what the log alone says must have been sent (design §5). Reads only, takes no lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.check import StructureChecker
from acp_bridge.session.codec import Vocabulary
from acp_bridge.session.events import Event
from acp_bridge.session.requests import LoggedRequest, rebuild_requests
from acp_bridge_plugins.models_openai.request import chat_body
from acp_bridge_plugins.persistence_jsonl.records import load_log

__all__ = ["assert_all_requests_are_logged", "assert_log_is_sound", "assert_requests_are_logged", "logs", "read_log"]


class Recorded(Protocol):
    """A request as `OpenAIServer` keeps it."""

    @property
    def body(self) -> Any: ...


def logs(state_dir: Path) -> list[Path]:
    """Every log file below a state directory."""
    return sorted(state_dir.rglob("session.v*.jsonl*"))


def read_log(path: Path) -> list[Event]:
    """All events, those that a torn tail still gives included. Raises LogCorrupt, SessionFormatUnsupported."""
    return load_log(str(path), path.read_bytes(), Vocabulary(), recover=True).events


def assert_log_is_sound(state_dir: Path, *, at_rest: bool = False) -> None:
    """No log below `state_dir` breaks a rule; with `at_rest`, none has an open turn either (nobody was killed)."""
    for path in logs(state_dir):
        checker = StructureChecker()
        problems = [str(broken) for event in read_log(path) for broken in checker.observe(event)]
        if at_rest and not checker.at_rest:
            problems.append("The log ends inside a turn.")
        assert not problems, "\n".join([f"{path.parent.name}/{path.name}:", *problems])


def assert_requests_are_logged(events: Sequence[Event], recorded: Iterable[Recorded]) -> None:
    """`recorded`: the chat requests of this one session, in order; repeats of a body are the client's own retries.

    Each of them must follow from the log, in the log's order; each request whose reply is in the log must be there.
    """
    requests = _openai_requests(events)
    sent = _bodies(recorded)
    expected = iter([_expected(request) for request in requests])
    for number, body in enumerate(sent, 1):
        assert body in expected, f"request {number} does not follow from the log: {json.dumps(body)[:2000]}"
    _assert_all_sent([request for request in requests if request.answered], sent)


def assert_all_requests_are_logged(state_dir: Path, recorded: Iterable[Recorded]) -> None:
    """The same for several sessions that shared one endpoint, without regard to their order among each other."""
    requests = [request for path in logs(state_dir) for request in _openai_requests(read_log(path))]
    sent, expected = _bodies(recorded), [_expected(request) for request in requests]
    for number, body in enumerate(sent, 1):
        assert body in expected, f"request {number} follows from no log: {json.dumps(body)[:2000]}"
    for request in requests:
        assert not request.answered or _expected(request) in sent, _missing(request)


def _openai_requests(events: Sequence[Event]) -> list[LoggedRequest]:
    """A screenplay answers without an endpoint."""
    return [request for request in rebuild_requests(events) if request.header.config.provider == "openai"]


def _bodies(recorded: Iterable[Recorded]) -> list[Any]:
    return [_visible(body) for body, _ in groupby(request.body for request in recorded)]


def _expected(request: LoggedRequest) -> Any:
    body = chat_body(ModelRequest(request.header, request.messages), official=False)
    return _visible(json.loads(json.dumps(body)))


def _visible(body: Any) -> Any:
    """What a model reads of a request."""
    return {key: body.get(key) for key in ("model", "messages", "tools")}


def _assert_all_sent(answered: Sequence[LoggedRequest], sent: Sequence[Any]) -> None:
    left = iter(sent)
    for request in answered:
        assert _expected(request) in left, _missing(request)


def _missing(request: LoggedRequest) -> str:
    return f"the log shows a reply to turn {request.turn}, step {request.step}, but that request was never made"

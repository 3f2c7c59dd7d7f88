"""The assertions on logs that tests leave: they pass on the truth and fail on each way to miss it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import zstandard

from acp_bridge.llm.model import ModelRequest
from acp_bridge.session.codec import Vocabulary, encode_header
from acp_bridge.session.content import Message, TextBlock, UserSource
from acp_bridge.session.events import Event, RequestConfig
from acp_bridge_plugins.models_openai.request import chat_body
from tests.support.fakes import FakeTool, ask_for, say
from tests.support.logs import (
    assert_all_requests_are_logged,
    assert_log_is_sound,
    assert_requests_are_logged,
    logs,
    read_log,
)
from tests.support.rig import HEADER, Rig, ending, prompt


@dataclass
class Exchange:
    body: Any


def recorded(request: ModelRequest) -> Exchange:
    return Exchange(json.loads(json.dumps(chat_body(request, official=False))))


async def conversation() -> Rig:
    rig = Rig(ask_for(("c1", "touch"), words="so"), say("done"), say("bye"), tools=[FakeTool("touch")])
    rig.model.provider = "openai"
    rig.config = RequestConfig("openai", "test-model")
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
        await ending(agent.prompt(prompt("p2")))
    return rig


@pytest.fixture(scope="module")
def rig() -> Rig:
    return anyio.run(conversation)


def stored(state_dir: Path, events: Sequence[Event]) -> Path:
    vocabulary, compress = Vocabulary(), zstandard.ZstdCompressor(write_checksum=True).compress
    folder = state_dir / "sessions" / "--project--" / "session-1"
    folder.mkdir(parents=True)
    path = folder / "session.v1.jsonl.zstd"
    path.write_bytes(compress(encode_header(HEADER)) + compress(b"".join(map(vocabulary.encode_event, events))))
    return path


def test_a_log_is_found_read_and_sound(tmp_path: Path, rig: Rig) -> None:
    path = stored(tmp_path, rig.events)
    assert logs(tmp_path) == [path]
    assert read_log(path) == rig.events
    assert_log_is_sound(tmp_path, at_rest=True)


def test_a_broken_rule_and_an_open_turn_are_told_with_the_name_of_the_log(tmp_path: Path, rig: Rig) -> None:
    stored(tmp_path, rig.events[:-1])
    assert_log_is_sound(tmp_path)
    with pytest.raises(AssertionError, match=r"(?s)session-1/session\.v1.*ends inside a turn"):
        assert_log_is_sound(tmp_path, at_rest=True)


def test_a_log_with_a_gap_is_not_sound(tmp_path: Path, rig: Rig) -> None:
    events = [event for event in rig.events if event.type != "tool/result"]
    renumbered = [Event(e.type, seq, e.time, e.data, e.surface_op) for seq, e in enumerate(events)]
    stored(tmp_path, renumbered)
    with pytest.raises(AssertionError, match="the step ends without a result of 'c1'"):
        assert_log_is_sound(tmp_path)


def test_what_the_endpoint_recorded_follows_from_the_log(tmp_path: Path, rig: Rig) -> None:
    exchanges = [recorded(request) for request in rig.model.requests]
    assert_requests_are_logged(rig.events, exchanges)
    assert_requests_are_logged(rig.events, [exchanges[0], *exchanges])
    stored(tmp_path, rig.events)
    assert_all_requests_are_logged(tmp_path, exchanges)


def test_a_message_that_is_not_in_the_log_is_found_out(tmp_path: Path, rig: Rig) -> None:
    first, *rest = rig.model.requests
    smuggled = Message("x", "user", (TextBlock("unlogged"),), UserSource())
    exchanges = [recorded(ModelRequest(first.header, (*first.messages, smuggled))), *map(recorded, rest)]
    with pytest.raises(AssertionError, match=r"(?s)request 1 does not follow from the log.*unlogged"):
        assert_requests_are_logged(rig.events, exchanges)
    stored(tmp_path, rig.events)
    with pytest.raises(AssertionError, match="request 1 follows from no log"):
        assert_all_requests_are_logged(tmp_path, exchanges)


def test_a_request_that_the_log_shows_and_nobody_made_is_found_out(tmp_path: Path, rig: Rig) -> None:
    exchanges = [recorded(request) for request in rig.model.requests[1:]]
    with pytest.raises(AssertionError, match="turn 1, step 1, but that request was never made"):
        assert_requests_are_logged(rig.events, exchanges)
    stored(tmp_path, rig.events)
    with pytest.raises(AssertionError, match="turn 1, step 1"):
        assert_all_requests_are_logged(tmp_path, exchanges)


def test_requests_out_of_order_are_found_out(rig: Rig) -> None:
    exchanges = [recorded(request) for request in rig.model.requests]
    with pytest.raises(AssertionError, match="request 2 does not follow"):
        assert_requests_are_logged(rig.events, [exchanges[1], exchanges[0], exchanges[2]])

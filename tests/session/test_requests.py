"""Model requests rebuilt from the log alone (design §5: model-visible means logged)."""

from __future__ import annotations

from acp_bridge.session.chunks import Failure, Finish, FinishReason
from acp_bridge.session.content import ToolResultBlock, text_of
from acp_bridge.session.events import ModelHeader, RequestConfig, RequestHeader
from acp_bridge.session.repair import closers
from acp_bridge.session.requests import LoggedRequest, rebuild_requests
from tests.session.writing import CONFIG, Writer, call, text


def spoken(request: LoggedRequest) -> list[str]:
    """The text of each message; a result is shown by its call."""
    blocks = [message.content[0] for message in request.messages]
    return [b.tool_call_id if isinstance(b, ToolResultBlock) else text_of((b,)) for b in blocks]


def test_each_step_is_a_request_with_what_stood_in_the_log_when_it_began() -> None:
    writer = Writer()
    writer.whole_turn("p1", [[text("so"), call("a")], [text("done")]])
    writer.whole_turn("p2", [[text("bye")]])
    first, second, third = rebuild_requests(writer.events)
    assert [(r.turn, r.step, r.answered) for r in (first, second, third)] == [(1, 1, True), (1, 2, True), (2, 1, True)]
    assert spoken(first) == ["prompt p1"]
    assert spoken(second) == ["prompt p1", "so", "a"]
    assert spoken(third) == ["prompt p1", "so", "a", "done", "prompt p2"]
    assert {request.header for request in (first, second, third)} == {ModelHeader(CONFIG, "system")}


def test_a_changed_header_counts_from_the_step_that_logged_it() -> None:
    writer = Writer()
    writer.whole_turn("p1", [[text("hi")]])
    writer.queue("p2")
    writer.start_step(writer.start_turn())
    changed = ModelHeader(RequestConfig("fake", "model-2"))
    writer.add(RequestHeader(changed, "change"))
    writer.reply(text("bye"))
    assert [request.header.config.model for request in rebuild_requests(writer.events)] == ["model-1", "model-2"]


def test_a_request_without_any_sign_of_a_reply_may_or_may_not_have_been_sent() -> None:
    writer = Writer()
    writer.prompt("p1")
    assert [request.answered for request in rebuild_requests(writer.events)] == [False]
    writer.chunks(Finish(FinishReason("error", Failure("not reached", "TRANSPORT"))))
    assert [request.answered for request in rebuild_requests(writer.events)] == [False]
    writer.chunks("h")
    assert [request.answered for request in rebuild_requests(writer.events)] == [True]


def test_what_a_repair_appends_to_a_step_was_not_in_its_request() -> None:
    writer = Writer()
    writer.whole_turn("p1", [[text("hi")]])
    writer.queue("p2")
    writer.queue("p3")
    writer.start_step(writer.start_turn())
    repaired = [*writer.events, *closers(writer.events)]
    *_, cut = rebuild_requests(repaired)
    assert spoken(cut) == ["prompt p1", "hi", "prompt p2"]
    assert not cut.answered


def test_a_step_without_a_header_to_send_made_no_request() -> None:
    writer = Writer()
    writer.turn = 1
    writer.queue("p2")
    writer.start_step(writer.start_turn())
    assert rebuild_requests(writer.events) == []

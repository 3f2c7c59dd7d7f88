"""What the model sees: calls and results always pair, whatever the log holds (contracts §1.10, field case R3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.content import (
    Block,
    Message,
    ModelSource,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserSource,
    text_message,
    text_of,
)
from acp_bridge.session.derive import INTERRUPTED_NOTE, MISSING_RESULT, derive_messages
from acp_bridge.session.events import AssistantMessage, Body, Event, ToolResult, UserMessage
from tests.session.strategies import events
from tests.session.writing import Writer, call, result, text

IDS = st.sampled_from(["a", "b", "c", ""])


def surface(bodies: list[Body]) -> list[Event]:
    return [Event(body.TYPE, seq, 0, body, "append") for seq, body in enumerate(bodies)]


def user(message_id: str) -> UserMessage:
    message = text_message(message_id, message_id, UserSource())
    return UserMessage(message.id, message.role, message.content, message.source)


def reply(*call_ids: str) -> AssistantMessage:
    blocks: tuple[Block, ...] = (TextBlock("so"), *map(call, call_ids))
    return AssistantMessage(1, 1, Message("m", "assistant", blocks, ModelSource("p", "m")))


def called(message: Message) -> list[str]:
    return [block.id for block in message.content if isinstance(block, ToolCallBlock)]


def answered(message: Message) -> list[str]:
    return [block.tool_call_id for block in message.content if isinstance(block, ToolResultBlock)]


any_surface = st.lists(
    st.builds(user, IDS)
    | st.builds(lambda ids: reply(*ids), st.lists(IDS, max_size=4))
    | st.builds(lambda call_id: result(1, 1, call_id), IDS),
    max_size=14,
)


@given(any_surface)
def test_each_call_is_followed_at_once_by_exactly_one_result_in_order(bodies: list[Body]) -> None:
    messages = derive_messages(surface(bodies))
    position = 0
    while position < len(messages):
        calls = called(messages[position])
        results = [answered(message) for message in messages[position + 1 : position + 1 + len(calls)]]
        assert results == [[call_id] for call_id in calls]
        assert not answered(messages[position])
        position += 1 + len(calls)


@given(any_surface)
def test_every_word_of_the_person_and_of_the_model_is_there_in_order(bodies: list[Body]) -> None:
    messages = derive_messages(surface(bodies))
    said = [body.id for body in bodies if isinstance(body, UserMessage)]
    assert [message.id for message in messages if isinstance(message.source, UserSource)] == said
    replies = [body.message for body in bodies if isinstance(body, AssistantMessage)]
    assert [message for message in messages if message.role == "assistant"] == replies


@given(any_surface)
def test_a_result_is_shown_once_and_only_for_a_call_of_the_last_reply(bodies: list[Body]) -> None:
    messages = derive_messages(surface(bodies))
    shown = [m for m in messages if answered(m) and text_of(m.content[0].content) != MISSING_RESULT]  # type: ignore[union-attr]  # a result
    logged = [body.message for body in bodies if isinstance(body, ToolResult)]
    assert len(shown) <= len(logged)
    assert all(message in logged for message in shown)


@given(st.lists(events(), max_size=10))
def test_nothing_that_can_stand_in_a_log_breaks_the_derivation(log: list[Event]) -> None:
    derive_messages(log)


def test_a_message_that_arrived_between_a_call_and_its_result_comes_after_the_result() -> None:
    messages = derive_messages(surface([reply("a"), user("meanwhile"), result(1, 1, "a")]))
    assert [called(m) or answered(m) or [m.id] for m in messages] == [["a"], ["a"], ["meanwhile"]]


def test_a_call_without_a_result_is_told_to_be_unknown() -> None:
    messages = derive_messages(surface([reply("a", "b"), result(1, 1, "b")]))
    block = messages[1].content[0]
    assert isinstance(block, ToolResultBlock)
    assert (block.tool_call_id, block.is_error, text_of(block.content)) == ("a", True, MISSING_RESULT)


def test_an_interrupted_reply_is_shown_as_such_and_an_empty_one_not_at_all() -> None:
    writer = Writer()
    writer.prompt("p1")
    writer.chunks("hal")
    writer.reply(text("hal"), interrupted=True)
    writer.end_step()
    writer.start_step()
    writer.reply()
    messages = derive_messages(writer.events)
    assert [text_of(message.content) for message in messages] == ["prompt p1", "hal" + INTERRUPTED_NOTE]


def test_chunks_and_everything_else_off_the_surface_are_not_seen() -> None:
    writer = Writer()
    writer.whole_turn("p1", [[text("so"), call("a")], [text("done")]])
    assert derive_messages(writer.events) == derive_messages(writer.log.events)
    assert [message.role for message in derive_messages(writer.events)] == ["user", "assistant", "user", "assistant"]

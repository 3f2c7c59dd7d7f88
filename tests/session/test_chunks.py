"""Assembling a streamed reply, whole or cut short (contracts §1.6)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.session.chunks import (
    Assembly,
    BlockEnd,
    BlockStart,
    Chunk,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
    interrupted_blocks,
)
from acp_bridge.session.content import Block, ReasoningBlock, TextBlock, ToolCallBlock, Usage
from tests.session.strategies import shapes

CALL = (ToolCallDelta(9, "c", '{"a"', "touch"), ToolCallDelta(9, "c", ":1}"))
WHOLE_CALL = ToolCallBlock("c", "touch", '{"a":1}')


def assembled(*chunks: Chunk) -> tuple[Block, ...]:
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.blocks()


def finish(kind: str) -> Finish:
    failure = Failure("lost", "TRANSPORT") if kind in ("error", "aborted") else None
    return Finish(FinishReason(kind, failure))  # type: ignore[arg-type]  # the literals, from a table


def test_blocks_come_in_the_order_in_which_they_were_first_seen() -> None:
    chunks = (ReasoningDelta(5, "hm"), TextDelta(0, "a"), *CALL, TextDelta(0, "b"), finish("tool-calls"))
    assert assembled(*chunks) == (ReasoningBlock("hm"), TextBlock("ab"), WHOLE_CALL)


def test_an_ended_block_counts_as_it_was_ended_and_stragglers_are_ignored() -> None:
    chunks = (BlockStart(0, "text"), TextDelta(0, "a"), BlockEnd(0, TextBlock("A")), TextDelta(0, "b"), finish("stop"))
    assert assembled(*chunks) == (TextBlock("A"),)


def test_empty_blocks_are_left_out() -> None:
    assert assembled(BlockStart(0, "text"), TextDelta(1, ""), finish("stop")) == ()


def test_a_call_counts_only_when_the_reply_came_to_its_own_end() -> None:
    for kind in ("stop", "tool-calls"):
        assert assembled(*CALL, finish(kind)) == (WHOLE_CALL,)
    for kind in ("max-tokens", "refusal", "aborted", "error"):
        assert assembled(TextDelta(0, "a"), *CALL, finish(kind)) == (TextBlock("a"),)


def test_a_stream_without_a_finish_counts_as_stopped_but_half_a_call_in_it_does_not() -> None:
    assert assembled(TextDelta(0, "a"), *CALL) == (TextBlock("a"),)
    assert assembled(TextDelta(0, "a"), *CALL, BlockEnd(9, WHOLE_CALL)) == (TextBlock("a"), WHOLE_CALL)


def test_usage_and_replay_state_are_kept_beside_the_blocks() -> None:
    assembly = Assembly()
    assembly.add(UsageChunk(Usage(3, 4)))
    assembly.add(Finish(FinishReason("stop"), {"id": "x"}))
    assert (assembly.usage, assembly.replay_state) == (Usage(3, 4), {"id": "x"})


def test_what_survives_an_interruption_is_text_and_reasoning_that_is_not_blank() -> None:
    chunks = (ReasoningDelta(0, "hm"), TextDelta(1, " \n"), TextDelta(2, "a"), *CALL)
    assert interrupted_blocks(chunks) == (ReasoningBlock("hm"), TextBlock("a"))


@given(st.lists(shapes(Chunk), max_size=12))
def test_whatever_the_order_of_chunks_an_interrupted_reply_holds_no_call_and_no_blank(chunks: list[Chunk]) -> None:
    for block in interrupted_blocks(chunks):
        assert isinstance(block, TextBlock | ReasoningBlock)
        assert block.text.strip()


@given(st.lists(shapes(TextDelta) | shapes(ReasoningDelta), max_size=12))
def test_assembled_text_is_all_the_text_that_was_streamed(chunks: list[TextDelta | ReasoningDelta]) -> None:
    streamed = sorted("".join(chunk.text for chunk in chunks))
    kept = [block.text for block in assembled(*chunks) if isinstance(block, TextBlock | ReasoningBlock)]
    assert sorted("".join(kept)) == streamed

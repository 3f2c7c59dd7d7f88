"""Nothing irreversible runs ahead of the log (design §8, contracts §4, §2.9; field case D8)."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from acp_bridge.lifecycle.hooks import Next
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.llm.model import ModelCall, ModelRequest
from acp_bridge.session.chunks import Chunk
from acp_bridge.session.content import text_of
from acp_bridge.session.events import AbortReason, ModelHeader, ToolResult, TurnEnd, TurnEndReason
from acp_bridge.session.log import SessionLog
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.outcomes import aborted_before_dispatch
from acp_bridge.tools.tool import Execution, ToolOutcome
from tests.support.fakes import FakeModel, FakeTool, Gate, ask_for, say
from tests.support.quiet import QUIET
from tests.support.rig import CONFIG, Rig, ending, prompt

pytestmark = pytest.mark.anyio

USER = AbortReason("user")
FULL = OSError(errno.ENOSPC, "No space left on device")


def durable(rig: Rig) -> list[str]:
    return [event.type for event in rig.backend.durable]


def held_flushes(rig: Rig, count: int) -> list[Gate]:
    """Gates for the next flushes, in order."""
    rig.backend.gates = [Gate() for _ in range(count)]
    return list(rig.backend.gates)


async def test_each_action_waits_for_a_flush_that_holds_everything_before_it() -> None:
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c1", "touch")), say("done"), tools=[tool])
    async with rig.live() as agent:
        gates = held_flushes(rig, 6)
        ticket = agent.prompt(prompt("p1"))
        steps: list[tuple[Callable[[], bool], str]] = [
            # what must not have happened while this flush is held, and what must be on disk once it was let go
            (lambda: "step/start" not in rig.types, "agent/inbox/spliced"),
            (lambda: rig.model.constructed == 0, "request/context"),
            (lambda: tool.ran == [], "tool/started"),
            (lambda: rig.types.count("step/start") == 1, "step/end"),
            (lambda: rig.model.constructed == 1, "step/start"),
            (lambda: not ticket._settled.is_set(), "turn/end"),
        ]
        for gate, (untouched, last) in zip(gates, steps, strict=True):
            await gate.wait_until_reached()
            assert untouched()
            assert rig.types[-1] == last
            gate.open()
        assert (await ending(ticket)).kind == "completed"
        assert rig.backend.flushes == 6


async def test_a_rejected_flush_before_a_step_makes_no_request_and_keeps_the_prompt() -> None:
    """Field case D8."""
    rig = Rig(say("hi"))
    async with rig.live() as agent:
        rig.backend.failures = [FULL]
        reason = await ending(agent.prompt(prompt("p1")))
        assert reason.error is not None
        assert reason.error.code == "CHECKPOINT_FAILED"
        assert "No space left on device" in reason.error.message
        assert rig.model.constructed == 0
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"
    prompts = [m for m in rig.model.requests[0].messages if text_of(m.content).startswith("prompt")]
    assert [message.id for message in prompts] == ["p1", "p2"]


async def test_a_rejected_flush_before_the_request_means_the_provider_is_not_even_constructed() -> None:
    rig = Rig(say("hi"))
    async with rig.live() as agent:
        rig.backend.failures = [None, FULL]
        assert (await ending(agent.prompt(prompt("p1")))).kind == "error"
        assert rig.model.constructed == 0
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"


async def test_a_rejected_flush_before_a_tool_means_its_body_does_not_run_and_the_model_is_told() -> None:
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c1", "touch"), ("c2", "touch")), say("I see"), tools=[tool])
    async with rig.live() as agent:
        rig.backend.failures = [None, None, FULL]
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    first, second = rig.bodies(ToolResult)
    assert first.block.is_error
    assert "could not be written (No space left on device)" in text_of(first.block.content)
    assert not second.block.is_error
    assert tool.ran == ["c2"]


async def test_after_a_full_disk_the_session_goes_on_without_a_gap() -> None:
    """Field case D8: every flush fails for a whole turn, then there is space again."""
    rig = Rig(say("hi"))
    async with rig.live() as agent:
        rig.backend.failures = [FULL, FULL]
        assert (await ending(agent.prompt(prompt("p1")))).kind == "error"
        assert durable(rig) == []
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"
        assert durable(rig) == rig.types


async def test_a_cancel_during_the_flush_before_a_tool_is_seen_after_it_and_the_call_is_answered() -> None:
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c1", "touch")), tools=[tool])
    async with rig.live() as agent:
        _, _, before_tool, _ = held_flushes(rig, 4)
        for gate in rig.backend.gates:
            if gate is not before_tool:
                gate.open()
        ticket = agent.prompt(prompt("p1"))
        await before_tool.wait_until_reached()
        agent.cancel(USER)
        before_tool.open()
        assert await ending(ticket) == TurnEndReason("aborted", reason=USER)
    (result,) = rig.bodies(ToolResult)
    assert result.error == aborted_before_dispatch().error
    assert tool.ran == []


async def test_a_cancel_during_the_flush_before_a_request_lets_it_end_and_asks_nobody() -> None:
    rig = Rig(say("never heard"))
    async with rig.live() as agent:
        before_step, before_request, final = held_flushes(rig, 3)
        before_step.open()
        ticket = agent.prompt(prompt("p1"))
        await before_request.wait_until_reached()
        agent.cancel(USER)
        await anyio.wait_all_tasks_blocked()
        assert rig.bodies(TurnEnd) == []
        before_request.open()
        final.open()
        assert await ending(ticket) == TurnEndReason("aborted", reason=USER)
        assert rig.model.constructed == 0


async def test_the_next_prompt_and_idle_wait_for_the_final_flush() -> None:
    """Contracts §2.9."""
    rig = Rig(say("one"), say("two"))
    async with rig.live() as agent:
        before_step, before_request, final = held_flushes(rig, 3)
        before_step.open()
        before_request.open()
        first, second = agent.prompt(prompt("p1")), agent.prompt(prompt("p2"))
        await final.wait_until_reached()
        await anyio.wait_all_tasks_blocked()
        assert rig.types[-1] == "turn/end"
        assert agent.running
        assert not first._settled.is_set()
        assert len(rig.model.requests) == 1
        final.open()
        await ending(first)
        await ending(second)
        with anyio.fail_after(5):
            await agent.when_idle()
    assert len(rig.model.requests) == 2


@pytest.mark.parametrize("failure", [FULL, RuntimeError("a bug in a backend")], ids=["full", "raised"])
async def test_a_rejected_final_flush_is_reported_live_and_later_work_goes_on(failure: Exception) -> None:
    rig = Rig(say("one"), say("two"))
    async with rig.live() as agent:
        rig.backend.failures = [None, None, failure]
        first, second = agent.prompt(prompt("p1")), agent.prompt(prompt("p2"))
        await ending(first)
        assert (await ending(second)).kind == "completed"
        assert len(rig.errors) == 1
        assert rig.bodies(TurnEnd)[0].reason.kind == "completed"
        assert durable(rig) == rig.types


HEADER = ModelHeader(CONFIG)


def plain(model: FakeModel, request: ModelRequest) -> Next[AsyncIterator[Chunk]]:
    async def construct() -> AsyncIterator[Chunk]:
        return model.stream(request)

    return construct


async def test_nothing_is_flushed_for_a_request_of_no_session_or_of_one_that_is_not_live() -> None:
    rig = Rig()
    async with rig.live() as agent:
        request = ModelRequest(HEADER, ())
        twin = Session(SessionLog(agent.session.log.header), ("/project",), QUIET)
        for session in (None, twin):
            stream = await rig.policy.llm_stream(ModelCall(request, session), plain(FakeModel(say("hi")), request))
            assert [chunk async for chunk in stream]
        assert rig.backend.flushes == 0


async def test_a_stream_that_nobody_pulls_flushes_nothing() -> None:
    rig, model = Rig(), FakeModel(say("hi"))
    async with rig.live() as agent:
        request = ModelRequest(HEADER, ())
        stream = await rig.policy.llm_stream(ModelCall(request, agent.session), plain(model, request))
        assert (rig.backend.flushes, model.constructed) == (0, 0)
        assert [chunk async for chunk in stream]
        assert (rig.backend.flushes, model.constructed) == (1, 1)


async def test_a_nested_call_reuses_the_checkpoint_of_the_outer_one() -> None:
    rig = Rig()
    async with rig.live() as agent:
        outer = Execution(agent.session, "c1", "touch", {}, Signal(), 1, 1, "read-only")
        nested = Execution(agent.session, "c1:1", "touch", {}, Signal(), 1, 1, "read-only", parent="c1")

        async def body() -> ToolOutcome:
            return ToolOutcome("ran")

        assert (await rig.policy.tools_execute(nested, body)).text == "ran"
        assert rig.backend.flushes == 0
        assert (await rig.policy.tools_execute(outer, body)).text == "ran"
        assert rig.backend.flushes == 1


async def test_without_the_policy_the_loop_still_flushes_each_turn() -> None:
    """Backend without policy is valid and coarser (contracts §4)."""
    rig = Rig(say("hi"))
    parts = [part for part in rig.parts() if part[0] != "checkpoint_policy"]
    async with open_scope("root") as root:
        await root.composite("product", parts)
        await ending(rig.agent.prompt(prompt("p1")))
        assert rig.backend.flushes == 1
        assert durable(rig) == rig.types


async def test_a_cancel_during_the_flush_before_a_step_keeps_the_prompt_and_begins_no_step() -> None:
    rig = Rig(say("next"))
    async with rig.live() as agent:
        before_step, final = held_flushes(rig, 2)
        final.open()
        ticket = agent.prompt(prompt("p1"))
        await before_step.wait_until_reached()
        agent.cancel(USER)
        before_step.open()
        assert await ending(ticket) == TurnEndReason("aborted", reason=USER)
        assert "step/start" not in rig.types
        await ending(agent.prompt(prompt("p2")))
    prompts = [m for m in rig.model.requests[0].messages if text_of(m.content).startswith("prompt")]
    assert [message.id for message in prompts] == ["p1", "p2"]


async def test_a_cancel_during_the_final_flush_changes_neither_this_ending_nor_the_next_turn() -> None:
    rig = Rig(say("one"), say("two"))
    async with rig.live() as agent:
        before_step, before_request, final = held_flushes(rig, 3)
        before_step.open()
        before_request.open()
        ticket = agent.prompt(prompt("p1"))
        await final.wait_until_reached()
        agent.cancel(USER)
        final.open()
        assert (await ending(ticket)).kind == "completed"
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"

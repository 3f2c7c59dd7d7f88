"""Cancelling at every point of a turn: one ending, the log balanced, nothing abandoned (contracts §2.7, §11.5)."""

from __future__ import annotations

import anyio
import pytest

from acp_bridge.agent.ticket import Ticket
from acp_bridge.approval.approval import ApprovalOutcome, ApprovalRequest
from acp_bridge.errors import SessionClosed, UndoTimedOut
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.scope import open_scope
from acp_bridge.session.chunks import TextDelta, ToolCallDelta
from acp_bridge.session.content import text_of
from acp_bridge.session.events import (
    AbortReason,
    ApprovalDecided,
    AssistantMessage,
    InboxSpliced,
    ToolResult,
    TurnEnd,
    TurnEndReason,
)
from tests.support.fakes import FakeTool, Gate, Person, ask_for, say
from tests.support.rig import Rig, ending, prompt

pytestmark = pytest.mark.anyio

USER = AbortReason("user")
BY_USER = TurnEndReason("aborted", reason=USER)


def codes(rig: Rig) -> dict[str, str | None]:
    return {r.block.tool_call_id: r.error.code if r.error else None for r in rig.bodies(ToolResult)}


async def test_a_cancel_before_the_first_chunk_answers_at_once_and_leaves_no_reply() -> None:
    """Field case P6."""
    silent = Gate()
    rig = Rig([silent], say("next"))
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        await silent.wait_until_reached()
        agent.cancel(USER)
        assert await ending(ticket) == BY_USER
        assert rig.model.closed == 1
        assert rig.bodies(AssistantMessage) == []
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"


async def test_a_prompt_and_its_cancel_in_one_instant_have_one_ending_and_no_request() -> None:
    """Field case P6."""
    rig = Rig(say("next"))
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        agent.cancel(USER)
        assert await ending(ticket) == BY_USER
        with anyio.fail_after(5):
            await agent.when_idle()
        assert rig.model.requests == []
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"


async def test_what_was_shown_before_a_cancel_is_kept_as_interrupted_and_its_half_call_is_not() -> None:
    hold = Gate()
    tool = FakeTool("touch")
    rig = Rig([TextDelta(0, "Half a"), ToolCallDelta(1, "c1", "{}", "touch"), hold], say("next"), tools=[tool])
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        await hold.wait_until_reached()
        agent.cancel(USER)
        assert await ending(ticket) == BY_USER
        await ending(agent.prompt(prompt("p2")))
    kept = rig.bodies(AssistantMessage)[0]
    assert (kept.interrupted, text_of(kept.message.content)) == (True, "Half a")
    assert tool.ran == []
    assert "interrupted" in text_of(rig.model.requests[1].messages[2].content)


async def test_a_running_tool_is_awaited_and_its_real_result_is_kept() -> None:
    tool = FakeTool("touch")
    tool.gates["c1"] = body = Gate()
    rig = Rig(ask_for(("c1", "touch"), ("c2", "touch")), say("next"), tools=[tool])
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        await body.wait_until_reached()
        agent.cancel(USER)
        await anyio.wait_all_tasks_blocked()
        assert rig.bodies(TurnEnd) == []
        body.open()
        assert await ending(ticket) == BY_USER
    assert tool.done == ["c1"]
    assert codes(rig) == {"c1": None, "c2": "ABORTED_BEFORE_DISPATCH"}
    assert rig.types.count("tool/call") == 2


async def test_overlapping_tools_are_all_awaited_and_those_that_wait_for_a_place_never_start() -> None:
    tool = FakeTool("look", safe=True)
    tool.gates = {"c1": Gate(), "c2": Gate()}
    calls = [(f"c{n}", "look") for n in (1, 2, 3)]
    rig = Rig(ask_for(*calls), tools=[tool], max_parallel=2)
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        for gate in tool.gates.values():
            await gate.wait_until_reached()
        agent.cancel(USER)
        for gate in tool.gates.values():
            gate.open()
        assert await ending(ticket) == BY_USER
    assert tool.ran == tool.done == ["c1", "c2"]
    assert codes(rig) == {"c1": None, "c2": None, "c3": "ABORTED_BEFORE_DISPATCH"}
    assert rig.types.count("tool/started") == 2


@pytest.mark.parametrize("answers_later", [False, True])
async def test_a_cancel_closes_an_open_question_at_once_and_a_late_allow_runs_nothing(answers_later: bool) -> None:
    """Field case A2."""
    asked = Gate()
    person, tool = Person(asked, "allowed-once"), FakeTool("touch", effect="edit")
    rig = Rig(ask_for(("c1", "touch")), say("next"), tools=[tool], person=person, mode="ask")
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        await asked.wait_until_reached()
        agent.cancel(USER)
        if answers_later:
            asked.open()
        assert await ending(ticket) == BY_USER
        assert [decided.outcome for decided in rig.bodies(ApprovalDecided)] == ["cancelled"]
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"
    assert tool.ran == []
    assert codes(rig) == {"c1": "ABORTED_BEFORE_DISPATCH"}


async def test_a_cancel_discards_the_queue_and_answers_every_prompt() -> None:
    hold = Gate()
    rig = Rig([hold], say("next"))
    async with rig.live() as agent:
        tickets = [agent.prompt(prompt(name)) for name in ("p1", "p2", "p3")]
        await hold.wait_until_reached()
        agent.cancel(USER)
        assert [await ending(ticket) for ticket in tickets] == [BY_USER] * 3
        assert (await ending(agent.prompt(prompt("p4")))).kind == "completed"
    assert len(rig.bodies(TurnEnd)) == 2
    removed = [splice.removed_count for splice in rig.bodies(InboxSpliced) if splice.outcome == "canceled"]
    assert removed == [2]


async def test_the_first_cause_wins() -> None:
    hold = Gate()
    rig = Rig([hold])
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        await hold.wait_until_reached()
        agent.cancel(USER)
        agent.cancel(AbortReason("parent"))
        assert await ending(ticket) == BY_USER


async def test_cancelling_an_idle_agent_does_nothing_to_the_next_prompt() -> None:
    rig = Rig(say("hi"))
    async with rig.live() as agent:
        agent.cancel(USER)
        agent.cancel(USER)
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    assert rig.bodies(InboxSpliced)[0].outcome is None


async def test_an_abort_outranks_the_error_that_it_causes() -> None:
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c1", "touch")), tools=[tool])
    async with rig.live() as agent:
        tool.on_execute = lambda execution: agent.cancel(USER)
        tool.outcomes["c1"] = RuntimeError("torn down")
        assert await ending(agent.prompt(prompt("p1"))) == BY_USER
    assert rig.errors == []


async def test_a_disposed_agent_ends_its_turn_for_real_and_refuses_work() -> None:
    hold = Gate()
    rig = Rig([TextDelta(0, "Half a"), hold])
    async with rig.live() as agent:
        running, waiting = agent.prompt(prompt("p1")), agent.prompt(prompt("p2"))
        await hold.wait_until_reached()
        with anyio.fail_after(5):
            await agent.dispose()
        assert not agent.running
        for ticket in (running, waiting):
            assert await ending(ticket) == TurnEndReason("aborted", reason=AbortReason("disposed"))
        with pytest.raises(SessionClosed):
            agent.prompt(prompt("p3"))
    assert rig.types[-2:] == ["step/end", "turn/end"]
    assert [event.type for event in rig.backend.durable] == rig.types


async def cut_off(rig: Rig, held: Gate) -> Ticket:
    """Prompt, wait until the turn is held, and unload: the hold outlasts the deadline, so all of it is cancelled."""
    tickets: list[Ticket] = []

    async def live() -> None:
        async with open_scope("root") as root:
            await root.composite("product", rig.parts(), undo_seconds=0.05)
            tickets.append(rig.agent.prompt(prompt("p1")))
            await held.wait_until_reached()

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        await live()
    assert caught.group_contains(UndoTimedOut)
    return tickets[0]


async def test_a_tool_that_does_not_end_in_time_is_cut_off_and_its_outcome_called_unknown() -> None:
    tool = FakeTool("touch")
    tool.gates["c2"] = body = Gate()
    rig = Rig(ask_for(("c1", "touch"), ("c2", "touch"), ("c3", "touch")), tools=[tool])
    ticket = await cut_off(rig, body)
    assert (await ending(ticket)).kind == "aborted"
    assert codes(rig) == {"c1": None, "c2": "TOOL_OUTCOME_UNKNOWN", "c3": "TOOL_NOT_STARTED"}
    rig.check()
    assert rig.types[-2:] == ["step/end", "turn/end"]
    assert [event.type for event in rig.backend.durable] == rig.types


async def test_a_question_that_is_cut_off_is_decided_and_its_call_did_not_start() -> None:
    asked = Gate()

    class Deaf(Person):
        """Neither answers nor notices that nobody waits any more."""

        @hookimpl
        async def approval_request(self, request: ApprovalRequest, next: Next[ApprovalOutcome]) -> ApprovalOutcome:
            asked.reached.set()
            with anyio.move_on_after(0.2, shield=True):
                await anyio.Event().wait()
            return "allowed-once"

    tool = FakeTool("touch", effect="edit")
    rig = Rig(ask_for(("c1", "touch")), tools=[tool], person=Deaf(), mode="ask")
    await cut_off(rig, asked)
    assert tool.ran == []
    assert [decided.outcome for decided in rig.bodies(ApprovalDecided)] == ["cancelled"]
    rig.check()


async def test_a_loop_that_breaks_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    tickets: list[Ticket] = []

    async def broken() -> None:
        raise RuntimeError("a bug in the loop")

    async def live() -> None:
        async with rig.live() as agent:
            monkeypatch.setattr(agent, "_serve_turn", broken)
            tickets.append(agent.prompt(prompt("p1")))
            await anyio.sleep_forever()

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        await live()
    assert caught.group_contains(RuntimeError, match="a bug in the loop")
    assert (await ending(tickets[0])).kind == "aborted"

"""One prompt, one turn: the order of events, the endings, and what reaches the model (contracts §2.3 to §2.6)."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from acp_bridge.agent.hooks import PreStep, StepEntry
from acp_bridge.errors import AuthRequired
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.session.chunks import Finish, FinishReason, TextDelta, UsageChunk
from acp_bridge.session.content import PluginSource, Usage, UserSource, text_message, text_of
from acp_bridge.session.events import (
    AssistantMessage,
    NoticeShown,
    PresetSet,
    RequestConfig,
    RequestHeader,
    StepStart,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from acp_bridge.session.session import Session
from acp_bridge.tools.tool import Execution
from tests.session.writing import Writer
from tests.support.fakes import FakeTool, Gate, Move, ask_for, fail, say
from tests.support.rig import CONFIG, Rig, ending, prompt

pytestmark = pytest.mark.anyio


async def test_a_prompt_with_one_tool_writes_the_events_of_the_contract_in_order() -> None:
    """Contracts §2.3 "Observed log", with ours: tool/prepared, tool/started and the note on the session mode."""
    rig = Rig(ask_for(("c1", "touch"), words="so"), say("do", "ne"), tools=[FakeTool("touch")])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    assert rig.types == [
        "permission/preset",
        "sandbox/mode",
        "agent/inbox/spliced",
        "turn/start",
        "agent/inbox/spliced",
        "step/start",
        "user/message",
        "user/message",
        "request/header",
        "request/context",
        "assistant/chunk",
        "assistant/chunk",
        "assistant/chunk",
        "assistant/message",
        "tool/call",
        "tool/prepared",
        "tool/started",
        "tool/result",
        "step/end",
        "step/start",
        "assistant/chunk",
        "assistant/chunk",
        "assistant/chunk",
        "assistant/message",
        "step/end",
        "turn/end",
    ]


async def test_prompts_queue_in_order_one_turn_each_and_each_gets_its_own_answer() -> None:
    """Field case P10."""
    rig = Rig(say("one"), fail("no luck"), say("three"))
    async with rig.live() as agent:
        tickets = [agent.prompt(prompt(name)) for name in ("p1", "p2", "p3")]
        assert [(await ending(ticket)).kind for ticket in tickets] == ["completed", "error", "completed"]
    assert [(start.turn, end.turn) for start, end in zip(rig.bodies(TurnStart), rig.bodies(TurnEnd), strict=True)] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert [m.id for m in rig.bodies(UserMessage) if isinstance(m.source, UserSource)] == ["p1", "p2", "p3"]


async def test_the_model_gets_the_system_prompt_the_tools_and_the_conversation() -> None:
    rig = Rig(say("hi"), tools=[FakeTool("touch"), FakeTool("look")])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    (request,) = rig.model.requests
    assert request.header.system == "Be brief."
    assert [tool.name for tool in request.header.tools or ()] == ["touch", "look"]
    assert [text_of(message.content).split(".")[0] for message in request.messages] == [
        "prompt p1",
        "Session mode: full-access",
    ]


async def test_a_header_is_logged_at_first_when_it_changes_and_when_the_session_is_taken_up_again() -> None:
    rig = Rig(say("1"), say("2"), say("3"))
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
        await ending(agent.prompt(prompt("p2")))
        rig.config = RequestConfig("fake", "model-2")
        await ending(agent.prompt(prompt("p3")))
    later = Rig(say("4"), prior=rig.events)
    later.config = rig.config
    async with later.live() as agent:
        await ending(agent.prompt(prompt("p4")))
    reasons = [(header.header.config.model, header.reason) for header in later.bodies(RequestHeader)]
    assert reasons == [("model-1", "initial"), ("model-2", "change"), ("model-2", "resume")]
    assert later.types.count("request/context") == 2
    assert later.bodies(TurnStart)[-1].turn == 4


async def test_a_model_that_fails_ends_the_turn_with_its_words_and_is_reported_live() -> None:
    """Field case P9."""
    rig = Rig(fail("The provider is overloaded.", "SERVER"), say("better"))
    async with rig.live() as agent:
        reason = await ending(agent.prompt(prompt("p1")))
        assert reason.error is not None
        assert (reason.error.message, reason.error.code) == ("The provider is overloaded.", "SERVER")
        assert rig.errors == ["The provider is overloaded."]
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"
    assert [text_of(m.content)[:9] for m in rig.model.requests[1].messages] == ["prompt p1", "Session m", "prompt p2"]


@pytest.mark.parametrize("last", [fail("Reset."), [RuntimeError("a bug in an adapter")]], ids=["failed", "raised"])
async def test_what_was_shown_of_a_reply_that_broke_stays_in_the_conversation(last: list[Move]) -> None:
    rig = Rig([TextDelta(0, "Half a"), UsageChunk(Usage(7, 2)), *last], say("again"))
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "error"
        await ending(agent.prompt(prompt("p2")))
    kept = rig.bodies(AssistantMessage)[0]
    assert (kept.interrupted, text_of(kept.message.content), kept.usage) == (True, "Half a", Usage(7, 2))
    assert "Half a" in text_of(rig.model.requests[1].messages[2].content)


async def test_half_a_call_is_never_run_when_the_stream_breaks() -> None:
    tool = FakeTool("touch")
    rig = Rig([*ask_for(("c1", "touch"), words="so")[:-1], *fail("Reset.")], tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert tool.ran == []
    assert "tool/call" not in rig.types


async def test_a_failure_inside_the_agent_is_told_without_its_insides_and_written_down() -> None:
    rig = Rig([RuntimeError("secret detail")])
    async with rig.live() as agent:
        reason = await ending(agent.prompt(prompt("p1")))
    assert reason.error is not None
    assert "RuntimeError" in reason.error.message
    assert "secret" not in reason.error.message
    assert rig.notes.failures == ["a turn failed: secret detail"]


@pytest.mark.parametrize("kind", ["max-tokens", "refusal"])
async def test_a_reply_that_the_provider_ended_early_ends_the_turn_with_its_reason_and_runs_no_call(kind: str) -> None:
    tool = FakeTool("touch")
    cut = ask_for(("c1", "touch"), words="so")
    cut[-1] = Finish(FinishReason(kind))  # type: ignore[arg-type]  # the literals
    rig = Rig(cut, tools=[tool])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == kind
    assert tool.ran == []
    assert text_of(rig.bodies(AssistantMessage)[0].message.content) == "so"


async def test_a_turn_ends_by_itself_after_the_most_steps_it_may_take() -> None:
    rig = Rig(*[ask_for((f"c{n}", "touch")) for n in range(3)], tools=[FakeTool("touch")], max_steps=3)
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "max-steps"
    assert len(rig.model.requests) == len(rig.bodies(StepStart)) == 3
    assert len(rig.bodies(ToolResult)) == 3


async def test_an_empty_reply_is_a_completed_turn() -> None:
    rig = Rig(say(), say("hm"))
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
        await ending(agent.prompt(prompt("p2")))
    assert [message.role for message in rig.model.requests[1].messages] == ["user"] * 3


def no_model(session: Session) -> RequestConfig:
    raise AuthRequired("Set a model.")


async def test_a_route_that_nobody_serves_or_that_is_not_set_fails_the_turn_and_not_the_agent() -> None:
    rig = Rig(say("hi"))
    rig.config = RequestConfig("nobody", "x")
    async with rig.live() as agent:
        reason = await ending(agent.prompt(prompt("p1")))
        assert reason.error is not None
        assert reason.error.code == "NO_ADAPTER"
        parts = agent._parts
        agent._parts = msgspec.structs.replace(parts, config=no_model)
        reason = await ending(agent.prompt(prompt("p2")))
        assert reason.error is not None
        assert reason.error.message == "Set a model."
        agent._parts = msgspec.structs.replace(parts, config=lambda session: CONFIG)
        assert (await ending(agent.prompt(prompt("p3")))).kind == "completed"


class Gatekeeper:
    """An outer pre-step listener that blocks or breaks one step."""

    name = "gatekeeper"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(self, answer: StepEntry | Exception) -> None:
        self.answers = [answer]

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    async def agent_pre_step(self, step: PreStep, next: Next[StepEntry]) -> StepEntry:
        if not self.answers:
            return await next()
        answer = self.answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(StepEntry("block", reason="no"), "blocked"), (RuntimeError("x"), "error"), (StepEntry("enter"), "completed")],
    ids=["blocked", "raised", "nothing to enter with"],
)
async def test_a_turn_that_does_not_begin_makes_no_request_and_the_queue_goes_on(
    answer: StepEntry | Exception, kind: str
) -> None:
    rig = Rig(say("hi"), extra=[Gatekeeper(answer)])
    async with rig.live() as agent:
        first, second = agent.prompt(prompt("p1")), agent.prompt(prompt("p2"))
        assert (await ending(first)).kind == kind
        assert (await ending(second)).kind == "completed"
    assert len(rig.model.requests) == 1


@pytest.mark.parametrize("answer", [StepEntry("block"), RuntimeError("x")], ids=["blocked", "raised"])
async def test_a_prompt_whose_turn_was_refused_or_failed_stays_in_the_conversation(
    answer: StepEntry | Exception,
) -> None:
    rig = Rig(say("hi"), extra=[Gatekeeper(answer)])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
        await ending(agent.prompt(prompt("p2")))
    texts = [text_of(message.content) for message in rig.model.requests[0].messages]
    assert [text for text in texts if text.startswith("prompt")] == ["prompt p1", "prompt p2"]


async def test_an_injected_message_wakes_nobody_and_goes_with_the_next_request() -> None:
    note = text_message("note", "by the way", PluginSource("notes"))
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c1", "touch")), say("ok"), tools=[tool])
    async with rig.live() as agent:
        agent.inject(note)
        await anyio.wait_all_tasks_blocked()
        assert rig.model.requests == []
        tool.on_execute = lambda execution: agent.inject(text_message("note 2", "and this", PluginSource("notes")))
        await ending(agent.prompt(prompt("p1")))
    first, second = rig.model.requests
    assert [message.id for message in first.messages[:2]] == ["note", "p1"]
    assert [message.id for message in second.messages[-2:]] == ["result-c1", "note 2"]


async def test_a_message_injected_into_the_last_step_gets_an_answer_in_the_same_turn() -> None:
    gate = Gate()
    rig = Rig([TextDelta(0, "done"), gate, Finish(FinishReason("stop"))], say("that, too"))
    async with rig.live() as agent:
        ticket = agent.prompt(prompt("p1"))
        await gate.wait_until_reached()
        agent.inject(text_message("note", "by the way", PluginSource("notes")))
        gate.open()
        assert (await ending(ticket)).kind == "completed"
    assert [(step.turn, step.step) for step in rig.bodies(StepStart)] == [(1, 1), (1, 2)]


async def test_a_notice_waits_for_a_turn_and_the_model_never_sees_it() -> None:
    gate = Gate()
    rig = Rig([gate, *say("hi")], say("ok"))
    async with rig.live() as agent:
        agent.tell("settings", "was wrong")
        agent.tell("settings", "is right")
        agent.tell("disk", "is full")
        agent.tell("disk", None)
        assert rig.bodies(NoticeShown) == []
        ticket = agent.prompt(prompt("p1"))
        await gate.wait_until_reached()
        assert rig.types[rig.types.index("turn/start") + 1] == "session/notice"
        agent.tell("settings", "changed meanwhile")
        gate.open()
        await ending(ticket)
        await ending(agent.prompt(prompt("p2")))
    assert [notice.text for notice in rig.bodies(NoticeShown)] == ["is right", "changed meanwhile"]
    seen = [text_of(message.content) for call in rig.model.requests for message in call.messages]
    assert not any("is right" in text or "changed" in text for text in seen)


async def test_what_waited_in_the_queue_of_an_earlier_process_does_not_run_by_itself() -> None:
    """Field case R2. A log that was not repaired: the loop itself must not take the leftovers for its own."""
    writer = Writer()
    writer.queue("left over")
    rig = Rig(say("hi"), prior=writer.events)
    async with rig.live() as agent:
        await anyio.wait_all_tasks_blocked()
        assert not agent.running
        assert rig.model.requests == []
        await ending(agent.prompt(prompt("p1")))
    assert len(rig.model.requests) == 1


def narrow_the_mode(execution: Execution) -> None:
    execution.session.log.append(PresetSet("read-only"))


async def test_the_note_on_the_session_mode_stands_once_and_again_when_the_mode_changes() -> None:
    tool = FakeTool("touch")
    rig = Rig(say("1"), ask_for(("c1", "touch")), say("2"), say("3"), tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
        # In the middle of a turn, too: the very next request must know.
        tool.on_execute = narrow_the_mode
        await ending(agent.prompt(prompt("p2")))
        await ending(agent.prompt(prompt("p3")))
    modes = [
        [text_of(m.content).split(".")[0] for m in request.messages if isinstance(m.source, PluginSource)]
        for request in rig.model.requests
    ]
    full, narrow = "Session mode: full-access", "Session mode: read-only"
    assert modes == [[full], [full], [full, narrow], [full, narrow]]

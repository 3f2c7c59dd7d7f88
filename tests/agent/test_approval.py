"""Questions: one logged answer each; everything but an explicit allow is a no (contracts §7; field cases A1, A10)."""

from __future__ import annotations

import pytest

from acp_bridge.approval.approval import Approval, ApprovalRequest
from acp_bridge.approval.modes import MODES, decide, preset_of, sandbox_mode_of, strictest
from acp_bridge.session.content import text_of
from acp_bridge.session.events import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalPolicySet,
    ApprovalRule,
    Body,
    Event,
    Presentation,
    PresetSet,
    SandboxModeSet,
    ToolResult,
)
from acp_bridge.session.signal import Signal
from acp_bridge.tools.tool import Access, Decision, Prepared
from tests.support.fakes import FakeTool, Person, ask_for, say
from tests.support.rig import Rig, ending, prompt

pytestmark = pytest.mark.anyio


async def asked(person: Person, *, calls: int = 1) -> tuple[Rig, FakeTool]:
    """A turn in mode `ask` whose model wants to edit."""
    tool = FakeTool("touch", effect="edit")
    rig = Rig(
        ask_for(*[(f"c{n}", "touch") for n in range(1, calls + 1)]), say("ok"), tools=[tool], person=person, mode="ask"
    )
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    return rig, tool


def told(rig: Rig) -> list[str]:
    return [text_of(result.block.content) for result in rig.bodies(ToolResult)]


async def test_an_allow_runs_this_call_and_the_next_one_asks_again() -> None:
    person = Person("allowed-once", "rejected")
    rig, tool = await asked(person, calls=2)
    assert tool.ran == ["c1"]
    assert [request.call_id for request in person.asked] == ["c1", "c2"]
    assert [question.call_id for question in rig.bodies(ApprovalAsked)] == ["c1", "c2"]
    assert [answer.outcome for answer in rig.bodies(ApprovalDecided)] == ["allowed-once", "rejected"]


async def test_what_is_asked_is_what_was_prepared() -> None:
    person = Person("allowed-once")
    rig, _ = await asked(person)
    assert person.asked[0].prepared.presentation == Presentation("Touch", "other")
    assert rig.types[rig.types.index("tool/prepared") + 1 :][:3] == [
        "approval/asked",
        "approval/decided",
        "tool/started",
    ]


@pytest.mark.parametrize(
    ("person", "outcome", "said"),
    [
        (Person("rejected"), "rejected", "The user refused this call"),
        (Person("cancelled"), "cancelled", "was cancelled, so it did not run"),
        (Person("unavailable"), "unavailable", "nobody could be asked"),
        (Person(), "unavailable", "nobody could be asked"),
        (Person(RuntimeError("the editor is gone")), "unavailable", "nobody could be asked"),
        (Person("yes, sure"), "unavailable", "nobody could be asked"),  # type: ignore[arg-type]  # a rogue answer
        (Person(None), "unavailable", "nobody could be asked"),  # type: ignore[arg-type]  # a rogue answer
    ],
    ids=["rejected", "cancelled", "unavailable", "nobody there", "raises", "rogue", "nothing"],
)
async def test_every_other_answer_is_a_no_that_the_model_reads_and_the_turn_goes_on(
    person: Person, outcome: str, said: str
) -> None:
    rig, tool = await asked(person)
    assert tool.ran == []
    assert [answer.outcome for answer in rig.bodies(ApprovalDecided)] == [outcome]
    assert said in told(rig)[0]
    assert len(rig.model.requests) == 2


async def test_under_the_policy_never_nobody_is_asked_at_all() -> None:
    person, tool = Person("allowed-once"), FakeTool("touch", effect="edit")
    rig = Rig(ask_for(("c1", "touch")), say("ok"), tools=[tool], person=person, mode="ask")
    async with rig.live() as agent:
        agent.session.log.append(ApprovalPolicySet("never"))
        await ending(agent.prompt(prompt("p1")))
    assert person.asked == []
    assert tool.ran == []
    assert [answer.outcome for answer in rig.bodies(ApprovalDecided)] == ["rejected"]


async def test_the_last_policy_in_the_log_counts() -> None:
    tool = FakeTool("touch", effect="edit")
    rig = Rig(ask_for(("c1", "touch")), say("ok"), tools=[tool], person=Person("allowed-once"), mode="ask")
    async with rig.live() as agent:
        agent.session.log.append(ApprovalPolicySet("never"))
        agent.session.log.append(ApprovalPolicySet("ask"))
        await ending(agent.prompt(prompt("p1")))
    assert tool.ran == ["c1"]


async def test_a_question_outside_a_turn_is_refused_before_anything_is_logged() -> None:
    rig = Rig(say("hi"))
    async with rig.live() as agent:
        approval = Approval(rig.notes)
        prepared = Prepared(Presentation("x", "other"), Access("edit"))
        request = ApprovalRequest(agent.session, "touch", "c1", prepared, Signal())
        for _ in range(2):
            with pytest.raises(RuntimeError, match="outside an open turn"):
                await approval.request(request)
            await ending(agent.prompt(prompt("p1"))) if not rig.model.requests else None
    assert "approval/asked" not in rig.types


async def test_a_call_that_was_refused_for_good_is_not_asked_about_again_and_another_one_is() -> None:
    """Field case A10."""
    person, tool = Person("rejected", "allowed-once"), FakeTool("touch", effect="edit")
    same, other = ("touch", '{"path": "a"}'), ("touch", '{"path": "b"}')
    rig = Rig(
        ask_for(("c1", *same)),
        ask_for(("c2", *same), ("c3", *other)),
        say("ok"),
        tools=[tool],
        person=person,
        mode="ask",
    )
    async with rig.live() as agent:
        agent.session.log.append(ApprovalRule("deny", "touch", '{"path": "z"}'))
        rig.model.replies.insert(1, say("hm"))
        await ending(agent.prompt(prompt("p1")))
        agent.session.log.append(ApprovalRule("deny", *same))
        assert (await ending(agent.prompt(prompt("p2")))).kind == "completed"
    assert [request.call_id for request in person.asked] == ["c1", "c3"]
    assert tool.ran == ["c3"]
    assert "refused this very call for the rest of the session" in told(rig)[1]


async def test_a_refusal_for_good_holds_in_a_mode_that_asks_nothing() -> None:
    tool = FakeTool("touch", effect="edit")
    rig = Rig(ask_for(("c1", "touch")), say("ok"), tools=[tool], mode="full-access")
    async with rig.live() as agent:
        agent.session.log.append(ApprovalRule("deny", "touch", "{}"))
        await ending(agent.prompt(prompt("p1")))
    assert tool.ran == []


ROOTS = ("/project",)
INSIDE, OUTSIDE, TRICKY = ("/project/a",), ("/project/a", "/etc/passwd"), ("/project-2/a",)

PERMISSIONS = [
    # mode, effect, paths, decision (design §14)
    ("read-only", "none", (), "allow"),
    ("read-only", "read", INSIDE, "allow"),
    ("read-only", "read", OUTSIDE, "ask"),
    ("read-only", "edit", INSIDE, "deny"),
    ("read-only", "edit", OUTSIDE, "deny"),
    ("read-only", "execute", INSIDE, "ask"),
    ("ask", "none", (), "allow"),
    ("ask", "read", INSIDE, "allow"),
    ("ask", "read", OUTSIDE, "ask"),
    ("ask", "read", TRICKY, "ask"),
    ("ask", "edit", INSIDE, "ask"),
    ("ask", "edit", OUTSIDE, "ask"),
    ("ask", "execute", INSIDE, "ask"),
    ("auto-edit", "none", (), "allow"),
    ("auto-edit", "read", OUTSIDE, "ask"),
    ("auto-edit", "edit", INSIDE, "allow"),
    ("auto-edit", "edit", OUTSIDE, "ask"),
    ("auto-edit", "edit", TRICKY, "ask"),
    ("auto-edit", "execute", INSIDE, "allow"),
    ("full-access", "read", OUTSIDE, "allow"),
    ("full-access", "edit", OUTSIDE, "allow"),
    ("full-access", "execute", OUTSIDE, "allow"),
]


@pytest.mark.parametrize(("mode", "effect", "paths", "decision"), PERMISSIONS)
def test_each_mode_decides_by_the_table(mode: str, effect: str, paths: tuple[str, ...], decision: str) -> None:
    access = Access(effect, paths)  # type: ignore[arg-type]  # the literals, from the table
    assert decide(MODES[mode], access, ROOTS).kind == decision


@pytest.mark.parametrize("mode", MODES)
def test_a_wider_sandbox_always_asks_and_says_what_for(mode: str) -> None:
    access = Access("execute", INSIDE, "danger-full-access", "to install it")
    decision = decide(MODES[mode], access, ROOTS)
    assert (decision.kind, decision.reason) == ("ask", "run with sandbox danger-full-access: to install it")


@pytest.mark.parametrize(
    ("mode", "sandbox"),
    [
        ("read-only", "read-only"),
        ("ask", "workspace-write"),
        ("auto-edit", "workspace-write"),
        ("full-access", "danger-full-access"),
    ],
)
def test_each_mode_has_its_sandbox(mode: str, sandbox: str) -> None:
    assert MODES[mode].sandbox == sandbox


def logged(*bodies: Body) -> list[Event]:
    return [Event(body.TYPE, seq, 0, body) for seq, body in enumerate(bodies)]


def test_an_unknown_or_absent_mode_is_the_default_and_an_absent_sandbox_the_narrowest() -> None:
    assert preset_of([]).id == preset_of(logged(PresetSet("root"))).id == "ask"
    assert preset_of(logged(PresetSet("full-access"), PresetSet("read-only"))).id == "read-only"
    assert sandbox_mode_of([]) == "read-only"
    assert sandbox_mode_of(logged(SandboxModeSet("danger-full-access"), SandboxModeSet("workspace-write"))) == (
        "workspace-write"
    )


def test_of_two_decisions_the_stricter_one_holds() -> None:
    order = [Decision(kind) for kind in ("allow", "ask", "deny", "cancel")]
    for index, one in enumerate(order):
        for other in order[index:]:
            assert strictest(one, other) == strictest(other, one) == other


async def test_without_a_policy_plugin_the_mode_of_the_log_still_holds() -> None:
    tool = FakeTool("touch", effect="edit")
    rig = Rig(ask_for(("c1", "touch")), say("ok"), tools=[tool], mode="read-only")
    rig._plugins = [plugin for plugin in rig._plugins if plugin.name != "permission_modes"]
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert tool.ran == []
    assert "read-only mode" in told(rig)[0]

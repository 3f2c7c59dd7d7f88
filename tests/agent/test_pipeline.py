"""The way of one call through the gates: whatever goes wrong becomes a result that the model reads (contracts §3.3)."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.errors import SandboxUnavailable, ToolFailed
from acp_bridge.lifecycle.hooks import Next, hookimpl
from acp_bridge.lifecycle.kernel import Context, ServiceKey
from acp_bridge.session.content import ToolCallBlock, text_of
from acp_bridge.session.events import AbortReason, AssistantMessage, SandboxModeSet, Todo, ToolResult
from acp_bridge.tools.tool import Decision, Execution, ToolOutcome
from tests.support.fakes import FakeTool, Person, ask_for, say
from tests.support.rig import Rig, ending, prompt

pytestmark = pytest.mark.anyio

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def results(rig: Rig) -> dict[str, tuple[str, str | None]]:
    """Text and code of each result, by call."""
    return {
        result.block.tool_call_id: (text_of(result.block.content), result.error.code if result.error else None)
        for result in rig.bodies(ToolResult)
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("null", "arguments must be an object, not null"),
        ("[]", "arguments must be an object, not array"),
        ('"x"', "arguments must be an object, not string"),
        ('{"path": "a', "arguments must be an object, not string"),
        ('{"path": 5}', "arguments.path must be a string, not integer"),
        ("", "arguments.path is required"),
        ("{}", "arguments.path is required"),
    ],
)
async def test_malformed_arguments_fail_the_call_and_its_sibling_still_runs(arguments: str, complaint: str) -> None:
    """Field case P13."""
    tool = FakeTool("write", parameters=PATH)
    rig = Rig(ask_for(("bad", "write", arguments), ("good", "write", '{"path": "a"}')), say("I see"), tools=[tool])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    assert results(rig) == {"bad": (f"Error: {complaint}", "INVALID_ARGS"), "good": ("did good", None)}
    assert tool.ran == ["good"]
    assert rig.types.count("tool/prepared") == 1


async def test_a_huge_argument_is_kept_as_the_model_sent_it() -> None:
    tool = FakeTool("write", parameters=PATH)
    huge = '{"path": "' + "x" * 1_000_000 + '"}'
    rig = Rig(ask_for(("c1", "write", huge)), say("ok"), tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert tool.ran == ["c1"]
    (asked,) = [b for b in rig.bodies(AssistantMessage)[0].message.content if isinstance(b, ToolCallBlock)]
    assert asked.arguments == huge


async def test_a_call_to_a_tool_that_does_not_exist_fails_by_name() -> None:
    rig = Rig(ask_for(("c1", "teleport")), say("I see"))
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert results(rig) == {"c1": ("Error: there is no tool 'teleport'", "UNKNOWN_TOOL")}


async def test_a_repeated_call_id_is_visible_and_not_run_and_a_reused_one_gets_a_name_of_its_own() -> None:
    """Field case P13; some providers count from zero in each reply."""
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c", "touch"), ("c", "touch"), ("", "touch")), ask_for(("c", "touch")), say("ok"), tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert tool.ran == ["c", "call-1-1-2", "c-1-2-0"]
    found = results(rig)
    assert list(found) == ["c", "c-1-1-1", "call-1-1-2", "c-1-2-0"]
    assert "used the same call id twice" in found["c-1-1-1"][0]


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (ToolFailed("the file is gone"), "Error: the file is gone", None),
        (ToolFailed("too slow", "TOOL_TIMEOUT"), "Error: too slow", "TOOL_TIMEOUT"),
        (SandboxUnavailable("no bubblewrap"), "Error: no bubblewrap", "SANDBOX_UNAVAILABLE"),
        (ValueError("secret"), "Error: the tool touch failed inside the agent (ValueError)", None),
    ],
)
@pytest.mark.parametrize("where", ["prepare", "execute"])
async def test_what_a_tool_raises_is_its_result(error: Exception, said: str, code: str | None, where: str) -> None:
    tool = FakeTool("touch")
    if where == "prepare":
        tool.prepare_failure = error
    else:
        tool.outcomes["c1"] = error
    rig = Rig(ask_for(("c1", "touch")), say("I see"), tools=[tool])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    assert results(rig) == {"c1": (said, code)}


async def test_a_tool_that_cannot_say_whether_it_may_overlap_runs_alone() -> None:
    tool = FakeTool("touch", safe=ValueError("x"))
    rig = Rig(ask_for(("c1", "touch"), ("c2", "touch")), say("ok"), tools=[tool])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    assert tool.done == ["c1", "c2"]


@pytest.mark.parametrize(
    ("outcome", "text", "meta"),
    [
        (ToolOutcome("a\ud800b", meta={"x": 1}), "a\\ud800b", None),
        (ToolOutcome("ok", meta={"x": "\ud800"}), "ok", None),
        (ToolOutcome("ok", meta={"x": object()}), "ok", None),
        (ToolOutcome("ok", meta={"x": float("nan"), "y": (1, 2)}), "ok", {"x": None, "y": [1, 2]}),
    ],
)
async def test_a_result_is_in_memory_what_the_log_can_hold(
    outcome: ToolOutcome, text: str, meta: dict[str, Any] | None
) -> None:
    tool = FakeTool("touch")
    tool.outcomes["c1"] = outcome
    rig = Rig(ask_for(("c1", "touch")), say("ok"), tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    (result,) = rig.bodies(ToolResult)
    assert (text_of(result.block.content), result.meta) == (text, meta)


async def test_a_plan_that_a_tool_wrote_is_logged_before_its_result_and_a_failed_one_is_not() -> None:
    tool = FakeTool("plan")

    def write(execution: Execution) -> None:
        execution.todos = (Todo(execution.call_id, "pending"),)

    tool.on_execute = write
    tool.outcomes["c2"] = ToolFailed("no")
    rig = Rig(ask_for(("c1", "plan"), ("c2", "plan")), say("ok"), tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert [kind for kind in rig.types if kind in ("todo/write", "tool/result")] == [
        "todo/write",
        "tool/result",
        "tool/result",
    ]


async def test_a_call_runs_in_the_sandbox_mode_of_its_own_start() -> None:
    """The person narrows it while an earlier call of the same reply runs."""
    modes: list[str] = []
    tool = FakeTool("run")

    def narrow(execution: Execution) -> None:
        modes.append(execution.sandbox_mode)
        execution.session.log.append(SandboxModeSet("read-only"))

    tool.on_execute = narrow
    rig = Rig(ask_for(("c1", "run"), ("c2", "run")), say("ok"), tools=[tool])
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert modes == ["danger-full-access", "read-only"]


class Policy:
    """An outer listener of the tool hooks: `decides` before a call, `wraps` around its body."""

    name = "outer_policy"
    needs: tuple[ServiceKey[Any], ...] = ()

    def __init__(
        self, decides: Decision | Exception | None = None, wraps: ToolOutcome | Exception | None = None
    ) -> None:
        self._decides = decides
        self._wraps = wraps

    async def mount(self, context: Context) -> None:
        """Hooks only."""

    @hookimpl
    async def tools_pre_execute(self, execution: Execution, next: Next[Decision]) -> Decision:
        if isinstance(self._decides, Exception):
            raise self._decides
        return self._decides or await next()

    @hookimpl
    async def tools_execute(self, execution: Execution, next: Next[ToolOutcome]) -> ToolOutcome:
        if isinstance(self._wraps, Exception):
            raise self._wraps
        return self._wraps or await next()


@pytest.mark.parametrize(
    ("policy", "said", "code"),
    [
        (Policy(Decision("deny", "not here")), "Error: not here", None),
        (Policy(Decision("deny")), "Error: this call is not allowed", None),
        (Policy(Decision("cancel")), "Error: tool call aborted before dispatch", "ABORTED_BEFORE_DISPATCH"),
        (Policy(RuntimeError("x")), "Error: the tool touch failed inside the agent (RuntimeError)", None),
        (Policy(wraps=ToolOutcome("instead")), "instead", None),
        (Policy(wraps=RuntimeError("x")), "Error: the tool touch failed inside the agent (RuntimeError)", None),
    ],
    ids=["denies", "denies without a word", "cancels", "raises", "replaces", "raises around the body"],
)
async def test_a_policy_that_does_not_let_a_call_through_leaves_a_result_and_the_next_call_runs(
    policy: Policy, said: str, code: str | None
) -> None:
    tool = FakeTool("touch")
    rig = Rig(ask_for(("c1", "touch")), say("I see"), tools=[tool], extra=[policy])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "completed"
    assert results(rig) == {"c1": (said, code)}
    assert tool.ran == []


class Guard(Policy):
    """Forbids by name, after every allow."""

    name = "guard"

    def __init__(self, says: str | Exception) -> None:
        super().__init__()
        self._says = says

    @hookimpl
    def tools_guard(self, execution: Execution) -> str | None:
        if execution.name != "touch":
            return None
        if isinstance(self._says, Exception):
            raise self._says
        return self._says


@pytest.mark.parametrize("allows", [Policy(Decision("allow")), Policy(Decision("ask"))], ids=["allowed", "answered"])
@pytest.mark.parametrize(
    ("guard", "said"),
    [
        (Guard("forbidden here"), "Error: forbidden here"),
        (Guard(RuntimeError("x")), "Error: the tool touch failed inside the agent (RuntimeError)"),
    ],
    ids=["forbids", "raises"],
)
async def test_a_guard_forbids_what_policy_or_person_allowed(allows: Policy, guard: Guard, said: str) -> None:
    """Contracts §3.3, phase 5: no guard can re-open, and nothing re-opens what a guard forbade."""
    touch, other = FakeTool("touch"), FakeTool("other")
    calls = ask_for(("c1", "touch"), ("c2", "other"))
    person = Person("allowed-once", "allowed-once")
    rig = Rig(calls, say("I see"), tools=[touch, other], extra=[allows, guard], person=person)
    async with rig.live() as agent:
        await ending(agent.prompt(prompt("p1")))
    assert results(rig)["c1"] == (said, None)
    assert (touch.ran, len(other.ran)) == ([], 1)


async def test_a_denial_outranks_an_abort() -> None:
    class Late(Policy):
        @hookimpl
        async def tools_pre_execute(self, execution: Execution, next: Next[Decision]) -> Decision:
            execution.signal.abort(AbortReason("user"))
            return Decision("deny", "not here")

    rig = Rig(ask_for(("c1", "touch")), tools=[FakeTool("touch")], extra=[Late()])
    async with rig.live() as agent:
        assert (await ending(agent.prompt(prompt("p1")))).kind == "aborted"
    assert results(rig) == {"c1": ("Error: not here", None)}

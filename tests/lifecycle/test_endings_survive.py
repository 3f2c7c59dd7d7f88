"""Why persistence, checkpoint policy and bridge are one composite effect and not three siblings (design §4, §1.4).

The same parts are mounted both ways and unloaded while a tool runs: a real store, a real agent in mid-call, the real
policy, and a backend that keeps what was flushed and hears nothing once it is unloaded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from acp_bridge.lifecycle.scope import Scope, open_scope
from acp_bridge.session.check import check_log
from acp_bridge.session.events import AbortReason, Event, TurnEnd, TurnEndReason
from acp_bridge.session.repair import closers
from tests.support.fakes import FakeTool, Gate, ask_for
from tests.support.rig import Rig, ending, prompt

pytestmark = pytest.mark.anyio

ENDING = ["tool/result", "step/end", "turn/end"]
Mount = Callable[[Scope, Rig], Awaitable[None]]


async def as_composite(root: Scope, rig: Rig) -> None:
    await root.composite("product", rig.parts())


async def as_siblings(root: Scope, rig: Rig) -> None:
    for name, make in rig.parts():
        await root.effect(name, make())


async def unloaded_in_mid_call(mount: Mount) -> Rig:
    """A session whose process was asked to end while a tool ran; the tool finished its work."""
    tool = FakeTool("touch")
    tool.gates["c1"] = body = Gate()
    rig = Rig(ask_for(("c1", "touch")), tools=[tool])
    async with open_scope("root") as root:
        await mount(root, rig)
        ticket = rig.agent.prompt(prompt("p1"))
        await body.wait_until_reached()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(root.dispose)
            await anyio.wait_all_tasks_blocked()
            body.open()
        assert (await ending(ticket)).kind == "aborted"
    assert tool.done == ["c1"]
    return rig


def in_memory(rig: Rig) -> list[Event]:
    """The log as the agent left it, whoever still listened; its chunks are gone."""
    return rig.agent.session.log.events


@pytest.mark.parametrize("mount", [as_composite, as_siblings])
async def test_either_way_the_agent_itself_comes_to_a_real_end(mount: Mount) -> None:
    events = in_memory(await unloaded_in_mid_call(mount))
    assert [event.type for event in events[-3:]] == ENDING
    assert check_log(events, gaps=True) == []


async def test_a_composite_keeps_the_real_ending_on_disk() -> None:
    rig = await unloaded_in_mid_call(as_composite)
    assert rig.backend.durable == rig.events
    assert rig.backend.durable[-1].data == TurnEnd(1, TurnEndReason("aborted", reason=AbortReason("disposed")))
    assert closers(rig.backend.durable) == []


async def test_siblings_lose_the_real_ending_and_the_next_start_tells_a_lie_instead() -> None:
    rig = await unloaded_in_mid_call(as_siblings)
    kept = rig.backend.durable
    assert [event.type for event in in_memory(rig) if event.seq > kept[-1].seq] == ENDING
    result, _, turn_end = (event.data for event in closers(kept))
    assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
    assert turn_end.reason.kind == "interrupted"

"""update_plan: the whole list, at most one entry in progress."""

from __future__ import annotations

import pytest

from acp_bridge.session.events import Todo
from acp_bridge_plugins.tools_plan.update_plan import UpdatePlan
from tests.tools_files.bench import Bench

pytestmark = pytest.mark.anyio


async def test_the_list_replaces_the_plan_and_touches_nothing(bench: Bench) -> None:
    entries = [
        {"content": "look", "status": "completed", "priority": "high"},
        {"content": "act", "status": "in_progress"},
    ]
    execution = await bench.prepared(UpdatePlan(), entries=entries)
    assert execution.prepared is not None
    assert execution.prepared.access.effect == "none"
    assert execution.prepared.presentation.title == "Update the plan (1 of 2 done)"
    assert execution.todos is None
    outcome = await UpdatePlan().execute(execution)
    assert outcome.text == "The plan is updated: 1 of 2 done."
    assert execution.todos == (Todo("look", "completed", "high"), Todo("act", "in_progress", "medium"))


async def test_an_empty_list_clears_the_plan(bench: Bench) -> None:
    execution = await bench.prepared(UpdatePlan(), entries=[])
    await UpdatePlan().execute(execution)
    assert execution.todos == ()


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}], "at most one"),
        ([{"content": "  ", "status": "pending"}], "needs a content"),
    ],
)
async def test_a_list_that_makes_no_sense_is_explained(
    bench: Bench, entries: list[dict[str, str]], sentence: str
) -> None:
    assert sentence in await bench.refused(UpdatePlan(), code="INVALID_ARGS", entries=entries)

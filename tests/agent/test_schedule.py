"""Scheduling the calls of one step, for any mix of calls and any order in which bodies end (contracts §3.5, §11.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_bridge.session.events import AbortReason, Header
from acp_bridge.session.log import SessionLog
from acp_bridge.session.session import Session
from acp_bridge.session.signal import Signal
from acp_bridge.tools.outcomes import denied, failed
from acp_bridge.tools.schedule import run_calls
from acp_bridge.tools.tool import Execution, ToolOutcome
from tests.support.quiet import QUIET

pytestmark = pytest.mark.anyio

SESSION = Session(SessionLog(Header(1, "s", 0)), ("/project",), QUIET)


@dataclass
class Runner:
    """Notes what happens. Bodies end in the order of `ranks` (by call number), one after the other."""

    safe: Sequence[bool]
    ranks: Sequence[int] = ()
    denies: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()
    breaks_at: tuple[str, int] | None = None
    aborts_in_body: int | None = None
    journal: list[tuple[str, int]] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    most_running: int = 0
    signal: Signal = field(default_factory=Signal)

    def executions(self) -> list[Execution]:
        return [Execution(SESSION, str(n), "t", {}, self.signal, 1, 1, "read-only") for n in range(len(self.safe))]

    def note(self, what: str, number: int) -> None:
        self.journal.append((what, number))
        if self.breaks_at == (what, number):
            raise RuntimeError(f"{what} {number}")

    def parallel(self, execution: Execution) -> bool:
        return self.safe[int(execution.call_id)]

    async def admit(self, execution: Execution) -> ToolOutcome | None:
        number = int(execution.call_id)
        self.note("admit", number)
        await anyio.lowlevel.checkpoint()
        return denied("no") if number in self.denies else None

    async def dispatch(self, execution: Execution) -> ToolOutcome:
        number = int(execution.call_id)
        self.running.add(number)
        self.most_running = max(self.most_running, len(self.running))
        self.journal.append(("start", number))
        try:
            for _ in range(self.ranks[number] if self.ranks else 0):
                await anyio.lowlevel.checkpoint()
            if number == self.aborts_in_body:
                self.signal.abort(AbortReason("user"))
            self.note("end", number)
        finally:
            self.running.discard(number)
        return ToolOutcome(f"ran {number}")

    async def run(self, cap: int = 10) -> dict[int, ToolOutcome]:
        outcomes: dict[int, ToolOutcome] = {}

        def commit(execution: Execution, outcome: ToolOutcome) -> None:
            self.note("commit", int(execution.call_id))
            outcomes[int(execution.call_id)] = outcome

        await run_calls(
            self.executions(),
            self,
            begin=lambda execution: self.note("begin", int(execution.call_id)),
            commit=commit,
            refused=lambda execution: failed("repeated") if int(execution.call_id) in self.repeated else None,
            cap=cap,
        )
        return outcomes

    def numbers(self, what: str) -> list[int]:
        return [number for happened, number in self.journal if happened == what]

    def place(self, what: str, number: int) -> int:
        return self.journal.index((what, number))


@st.composite
def runners(draw: st.DrawFn) -> Runner:
    count = draw(st.integers(1, 7))
    numbers = st.integers(0, count - 1)
    return Runner(
        draw(st.lists(st.booleans(), min_size=count, max_size=count)),
        draw(st.lists(st.integers(0, 6), min_size=count, max_size=count)),
        frozenset(draw(st.sets(numbers, max_size=2))),
        frozenset(draw(st.sets(numbers, max_size=2))),
    )


@given(runners(), st.integers(1, 4))
@settings(max_examples=150)
def test_every_call_is_begun_admitted_and_answered_in_model_order_whatever_ends_first(runner: Runner, cap: int) -> None:
    outcomes = anyio.run(runner.run, cap)
    everything = list(range(len(runner.safe)))
    assert runner.numbers("begin") == runner.numbers("commit") == everything
    assert runner.numbers("admit") == [n for n in everything if n not in runner.repeated]
    assert sorted(outcomes) == everything
    for number in everything:
        ran = number not in runner.denies | runner.repeated
        assert (outcomes[number].text == f"ran {number}") is ran
        assert (number in runner.numbers("start")) is ran
        assert runner.place("begin", number) < runner.place("commit", number)


@given(runners(), st.integers(1, 4))
@settings(max_examples=150)
def test_an_exclusive_call_has_the_step_to_itself_and_the_cap_is_kept(runner: Runner, cap: int) -> None:
    anyio.run(runner.run, cap)
    assert runner.most_running <= cap
    for number in runner.numbers("start"):
        if not runner.safe[number]:
            start, end = runner.place("start", number), runner.place("end", number)
            assert not [entry for entry in runner.journal[start + 1 : end] if entry[0] in ("begin", "start", "end")]
            earlier = [n for n in runner.numbers("start") if n < number]
            assert all(runner.place("end", n) < start for n in earlier)


@given(runners(), st.integers(1, 3), st.data())
@settings(max_examples=150)
def test_an_abort_lets_started_work_end_and_still_answers_every_call(
    runner: Runner, cap: int, data: st.DataObject
) -> None:
    runner.aborts_in_body = data.draw(st.integers(0, len(runner.safe) - 1))
    outcomes = anyio.run(runner.run, cap)
    assert sorted(runner.numbers("start")) == sorted(runner.numbers("end"))
    assert runner.numbers("begin") == runner.numbers("commit") == list(range(len(runner.safe)))
    if runner.signal.aborted:
        aborted = runner.place("end", runner.aborts_in_body)
        late = [number for what, number in runner.journal[aborted:] if what == "begin"]
        assert all(outcomes[n].error and outcomes[n].error.code == "ABORTED_BEFORE_DISPATCH" for n in late)  # type: ignore[union-attr]  # checked


@given(runners(), st.sampled_from(["begin", "admit", "end", "commit"]), st.data())
@settings(max_examples=150)
def test_a_failure_inside_the_schedule_ends_started_work_first_and_makes_nothing_up(
    runner: Runner, stage: str, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(runner.safe) - 1))
    runner.breaks_at = (stage, number)
    skipped = {"admit": runner.repeated, "end": runner.repeated | runner.denies}.get(stage, frozenset())
    if number in skipped:
        anyio.run(runner.run)
        return
    with pytest.raises(RuntimeError, match=f"{stage} {number}"):
        anyio.run(runner.run)
    assert not runner.running
    assert sorted(runner.numbers("start")) == sorted(runner.numbers("end"))
    assert runner.numbers("commit") == list(range(len(runner.numbers("commit"))))
    assert set(runner.numbers("commit")) <= set(runner.numbers("begin"))


async def test_safe_calls_really_overlap() -> None:
    runner = Runner([True] * 3, [8, 4, 0])
    await runner.run()
    assert runner.most_running == 3
    assert runner.numbers("end") == [2, 1, 0]
    assert runner.numbers("commit") == [0, 1, 2]


async def test_a_call_is_classified_right_before_it_starts() -> None:
    class Changing(Runner):
        def parallel(self, execution: Execution) -> bool:
            # The registry changed when the first call had begun.
            return execution.call_id != "1" or ("begin", 0) not in self.journal

    runner = Changing([True] * 3, [2, 0, 0])
    await runner.run()
    assert runner.place("end", 0) < runner.place("begin", 1)

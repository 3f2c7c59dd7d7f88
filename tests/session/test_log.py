"""The log in memory, seq runs, and the store that publishes it (contracts §1.2, §1.11; design §5)."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge import hookspecs
from acp_bridge.errors import CheckpointFailed, SessionAlreadyExists, SessionClosed
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.hooks import Hooks, hookimpl
from acp_bridge.session.events import AssistantChunk, EndSeed, Event, StepStart, TurnStart
from acp_bridge.session.log import SessionLog, runs
from acp_bridge.session.session import Session, SessionStore
from tests.session.writing import HEADER, Writer, text

pytestmark = pytest.mark.anyio


def test_seqs_are_contiguous_and_a_loaded_log_goes_on_where_it_ended() -> None:
    writer = Writer()
    writer.whole_turn("p1", [[text("hi")]])
    assert [event.seq for event in writer.events] == list(range(len(writer.events)))
    loaded = SessionLog(HEADER, writer.events)
    assert loaded.append(TurnStart(2)).seq == len(writer.events)


def test_the_observer_is_told_after_the_commit_in_order() -> None:
    seen: list[tuple[int, int]] = []

    def observe(event: Event) -> None:
        seen.append((event.seq, log.next_seq))

    log = SessionLog(HEADER, observer=observe)
    log.append(TurnStart(1))
    log.append(StepStart(1, 1))
    assert seen == [(0, 1), (1, 2)]


def test_appending_from_inside_an_observer_is_refused_and_the_log_goes_on() -> None:
    refused: list[int] = []

    def observe(event: Event) -> None:
        with pytest.raises(RuntimeError, match="observer"):
            log.append(EndSeed())
        refused.append(event.seq)

    log = SessionLog(HEADER, observer=observe)
    log.append(TurnStart(1))
    log.append(StepStart(1, 1))
    assert refused == [0, 1]
    assert log.next_seq == 2


@pytest.mark.parametrize("ending", ["reply", "step"])
def test_chunks_are_kept_while_their_reply_is_open_and_no_longer(ending: str) -> None:
    writer = Writer()
    writer.prompt("p1")
    writer.chunks("a", "b", "c")
    assert [event.data.chunk.text for event in writer.log.open_chunks] == ["a", "b", "c"]
    assert not any(isinstance(event.data, AssistantChunk) for event in writer.log.events)
    first = writer.log.open_chunks[0].seq
    assert writer.log.chunk_sources() == ((first, first + 2),)
    if ending == "reply":
        writer.reply(text("abc"))
    else:
        writer.end_step()
    assert writer.log.open_chunks == []
    assert writer.log.chunk_sources() == ()
    assert writer.log.next_seq == len(writer.events)


def test_a_log_that_was_loaded_in_mid_reply_keeps_its_open_chunks() -> None:
    writer = Writer()
    writer.prompt("p1")
    writer.chunks("a", "b")
    loaded = SessionLog(HEADER, writer.events)
    assert loaded.open_chunks == writer.log.open_chunks
    assert loaded.events == writer.log.events


@given(st.sets(st.integers(0, 60)).map(sorted))
def test_runs_stand_for_exactly_the_seqs_they_were_made_from(seqs: list[int]) -> None:
    found = runs(seqs)
    expanded = [n for item in found for n in (range(item[0], item[1] + 1) if isinstance(item, tuple) else [item])]
    assert expanded == seqs
    assert all(end - start >= 2 for start, end in (item for item in found if isinstance(item, tuple)))
    singles = [item for item in found if not isinstance(item, tuple)]
    assert not any({n, n + 1, n + 2} <= set(singles) for n in singles)


class Backend:
    """Hears a store's sessions; `failure` is raised by its flush."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.heard: list[int] = []
        self.flushes = 0

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        self.heard.append(event.seq)

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        self.flushes += 1
        if self.failure is not None:
            raise self.failure


def new_store() -> tuple[SessionStore, Hooks]:
    hooks = Hooks(hookspecs, lambda hook, error: Silent().failure(hook, error))
    return SessionStore(hooks, clock=lambda: 5), hooks


async def test_appends_of_a_live_session_reach_the_hook_and_what_it_was_loaded_with_does_not() -> None:
    store, hooks = new_store()
    backend, writer = Backend(), Writer()
    writer.whole_turn("p1", [[text("hi")]])
    with hooks.registered("backend", backend), store.entered(HEADER, ("/project",), writer.events) as session:
        assert backend.heard == []
        session.log.append(TurnStart(2))
        assert backend.heard == [len(writer.events)]
        assert session.cwd == "/project"


async def test_a_flush_tells_whether_anybody_stores_the_session() -> None:
    store, hooks = new_store()
    with store.entered(HEADER, ("/project",)) as session:
        assert await store.flush(session) is False
        with hooks.registered("backend", Backend()):
            assert await store.flush(session) is True


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        ([OSError(errno.ENOSPC, "No space left on device")], "No space left on device"),
        ([OSError()], "OSError"),
        ([ValueError("seq 3")], "ValueError"),
        ([OSError(errno.EIO, "Input/output error"), RuntimeError("x")], "Input/output error"),
    ],
    ids=["disk full", "nameless", "a bug", "two backends"],
)
async def test_whatever_a_storage_raises_a_rejected_flush_is_one_kind_of_failure(
    failures: list[Exception], reason: str
) -> None:
    store, hooks = new_store()
    first, *more = [Backend(failure) for failure in failures]
    with hooks.registered("first", first), store.entered(HEADER, ("/project",)) as session:
        if more:
            with hooks.registered("second", more[0]), pytest.raises(CheckpointFailed) as caught:
                await store.flush(session)
        else:
            with pytest.raises(CheckpointFailed) as caught:
                await store.flush(session)
    assert (caught.value.session_id, caught.value.reason) == (HEADER.id, reason)


async def test_a_session_that_left_the_store_cannot_be_flushed() -> None:
    store, hooks = new_store()
    backend = Backend()
    with hooks.registered("backend", backend):
        with store.entered(HEADER, ("/project",)) as session:
            assert store.get(HEADER.id) is session
        assert store.get(HEADER.id) is None
        with pytest.raises(SessionClosed):
            await store.flush(session)
    assert backend.flushes == 0


async def test_a_second_live_session_of_one_id_is_refused_and_the_first_one_stays() -> None:
    store, _ = new_store()
    with store.entered(HEADER, ("/project",)) as session:
        with pytest.raises(SessionAlreadyExists), store.entered(HEADER, ("/project",)):
            pytest.fail("it was entered")
        assert store.get(HEADER.id) is session

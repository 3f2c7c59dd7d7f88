"""Field case D3: the log of a killed session, cut at any byte of its last frame, loads, goes on, and loads again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import zstandard

from acp_bridge.session.codec import Vocabulary
from acp_bridge.session.events import Event, ToolResult
from acp_bridge.session.repair import NOT_STARTED_TEXT, OUTCOME_UNKNOWN_TEXT, closers
from acp_bridge_plugins.persistence_jsonl.records import load_log
from acp_bridge_plugins.persistence_jsonl.store import JsonlStore
from tests.e2e.asked import prompts, results
from tests.e2e.plays import call, play
from tests.e2e.stored import StoredLog, decoded
from tests.persistence.helpers import store_at
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.markers import Marker
from tests.support.openai_server import OpenAIServer, Reply

pytestmark = pytest.mark.anyio

MAGIC = (0xFD2FB528).to_bytes(4, "little")  # RFC 8878 §3.1.1
TEXTS = {None: {}, "TOOL_NOT_STARTED": {"c1": NOT_STARTED_TEXT}, "TOOL_OUTCOME_UNKNOWN": {"c1": OUTCOME_UNKNOWN_TEXT}}


@dataclass(frozen=True)
class Torn:
    """One copy of the log. `data` is what is left of it."""

    session: str
    data: bytes

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in decoded(self.data)[1:]]

    @property
    def fate(self) -> str | None:
        """What may be said about the one call; None when the reply that asked for it is lost."""
        kinds = self.kinds
        if "assistant/message" not in kinds:
            return None
        waiting = "approval/asked" in kinds and "approval/decided" not in kinds
        return "TOOL_NOT_STARTED" if "tool/call" not in kinds or waiting else "TOOL_OUTCOME_UNKNOWN"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a session killed in a command. Not to be changed."""
    return anyio.run(_killed, tmp_path_factory.mktemp("killed"))


async def _killed(tmp_path: Path) -> Path:
    marker = Marker(tmp_path / "marker")
    run = call("c1", "run_command", {"command": "printf here > marker; sleep 300"})
    screenplay = play(tmp_path, [{"text": ["I ", "run it."], "calls": [run]}])
    async with start_agent(tmp_path, screenplay=screenplay, permissions="allow_once") as editor:
        session = await editor.new_session(tmp_path)
        editor.start_prompt(session, "Run it.")
        await marker.wait("here")
        editor.kill()
        await editor.wait_exit()
    return StoredLog(tmp_path, session).path


def _frame(lines: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """One frame with a block for each line, so that a cut between blocks keeps the lines before it; and those cuts."""
    writer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    data, ends = b"", []
    for line in lines:
        data += writer.compress(line) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        ends.append(len(data))
    return data + writer.flush(), ends


def _copies(log: Path) -> Iterator[Torn]:
    """The log as it was written, cut here and there, and once more with a cut after each of its last records."""
    data = log.read_bytes()
    lines = [json.dumps(event).encode() + b"\n" for event in decoded(data)]
    start = data.rindex(MAGIC)
    cut = next(number for number, event in enumerate(decoded(data)) if event["type"] == "request/context")
    first, last = _frame(lines[1:cut])[0], _frame(lines[cut:])
    cuts = [data[:end] for end in (start, start + 1, start + 9, (start + len(data)) // 2, len(data) - 5, len(data) - 1)]
    cuts += [first + last[0][:end] for end in last[1]]
    for number, left in enumerate(cuts):
        header = {**json.loads(lines[0]), "id": f"torn-{number}"}
        own, _ = _frame([json.dumps(header).encode() + b"\n"])
        yield Torn(header["id"], own + left.removeprefix(data[: data.index(MAGIC, 1)]))


def _place(tmp_path: Path, log: Path, session: str) -> Path:
    """Where a copy of `log` for `session` goes, below the state directory of `tmp_path`."""
    folder = tmp_path / "state" / "sessions" / log.parent.parent.name / session
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder / log.name


async def test_a_log_cut_in_its_last_frame_loads_goes_on_is_killed_and_loads_the_same(
    tmp_path: Path, killed: Path
) -> None:
    """In real processes: cuts between and inside the records, two crashes. All cuts are sessions of one process."""
    torn = {copy.session: copy for copy in _copies(killed)}
    assert {copy.fate for copy in torn.values()} == set(TEXTS)
    for session, copy in torn.items():
        _place(tmp_path, killed, session).write_bytes(copy.data)
    prompted = list(torn)[::4]
    with OpenAIServer([], fallback=Reply.text("I see.")) as server:
        async with start_agent(tmp_path, server=server) as editor:
            before = {session: await _history(editor, session, tmp_path) for session in torn}
            calls = {session: editor.tool_calls(session) for session in torn}
            for session in prompted:
                await editor.prompt(session, "What is the state?")
            editor.kill()
            await editor.wait_exit()
        for session, request in zip(prompted, server.chats, strict=True):
            assert prompts(request) == ["Run it.", "What is the state?"]
            assert results(request) == TEXTS[torn[session].fate]
        async with start_agent(tmp_path, server=server) as editor:
            after = {session: await _history(editor, session, tmp_path) for session in torn}
    for session, copy in torn.items():
        assert [call.status for call in calls[session].values()] == ["failed"] * bool(copy.fate)
        more = after[session][len(before[session]) :]
        assert after[session] == before[session] + more
        wanted = ["user_message_chunk", "agent_message_chunk"] if session in prompted else []
        assert [update["sessionUpdate"] for update in more] == wanted
        _check_stored(StoredLog(tmp_path, session), copy, goes_on=session in prompted)


async def _history(editor: Editor, session: str, folder: Path) -> list[dict[str, Any]]:
    await editor.load_session(session, folder)
    return editor.updates(session)


def _check_stored(log: StoredLog, copy: Torn, *, goes_on: bool) -> None:
    events = log.events
    assert [event["type"] for event in events][: len(copy.kinds)] == copy.kinds
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert log.results == ({"c1": copy.fate} if copy.fate else {})
    assert log.endings == ["interrupted"] + ["completed"] * goes_on


async def test_every_byte_of_the_last_frame_as_the_end_gives_one_history_for_good(tmp_path: Path, killed: Path) -> None:
    """The same at each byte, without a process each: decoded and repaired; through the disk where that changes."""
    data, session = killed.read_bytes(), killed.parent.name
    log = _place(tmp_path, killed, session)
    known: list[Event] = []
    async with store_at(tmp_path / "state" / "sessions") as store:
        for end in range(data.rindex(MAGIC), len(data) + 1):
            torn = Torn(session, data[:end])
            events = load_log(str(log), torn.data, Vocabulary(), recover=True).events
            history = [*events, *closers(events)]
            assert [event.type for event in events] == torn.kinds
            assert _fates(history) == [torn.fate] * bool(torn.fate)
            if history != known:
                known = history
                log.write_bytes(torn.data)
                assert await _repaired(store, session) == history
                assert await _repaired(store, session) == history


async def test_a_load_killed_while_it_stores_its_closing_events_is_made_good_by_the_next(
    tmp_path: Path, killed: Path
) -> None:
    """Cut at each byte of what the first load wrote, the second completes the very same events, ids and times too."""
    session = killed.parent.name
    log = _place(tmp_path, killed, session)
    log.write_bytes(killed.read_bytes())
    async with store_at(tmp_path / "state" / "sessions") as store:
        history = await _repaired(store, session)
    data = log.read_bytes()
    assert data.startswith(killed.read_bytes())
    for end in range(killed.stat().st_size, len(data) + 1):
        events = load_log(str(log), data[:end], Vocabulary(), recover=True).events
        assert [*events, *closers(events)] == history


async def _repaired(store: JsonlStore, session: str) -> list[Event]:
    """What a load makes of it, with its closing events stored."""
    handle = await store.open(session)
    events = await handle.read()
    closing = closers(events)
    await handle.append(closing)
    await handle.close()
    return [*events, *closing]


def _fates(events: list[Event]) -> list[str | None]:
    outcomes = [event.data for event in events if isinstance(event.data, ToolResult)]
    return [outcome.error.code if outcome.error else None for outcome in outcomes]

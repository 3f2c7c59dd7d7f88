"""SIGKILL while the model is being asked or answers: what the person had seen is kept, and nothing is made up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from acp_bridge.bridge.project import CUT_SHORT
from acp_bridge.session.derive import INTERRUPTED_NOTE
from tests.e2e.asked import calls, conversation, prompts, results
from tests.e2e.plays import play
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.transcript import Message

pytestmark = pytest.mark.anyio

# Design §15: of what was shown, at most the last 200 ms are lost. The rest is for a machine under load.
LOST_S = 0.2 + 0.4


@dataclass(frozen=True)
class Cut:
    """A reply that stops in the middle, what the editor shows of it, and what recovery appends to the log."""

    reply: Reply
    text: str = ""
    thoughts: str = ""
    closers: tuple[str, ...] = ("assistant/message", "step/end", "turn/end")

    @property
    def replayed(self) -> str:
        return self.text + CUT_SHORT if self.text or self.thoughts else ""


PIECES = Reply.text("One ", "two ", "three")
THOUGHTS = Reply.reasoning("Let me ", "think")
CALL = Reply.tool("c1", "run_command", {"command": "touch ran"}, pieces=3)
CUTS = {
    "before the first chunk": Cut(Reply.silence(), closers=("step/end", "turn/end")),
    "in the text": Cut(PIECES.gate(None, before=3), "One two three"),
    "in the reasoning": Cut(THOUGHTS.gate(None, before=2), "", "Let me think"),
    "in the text after reasoning": Cut((THOUGHTS + PIECES).gate(None, before=5), "One two three", "Let me think"),
    "in the arguments of a call": Cut((PIECES + CALL).gate(None, before=6), "One two three"),
    "after a whole call": Cut((PIECES + CALL).gate(None, before=7), "One two three"),
}


async def test_a_reply_killed_in_the_middle_is_replayed_as_cut_short_and_the_model_sees_it(tmp_path: Path) -> None:
    """Issue 2, item 5, last sentence. A half-received call is never run, nor heard of again."""
    with OpenAIServer([], fallback=lambda request: CUTS[prompts(request)[-1]].reply) as server:
        async with start_agent(tmp_path, server=server) as editor:
            sessions = {where: await editor.new_session(tmp_path) for where in CUTS}
            for number, (where, session) in enumerate(sessions.items(), 1):
                editor.start_prompt(session, where)
                await server.wait_for_chats(number)
                await _wait_until_shown(editor, session, CUTS[where])
            logs = {where: StoredLog(tmp_path, session) for where, session in sessions.items()}
            for where, request in zip(CUTS, server.chats, strict=True):
                await _wait_until_stored(logs[where], len(request.sent))
            editor.kill()
            await editor.wait_exit()
            live = {where: editor.messages(session) for where, session in sessions.items()}
    kinds = {where: [event["type"] for event in log.events] for where, log in logs.items()}
    with OpenAIServer([], fallback=Reply.text("As I was saying.")) as server:
        async with start_agent(tmp_path, server=server) as editor:
            for where, session in sessions.items():
                await editor.load_session(session, tmp_path)
                _check_replay(editor, session, where, live[where])
                assert [event["type"] for event in logs[where].events] == [*kinds[where], *CUTS[where].closers]
                await editor.prompt(session, "Go on.")
    for where, request in zip(CUTS, server.chats, strict=True):
        kept = [("assistant", CUTS[where].text + INTERRUPTED_NOTE)] if CUTS[where].replayed else []
        assert conversation(request) == [("user", where), *kept, ("user", "Go on.")]
        assert (calls(request), results(request)) == ([], {})
        assert logs[where].endings == ["interrupted", "completed"]
    assert not (tmp_path / "ran").exists()


async def _wait_until_shown(editor: Editor, session: str, cut: Cut) -> None:
    await editor.wait_until(lambda: (editor.text(session), editor.thoughts(session)) == (cut.text, cut.thoughts))


async def _wait_until_stored(log: StoredLog, sent: int) -> None:
    # Nothing asks for this write; the window alone brings it. Each event of the stream is one delta.
    await log.wait(
        lambda log: len([d for d in log.of("assistant/chunk") if d["chunk"]["type"].endswith("-delta")]) == sent
    )


def _check_replay(editor: Editor, session: str, where: str, live: list[Message]) -> None:
    shown = editor.messages(session)
    assert shown[0] == Message("user_message_chunk", shown[0].id, where)
    assert editor.text(session) == CUTS[where].replayed
    assert editor.thoughts(session) == CUTS[where].thoughts
    assert [(m.kind, m.id) for m in live] == [(m.kind, m.id) for m in shown[1 : len(live) + 1]]
    assert editor.tool_calls(session) == {}


async def test_of_a_reply_killed_at_full_speed_only_the_last_moment_is_lost(tmp_path: Path) -> None:
    """Design §15: 0 of 200 shown chunks kept by all peers; here all but those of the last 200 ms."""
    pieces = [f"{number} " for number in range(200)]
    screenplay = play(tmp_path, [{"text": pieces, "chunk_ms": 10}])
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        session = await editor.new_session(tmp_path)
        editor.start_prompt(session, "Count.")
        await editor.wait_until(lambda: editor.text(session).endswith(" 120 "))
        killed = time.monotonic()
        editor.kill()
        await editor.wait_exit()
        chunks = [frame for frame in editor.frames if frame.kind == "agent_message_chunk"]
        owed = "".join(frame.update["content"]["text"] for frame in chunks if frame.time < killed - LOST_S)
    assert owed
    async with start_agent(tmp_path, screenplay=screenplay) as editor:
        await editor.load_session(session, tmp_path)
        kept = editor.text(session).removesuffix(CUT_SHORT)
    assert kept.startswith(owed)
    assert "".join(pieces).startswith(kept)

"""What a provider does wrong becomes one readable error; no half-received call is run; the next prompt works (P9)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from acp import RequestError

from acp_bridge.bridge.project import CUT_SHORT
from tests.e2e.asked import calls, prompts, results
from tests.e2e.stored import StoredLog
from tests.support.agent import start_agent
from tests.support.editor import Editor
from tests.support.openai_server import Exchange, OpenAIServer, Reply

pytestmark = pytest.mark.anyio

AUTH, INTERNAL = -32000, -32603
KEY = "sk-test-abcdefghijklmnop"
CALL = Reply.tool("c1", "run_command", {"command": "printf no >> effects"})
SAID = Reply.text("I will ", "run it. ")
HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True)
class Fault:
    """A reply, what the sentence must say, and what the editor was shown of the reply before it was cut short."""

    reply: Reply
    says: str
    code: int = INTERNAL
    shown: str | None = None


FAULTS = {
    "401": Fault(Reply.status(401, f"Incorrect API key provided: {KEY}"), "refused the API key", AUTH),
    "403": Fault(Reply.status(403, "no access"), "does not let this API key use the model", AUTH),
    "404": Fault(Reply.status(404, "The model `test-model` does not exist"), "has no model 'test-model'"),
    "400, too long": Fault(Reply.status(400, "maximum context length is 8 tokens"), "too long for the model"),
    "429": Fault(Reply.status(429, "slow down", retry_after=0.01), "limiting the rate"),
    "429 without a date": Fault(Reply.status(429), "limiting the rate"),
    "500": Fault(Reply.status(500, "boom", retry_after=0.01), "failed"),
    "503": Fault(Reply.status(503, retry_after=0.01), "failed"),
    "reset in half a call": Fault(CALL.reset_after(2), "connection ended before the reply was complete"),
    "reset inside an event": Fault(CALL.reset_after(2, mid_event=True), "connection ended"),
    "closed in half a call": Fault(CALL.close_after(3), "connection ended before the reply was complete"),
    "reset after a whole call": Fault((SAID + CALL).reset_after(6), "connection ended", shown="I will run it. "),
    "no end at all": Fault((SAID + CALL).finish(None).without_done(), "connection ended", shown="I will run it. "),
    "reset in text": Fault(SAID.reset_after(1), "connection ended", shown="I will "),
    "garbage": Fault(Reply.bytes_body(b"\x00\xff garbage \xfe\n\nmore\n\n"), "no chat completion stream"),
    "garbage events": Fault(Reply.raw(b"data: {nonsense\n\n"), "no chat completion stream"),
    "garbage in the middle": Fault(SAID + Reply.raw(b"data: [1, 2\n\n") + CALL, "", shown="I will run it. "),
    "a list of events": Fault(Reply.raw(b"data: [1, 2]\n\n"), "no chat completion stream"),
    "a web page": Fault(Reply.bytes_body(HTML, content_type="text/html"), "no chat completion stream"),
    "an empty 200": Fault(Reply.empty(), "sent an empty reply"),
    "an empty reply": Fault(Reply.text(), "sent an empty reply"),
    "only [DONE]": Fault(Reply.text().finish(None), "sent an empty reply"),
    "only reasoning": Fault(Reply.reasoning("Hm."), "sent reasoning but no answer", shown=""),
    "an error as event": Fault(
        SAID + Reply.raw(b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'),
        "while it was replying",
        shown="I will run it. ",
    ),
}


def _model(request: Exchange) -> Reply:
    last = prompts(request)[-1]
    return FAULTS[last].reply if last in FAULTS else Reply.text("Here I am.")


async def _error(editor: Editor, session: str, prompt: str) -> RequestError:
    try:
        response = await editor.prompt(session, prompt)
    except RequestError as error:
        return error
    raise AssertionError(f"{prompt}: no error but {response.stop_reason}")


async def _fault(editor: Editor, session: str, name: str) -> None:
    """One fault in its own session, then a prompt that is answered."""
    fault = FAULTS[name]
    error = await _error(editor, session, name)
    sentence = str(error)
    assert (name, error.code) == (name, fault.code), sentence
    assert fault.says in sentence, (name, sentence)
    assert sentence.startswith("The model provider at 127.0.0.1:"), (name, sentence)
    assert "\n" not in sentence
    assert KEY not in sentence
    assert "Traceback" not in sentence
    if fault.code == INTERNAL:
        assert error.data == {"details": sentence}
    assert (name, editor.text(session)) == (name, "" if fault.shown is None else fault.shown + CUT_SHORT)
    assert (name, editor.tool_calls(session)) == (name, {})
    since = len(editor.frames)
    assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
    assert editor.text(session, since) == "Here I am."


async def test_every_fault_of_a_provider_is_one_readable_error_and_the_session_goes_on(tmp_path: Path) -> None:
    """Field case P9, editors rule 22. All at once, each in its own session; nothing half-received is run or kept."""
    sessions: dict[str, str] = {}
    with OpenAIServer([], fallback=_model) as server:
        async with start_agent(tmp_path, server=server, env={"OPENAI_API_KEY": KEY}) as editor:
            for name in FAULTS:
                sessions[name] = await editor.new_session(tmp_path)
            async with anyio.create_task_group() as tasks:
                for name, session in sessions.items():
                    tasks.start_soon(_fault, editor, session, name)
            assert editor.stderr == ""
            assert editor.permissions.requests == []
        asked = {name: [chat for chat in server.chats if prompts(chat)[0] == name] for name in FAULTS}
    tries = {name: len(chats) - 1 for name, chats in asked.items()}
    assert {name: number for name, number in tries.items() if number != 1} == {
        "429": 3,
        "429 without a date": 3,
        "500": 3,
        "503": 3,
    }
    for name, chats in asked.items():
        assert (name, calls(chats[-1]), results(chats[-1])) == (name, [], {})
        assert prompts(chats[-1]) == [name, "And now?"]
    for name, session in sessions.items():
        log = StoredLog(tmp_path, session)
        assert (name, log.endings, log.of("tool/call")) == (name, ["error", "completed"], [])
        assert KEY.encode() not in log.bytes
    assert not (tmp_path / "effects").exists()


async def test_a_provider_that_is_not_there_is_an_error_and_when_it_comes_the_next_prompt_works(tmp_path: Path) -> None:
    """Field case P9: nobody listens at the address. The sentence says what to check."""
    with OpenAIServer([Reply.text("Here I am.")]) as server:
        url = server.base_url
        async with start_agent(tmp_path, server=server, env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}) as editor:
            session = await editor.new_session(tmp_path)
            error = await _error(editor, session, "Hello?")
            assert error.code == INTERNAL
            assert "could not be reached. Check the network and OPENAI_BASE_URL." in str(error)
        async with start_agent(tmp_path, server=server, env={"OPENAI_BASE_URL": url}) as editor:
            await editor.load_session(session, tmp_path)
            assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
    assert StoredLog(tmp_path, session).endings == ["error", "completed"]


async def test_an_error_in_a_later_step_keeps_the_results_before_it(tmp_path: Path) -> None:
    """Field case P9 in the middle of a turn: the call that was run stays with its result, and the model hears of it."""
    (tmp_path / "a").write_text("content of a")
    reads = Reply.tool("c1", "read_file", {"path": "a"})
    with OpenAIServer([reads, Reply.status(400, "no"), Reply.text("Here I am.")]) as server:
        async with start_agent(tmp_path, server=server) as editor:
            session = await editor.new_session(tmp_path)
            error = await _error(editor, session, "Read it.")
            assert "HTTP 400" in str(error)
            assert editor.tool_calls(session)["c1"].status == "completed"
            assert (await editor.prompt(session, "And now?")).stop_reason == "end_turn"
        assert results(server.chats[-1])["c1"].startswith("content of a")
    assert StoredLog(tmp_path, session).results == {"c1": "ok"}

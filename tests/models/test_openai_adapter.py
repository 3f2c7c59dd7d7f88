"""The adapter against a real HTTP server: faults, pace, cancels and connections (field cases P5, P6, P9, P13)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from acp_bridge import hookspecs
from acp_bridge.errors import ModelFailed
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.llm.model import MODELS, ModelAdapter, Models
from acp_bridge.session.chunks import Chunk, Finish, TextDelta, ToolCallDelta, UsageChunk, interrupted_blocks
from acp_bridge.session.content import ReasoningBlock, TextBlock, ToolCallBlock, Usage
from acp_bridge_plugins.models_openai.plugin import ModelsOpenai
from tests.models.asking import ask, assembled, call, failure, grammar_problems, prompt, reply, request_of, result
from tests.support.openai_server import OpenAIServer, Reply

pytestmark = pytest.mark.anyio

KEY = "sk-test-0123456789abcdef"


@asynccontextmanager
async def mounted(base_url: str | None, key: str | None = KEY, **settings: Any) -> AsyncIterator[ModelAdapter]:
    """The adapter, as the agent finds it."""
    kernel, models = Kernel(hookspecs, Silent()), Models()
    plugin = ModelsOpenai(lambda: (key, base_url), **{"max_retries": 0, **settings})
    async with kernel.providing(MODELS, models, "test"), kernel.mounted(plugin):
        yield models.adapter("openai")
    with pytest.raises(ModelFailed):
        models.adapter("openai")


async def answered(*replies: Reply, **settings: Any) -> list[Chunk]:
    """The chunks of one request; one reply for each attempt."""
    with OpenAIServer(replies) as server:
        async with mounted(server.base_url, **settings) as adapter:
            chunks = await ask(adapter)
    assert server.remaining == 0
    assert KEY not in repr(chunks)
    return chunks


def texts(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def test_a_reply_with_reasoning_text_calls_and_usage_arrives_whole() -> None:
    whole = (
        Reply.reasoning("hm ", "hm")
        + Reply.text("I will ", "look.")
        + Reply.tool("a", "ls", {"path": "."})
        + Reply.tool("b", "cat", "null")
    ).usage(100, 30, cached=60, reasoning=10)
    chunks = await answered(whole)
    reply_ = assembled(chunks)
    assert reply_.blocks() == (
        ReasoningBlock("hm hm"),
        TextBlock("I will look."),
        ToolCallBlock("a", "ls", '{"path": "."}'),
        ToolCallBlock("b", "cat", "null"),
    )
    assert reply_.usage == Usage(40, 20, 60, None, 10)
    assert isinstance(chunks[-2], UsageChunk)
    assert chunks[-1] == Finish(chunks[-1].reason, {"reasoningField": "reasoning_content"})  # type: ignore[union-attr]  # a Finish
    assert reply_.finish is not None
    assert reply_.finish.kind == "tool-calls"


async def test_the_request_carries_key_model_messages_and_asks_for_an_uncompressed_stream() -> None:
    with OpenAIServer([Reply.text("ok")], models=["m"]) as server:
        async with mounted(server.base_url) as adapter:
            await ask(adapter, request_of(prompt(), reply(call("a")), result("a", "done")))
        chat = server.chats[0]
    assert chat.headers["authorization"] == f"Bearer {KEY}"
    assert chat.headers["accept-encoding"] == "identity"
    assert chat.headers["content-type"] == "application/json"
    assert chat.body["model"] == "test-model"
    assert chat.body["stream"] is True
    assert [message["role"] for message in chat.body["messages"]] == ["system", "user", "assistant", "tool"]


async def test_an_endpoint_without_a_key_is_served() -> None:
    assert texts(await answered(Reply.text("local"), key=None)) == "local"


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        pytest.param(Reply.status(401, f"Incorrect API key provided: {KEY}"), "INVALID_CREDENTIAL", "401", id="401"),
        pytest.param(Reply.status(429, "slow down", retry_after=0), "RATE_LIMIT", "slow down", id="429"),
        pytest.param(Reply.status(404, "model 'test-model' not found"), "MODEL_NOT_FOUND", "'test-model'", id="404"),
        pytest.param(
            Reply.status(400, "maximum context length is 8192 tokens"), "CONTEXT_WINDOW_EXCEEDED", "8192", id="400"
        ),
        pytest.param(Reply.status(500, "boom"), "SERVER", "boom", id="500"),
        pytest.param(Reply.empty(), "EMPTY_RESPONSE", "empty reply", id="empty body"),
        pytest.param(Reply.text(), "EMPTY_RESPONSE", "empty reply", id="nothing said"),
        pytest.param(Reply.bytes_body(b"<html>Log in</html>"), "PROTOCOL", "OPENAI_BASE_URL", id="a web page"),
        pytest.param(Reply.bytes_body(b'{"error": {"message": "no route"}}'), "PROTOCOL", "no route", id="JSON"),
        pytest.param(Reply.bytes_body(b"\x00\xffgarbage"), "PROTOCOL", "OPENAI_BASE_URL", id="garbage"),
        pytest.param(Reply.raw(b"data: {oops\n\n") + Reply.text("x"), "PROTOCOL", "{oops", id="a bad event"),
        pytest.param(Reply.raw(b'data: {"choices":[{\n') + Reply.text("x"), "PROTOCOL", "It sent", id="half an event"),
        pytest.param(
            Reply.raw(b'data: {"error":{"message":"busy","code":429}}\n\n'), "RATE_LIMIT", "busy", id="an error event"
        ),
    ],
)
async def test_a_failing_provider_ends_the_reply_with_a_readable_failure(bad: Reply, code: str, words: str) -> None:
    found = failure(await answered(bad))
    assert found.code == code
    assert words in found.message
    assert "127.0.0.1" in found.message


async def test_a_rate_limit_says_how_long_to_wait() -> None:
    assert failure(await answered(Reply.status(429, retry_after=7))).provider_retry_after_ms == 7000


async def test_a_request_is_tried_again_before_the_first_byte_and_not_for_ever() -> None:
    chunks = await answered(Reply.status(429, retry_after=0.01), Reply.text("at last"), max_retries=2)
    assert texts(chunks) == "at last"
    tries = [Reply.status(500, "boom", retry_after=0.01)] * 3
    assert failure(await answered(*tries, max_retries=2)).code == "SERVER"


@pytest.mark.parametrize("mid_event", [False, True])
@pytest.mark.parametrize("how", ["reset_after", "close_after"])
async def test_a_reply_that_breaks_off_keeps_its_text_and_never_its_half_received_call(
    how: str, mid_event: bool
) -> None:
    broken = getattr(Reply.text("Let me ", "see.") + Reply.tool("a", "rm", {"path": "/tmp/x"}), how)(
        4, mid_event=mid_event
    )
    chunks = await answered(broken)
    assert failure(chunks).code == "TRANSPORT"
    assert "before the reply was complete" in failure(chunks).message
    assert any(isinstance(chunk, ToolCallDelta) for chunk in chunks)
    assert assembled(chunks).blocks() == (TextBlock("Let me see."),)
    assert interrupted_blocks(chunks) == (TextBlock("Let me see."),)


async def test_a_reply_that_was_complete_survives_a_reset_of_its_connection() -> None:
    chunks = await answered(Reply.text("all of it").reset_after(2))
    assert texts(chunks) == "all of it"
    assert assembled(chunks).finish is not None
    assert assembled(chunks).finish.kind == "stop"  # type: ignore[union-attr]  # asserted above


async def test_a_body_without_done_or_last_blank_line_is_complete_when_it_said_why_it_stopped() -> None:
    body = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: {"choices":[{"delta":{},"finish_reason":"stop"}]}'
    assert texts(await answered(Reply.bytes_body(body))) == "hi"
    assert texts(await answered(Reply.text("hi").without_done())) == "hi"


async def test_slow_chunks_are_passed_on_one_by_one() -> None:
    gates = [threading.Event() for _ in range(4)]
    slow = Reply.text("a", "b", "c", "d")
    for number, gate in enumerate(gates):
        slow = slow.gate(gate, before=number)
    with OpenAIServer([slow]) as server:
        async with mounted(server.base_url) as adapter:
            got = ""
            with anyio.fail_after(20):
                gates[0].set()
                async for chunk in adapter.stream(request_of()):
                    if isinstance(chunk, TextDelta):
                        got += chunk.text
                        # The next piece has not left the server: nothing waits for company.
                        if len(got) < len(gates):
                            gates[len(got)].set()
    assert got == "abcd"


async def test_nothing_is_sent_before_the_first_pull() -> None:
    with OpenAIServer() as server:
        async with mounted(server.base_url) as adapter, aclosing(adapter.stream(request_of())):  # type: ignore[type-var]  # streams are async generators by the seam
            pass
        assert not server.requests


async def test_a_cancel_closes_the_connection_at_once() -> None:
    endless = Reply.text("a", "b").gate(None, before=1)
    with OpenAIServer([endless]) as server:
        async with mounted(server.base_url) as adapter, anyio.create_task_group() as tasks:
            seen = anyio.Event()

            async def consume() -> None:
                async for chunk in adapter.stream(request_of()):
                    if isinstance(chunk, TextDelta):
                        seen.set()

            tasks.start_soon(consume)
            with anyio.fail_after(20):
                await seen.wait()
                tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            await server.wait_for(server.chats[0].disconnected)


async def test_a_cancel_during_a_silent_wait_or_a_retry_pause_ends_it_at_once() -> None:
    with OpenAIServer([Reply.silence(), Reply.status(429, retry_after=100)]) as server:
        async with mounted(server.base_url, max_retries=5) as adapter:
            for chat in (1, 2):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, adapter)
                    await server.wait_for_chats(chat)
                    if chat == 2:
                        await server.wait_for(server.chats[1].finished)
                    with anyio.fail_after(5):
                        tasks.cancel_scope.cancel()
            await server.wait_for(server.chats[0].disconnected)


async def test_a_cancel_during_the_first_import_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    imported, release = threading.Event(), threading.Event()

    def slow(name: str) -> Any:
        imported.set()
        assert release.wait(20)
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", slow)
    async with mounted("http://localhost:1/v1") as adapter:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, adapter)
            assert await anyio.to_thread.run_sync(imported.wait, 20)
            with anyio.fail_after(5):
                tasks.cancel_scope.cancel()
        release.set()


async def test_leaving_the_stream_early_closes_the_connection() -> None:
    with OpenAIServer([Reply.text("a", "b").gate(None, before=1)]) as server:
        async with mounted(server.base_url) as adapter:
            with anyio.fail_after(20):
                async with aclosing(adapter.stream(request_of())) as chunks:  # type: ignore[type-var]  # streams are async generators by the seam
                    async for chunk in chunks:
                        if isinstance(chunk, TextDelta):
                            break
            await server.wait_for(server.chats[0].disconnected)


async def test_the_connection_is_kept_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[int] = []
    with OpenAIServer([Reply.text("a"), Reply.tool("a", "ls", {}), Reply.text("b")]) as server:
        accept = server._listener.process_request

        def counted(request: Any, client_address: Any) -> None:
            connections.append(client_address[1])
            accept(request, client_address)

        monkeypatch.setattr(server._listener, "process_request", counted)
        async with mounted(server.base_url) as adapter:
            for _ in range(3):
                await ask(adapter)
    assert len(connections) == 1


async def test_a_provider_that_stops_talking_times_out() -> None:
    with OpenAIServer([Reply.text("a", "b").gate(None, before=1)]) as server:
        async with mounted(server.base_url, read_timeout_s=0.2) as adapter:
            found = failure(await ask(adapter))
    assert found.code == "TIMEOUT"


async def test_an_address_where_nobody_listens_is_a_readable_failure() -> None:
    with OpenAIServer() as server:
        gone = server.base_url
    async with mounted(gone) as adapter:
        found = failure(await ask(adapter))
    assert found.code == "TRANSPORT"
    assert "could not be reached" in found.message
    assert "OPENAI_BASE_URL" in found.message


async def test_requests_run_side_by_side() -> None:
    gate = threading.Event()
    with OpenAIServer([Reply.text("a").gate(gate, before=0), Reply.text("a")]) as server:
        async with mounted(server.base_url) as adapter, anyio.create_task_group() as tasks:
            tasks.start_soon(ask, adapter)
            await server.wait_for_chats(1)
            assert texts(await ask(adapter)) == "a"
            gate.set()


async def test_a_missing_sdk_is_a_readable_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    async with mounted("http://localhost:1/v1") as adapter:
        found = failure(await ask(adapter))
    assert found.code == "NO_ADAPTER"
    assert "openai" in found.message


@pytest.mark.parametrize(
    ("key", "base_url", "model", "words"),
    [
        (None, None, "m", "OPENAI_API_KEY"),
        (" ", "", "m", "OPENAI_API_KEY"),
        ("k\u2026y", None, "m", "OPENAI_API_KEY"),
        ("two words", None, "m", "OPENAI_API_KEY"),
        (None, "localhost:8000", "m", "OPENAI_BASE_URL"),
        (None, "http://", "m", "OPENAI_BASE_URL"),
        (KEY, None, "", "ACP_BRIDGE_MODEL"),
    ],
)
async def test_what_cannot_be_used_says_what_to_set(
    key: str | None, base_url: str | None, model: str, words: str
) -> None:
    adapter = ModelsOpenai(lambda: (key, base_url))
    sentence = adapter.unusable(model)
    assert sentence is not None
    assert words in sentence
    chunks = [chunk async for chunk in adapter.stream(request_of(model=model))]
    assert failure(chunks).message == sentence
    assert not list(grammar_problems(chunks))


@pytest.mark.parametrize(
    ("key", "base_url"), [(KEY + "\n", None), (None, "http://localhost:8000/v1"), (KEY, "https://x")]
)
def test_a_key_or_an_endpoint_is_enough(key: str | None, base_url: str | None) -> None:
    assert ModelsOpenai(lambda: (key, base_url)).unusable("m") is None


def test_mounting_imports_neither_the_sdk_nor_what_only_a_request_needs() -> None:
    script = (
        "import sys; from acp_bridge_plugins.models_openai.plugin import ModelsOpenai;"
        "from acp_bridge_plugins.models_scripted.plugin import ModelsScripted;"
        "ModelsOpenai(lambda: ('k', None)).unusable('m'); ModelsScripted();"
        "print([name for name in sys.modules if name.split('.')[0] in ('openai', 'httpx2', 'pydantic', 'tomllib')"
        " or name.endswith(('.decode', '.replies', '.playing'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"

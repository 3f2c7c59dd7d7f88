"""The scripted endpoint, read by the vendor's own SDK: what it sends is what a real client takes for OpenAI."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import openai
import pytest

from tests.support.openai_server import OpenAIServer, Reply

pytestmark = pytest.mark.anyio

TOOL_ARGUMENTS = {"command": "ls -l", "timeout_s": 5}


@asynccontextmanager
async def client_of(server: OpenAIServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        yield client


async def chunks_of(server: OpenAIServer) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    async with client_of(server) as client:
        stream = await client.chat.completions.create(model="test-model", messages=messages, stream=True)
        with anyio.fail_after(10):
            return [chunk async for chunk in stream]


def text_of(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def finish_of(chunks: list[Any]) -> list[str]:
    return [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]


def calls_of(chunks: list[Any]) -> dict[int | None, dict[str, Any]]:
    calls: dict[int | None, dict[str, Any]] = {}
    for chunk in chunks:
        for delta in (call for choice in chunk.choices for call in choice.delta.tool_calls or ()):
            call = calls.setdefault(delta.index, {"id": delta.id, "name": delta.function.name, "arguments": ""})
            call["arguments"] += delta.function.arguments or ""
    return calls


async def test_text_pieces_arrive_one_by_one_and_the_request_is_recorded() -> None:
    with OpenAIServer([Reply.text("Hel", "lo", " ☃").usage(7, 3, cached=2)]) as server:
        chunks = await chunks_of(server)
        assert text_of(chunks) == "Hello ☃"
        assert finish_of(chunks) == ["stop"]
        assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 2
        (request,) = server.chats
        assert request.body["messages"] == [{"role": "user", "content": "hello"}]
        assert request.headers["authorization"] == "Bearer test-key"
        assert len(request.sent) == 6 and request.sent == sorted(request.sent)


async def test_reasoning_text_and_two_calls_make_one_reply_with_counted_indexes() -> None:
    reply = (
        Reply.reasoning("hm")
        + Reply.text("so")
        + Reply.tool("call_1", "run_command", TOOL_ARGUMENTS, pieces=4)
        + Reply.tool("call_2", "read_file", {"path": "a"})
    )
    with OpenAIServer([reply]) as server:
        chunks = await chunks_of(server)
    assert chunks[0].choices[0].delta.reasoning_content == "hm"
    assert finish_of(chunks) == ["tool_calls"]
    calls = calls_of(chunks)
    assert calls[0] == {
        "id": "call_1",
        "name": "run_command",
        "arguments": '{"command": "ls -l", "timeout_s": 5}',
    }
    assert calls[1]["id"] == "call_2"


@pytest.mark.parametrize("arguments", ["null", "[]", '{"path": "tru', ""])
async def test_arguments_given_as_a_string_are_sent_verbatim_and_an_absent_id_is_left_out(arguments: str) -> None:
    with OpenAIServer([Reply.tool(None, "read_file", arguments)]) as server:
        assert calls_of(await chunks_of(server))[0] == {"id": None, "name": "read_file", "arguments": arguments}


async def test_finish_reason_can_be_any_and_can_be_left_out() -> None:
    script = [
        Reply.text("a").finish("length"),
        Reply.text("b").finish("content_filter"),
        Reply.text("c").finish(None),
    ]
    with OpenAIServer(script) as server:
        assert [finish_of(await chunks_of(server)) for _ in script] == [["length"], ["content_filter"], []]


@pytest.mark.parametrize(
    ("code", "error"),
    [(401, openai.AuthenticationError), (429, openai.RateLimitError), (500, openai.InternalServerError)],
)
async def test_error_statuses_carry_the_error_object_of_openai(code: int, error: type[openai.APIStatusError]) -> None:
    with OpenAIServer([Reply.status(code, "no luck", retry_after=0)]) as server:
        with pytest.raises(error) as caught:
            await chunks_of(server)
        assert caught.value.response.headers["retry-after"] == "0"
        assert caught.value.body["message"] == "no luck"  # type: ignore[index]  # body is typed object


def read_raw(server: OpenAIServer) -> tuple[bytes, OSError | None]:
    """The bytes of a streamed reply as the kernel hands them out, and the error that ended them."""
    body = json.dumps({"stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    seen = b""
    address = ("127.0.0.1", int(server.base_url.split(":")[2].split("/")[0]))
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head.encode() + body)
        try:
            while data := connection.recv(65536):
                seen += data
        except OSError as error:
            return seen, error
    return seen, None


@pytest.mark.parametrize(("mid_event", "events"), [(False, 2), (True, 3)])
async def test_reset_is_a_tcp_reset_after_the_events_before_it(mid_event: bool, events: int) -> None:
    reply = Reply.tool("call_1", "run_command", TOOL_ARGUMENTS).reset_after(2, mid_event=mid_event)
    with OpenAIServer([reply]) as server:
        seen, error = read_raw(server)
    assert isinstance(error, ConnectionResetError)
    assert seen.count(b"data: ") == events


async def test_orderly_close_leaves_the_body_unfinished() -> None:
    with OpenAIServer([Reply.text("a", "b").close_after(1)]) as server:
        seen, error = read_raw(server)
    assert error is None
    assert seen.count(b"data: ") == 1
    assert not seen.endswith(b"0\r\n\r\n")


async def test_garbage_and_empty_bodies_are_passed_as_they_are() -> None:
    with OpenAIServer([Reply.raw(b"data: {nonsense\n\n") + Reply.text("a"), Reply.empty()]) as server:
        with pytest.raises(ValueError, match="Expecting"):
            await chunks_of(server)
        assert await chunks_of(server) == []


async def test_gate_holds_the_next_event_until_it_is_set() -> None:
    gate = threading.Event()
    with OpenAIServer([Reply.text("a", "b").gate(gate, before=1)]) as server:
        async with client_of(server) as client:
            stream = await client.chat.completions.create(model="m", messages=[], stream=True)
            with anyio.fail_after(10):
                first = await anext(stream)
                assert first.choices[0].delta.content == "a"
                assert len(server.chats[0].sent) == 1
                gate.set()
                assert text_of([chunk async for chunk in stream]) == "b"


async def test_a_client_that_leaves_during_a_hold_is_noticed() -> None:
    with OpenAIServer([Reply.text("a", "b").gate(None, before=1)]) as server:
        async with client_of(server) as client:
            stream = await client.chat.completions.create(model="m", messages=[], stream=True)
            await anext(stream)
            await stream.close()
        request = await server.wait_for_chats(1)
        await server.wait_for(request.disconnected)


async def test_silence_sends_not_even_headers_and_does_not_outlive_the_server() -> None:
    with OpenAIServer([Reply.silence()]) as server:
        async with anyio.create_task_group() as waiting:

            async def ask() -> None:
                with pytest.raises(openai.APIConnectionError):
                    await chunks_of(server)

            waiting.start_soon(ask)
            request = await server.wait_for_chats(1)
            assert request.sent == []
            server.__exit__(None, None, None)


async def test_paced_events_leave_on_a_fixed_schedule() -> None:
    with OpenAIServer([Reply.text(*"abcdef", pace=0.02)]) as server:
        await chunks_of(server)
        sent = server.chats[0].sent
    assert all(later - sent[0] >= 0.02 * number - 0.001 for number, later in enumerate(sent))


async def test_a_reply_can_be_computed_from_the_request() -> None:
    with OpenAIServer(fallback=lambda request: Reply.text(request.body["model"])) as server:
        assert text_of(await chunks_of(server)) == "test-model"
        assert text_of(await chunks_of(server)) == "test-model"


async def test_a_request_beyond_the_script_fails_the_test() -> None:
    server = OpenAIServer().__enter__()
    with pytest.raises(openai.BadRequestError):
        await chunks_of(server)
    with pytest.raises(AssertionError, match="1 chat requests came after the end"):
        server.__exit__(None, None, None)


async def test_models_are_listed() -> None:
    with OpenAIServer(models=["one", "two"]) as server:
        async with client_of(server) as client:
            assert [model.id async for model in client.models.list()] == ["one", "two"]

"""Our requests to the peer, over memory and over real pipes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from msgspec import Raw

from acp_bridge.errors import ConnectionClosed, InvalidRequest, ParseError, PeerError, RequestTimedOut
from acp_bridge.wire.dispatcher import Dispatcher

from .conftest import Connect

pytestmark = pytest.mark.anyio


class Asking:
    """One request in a task of its own; `outcome` is what its caller got."""

    def __init__(self, dispatcher: Dispatcher, timeout: float | None = None) -> None:
        self.outcome: object = None
        self.scope = anyio.CancelScope()
        self._dispatcher = dispatcher
        self._timeout = timeout
        self._done = anyio.Event()

    async def __call__(self) -> None:
        try:
            with self.scope:
                self.outcome = await self._dispatcher.request("ask", {"q": 1}, timeout=self._timeout)
        except Exception as error:
            self.outcome = error
        self._done.set()

    async def done(self) -> object:
        await self._done.wait()
        return self.outcome


async def test_answers_are_matched_by_number_in_any_order_and_numbers_are_never_reused(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        asking = [Asking(dispatcher) for _ in range(3)]
        for ask in asking:
            tasks.start_soon(ask)
        frames = [await peer.next() for _ in range(3)]
        assert [frame["id"] for frame in frames] == [1, 2, 3]
        assert all((frame["method"], frame["params"]) == ("ask", {"q": 1}) for frame in frames)
        for number in (3, 1, 2):
            peer.write({"jsonrpc": "2.0", "id": number, "result": {"n": number}})
        assert [await ask.done() for ask in asking] == [Raw(b'{"n": %d}' % number) for number in (1, 2, 3)]
        again = Asking(dispatcher)
        tasks.start_soon(again)
        assert (await peer.next())["id"] == 4
        peer.write(b'{"id":4.0,"result":null}\n')
        assert await again.done() == Raw(b"null")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b'{"id":1,"error":{"code":-32000,"message":"no"}}', PeerError("ask", -32000, "no")),
        (b'{"id":1,"error":{"code":"x","message":7}}', PeerError("ask", 0, "")),
        (b'{"id":1,"error":"boom"}', PeerError("ask", 0, "")),
        (b'{"id":1,"error":true,"result":null}', PeerError("ask", 0, "")),
    ],
)
async def test_an_error_of_the_peer_is_raised_however_it_is_spelled(
    connect: Connect, answer: bytes, error: PeerError
) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        tasks.start_soon(ask := Asking(dispatcher))
        await peer.next()
        peer.write(answer + b"\n")
        outcome = await ask.done()
        assert isinstance(outcome, PeerError)
        assert str(outcome) == str(error)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b'{"id":1,"result":{"x":}}', ParseError),
        (b'{"id":1,"result":"\xff"}', ParseError),
        (b'{"id":1,"result":1,"result":2}', InvalidRequest),
        (b'{"id":1}', InvalidRequest),
    ],
)
async def test_a_broken_answer_fails_its_request_at_once_and_is_not_answered(
    connect: Connect, answer: bytes, error: type[Exception]
) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        tasks.start_soon(ask := Asking(dispatcher))
        await peer.next()
        peer.write(answer + b"\n")
        assert type(await ask.done()) is error
        assert await peer.silent()


async def test_a_broken_request_with_the_number_of_ours_does_not_settle_ours(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        tasks.start_soon(ask := Asking(dispatcher))
        await peer.next()
        peer.write(b'{"id":1,"method":5}\n')
        assert (await peer.next())["error"]["code"] == -32600
        peer.write(b'{"id":1,"result":{}}\n')
        assert await ask.done() == Raw(b"{}")


async def test_a_peer_that_does_not_answer_in_time_is_told_and_its_late_answer_dropped(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _):
        with pytest.raises(RequestTimedOut, match="did not answer ask within 0 s"):
            await dispatcher.request("ask", {}, timeout=0)
        assert (await peer.next())["method"] == "ask"
        assert_cancel(await peer.next(), 1)
        peer.write(b'{"id":1,"result":{}}\n')
        assert await peer.silent()


def assert_cancel(frame: dict[str, Any], number: int) -> None:
    assert frame == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}}


async def test_a_cancelled_caller_has_the_peer_told(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        tasks.start_soon(ask := Asking(dispatcher))
        await peer.next()
        ask.scope.cancel()
        assert_cancel(await peer.next(), 1)
        assert await ask.done() is None
        peer.write(b'{"id":1,"result":{}}\n')
        assert await peer.silent()


async def test_an_answer_that_came_before_the_cancel_took_effect_needs_no_cancel(connect: Connect) -> None:
    asking: list[Asking] = []
    async with connect({}, {"give up": lambda _: asking[0].scope.cancel()}) as (dispatcher, peer, _):
        asking.append(ask := Asking(dispatcher))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await peer.next()
            peer.write(b'{"id":1,"result":{}}\n', b'{"method":"give up"}\n')
            await ask.done()
            assert await peer.silent()


async def test_at_the_end_of_the_stream_every_waiting_request_is_rejected_and_new_ones_too(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        asking = [Asking(dispatcher), Asking(dispatcher, timeout=60)]
        for ask in asking:
            tasks.start_soon(ask)
        await peer.next()
        await peer.next()
        peer.close()
        assert [type(await ask.done()) for ask in asking] == [ConnectionClosed, ConnectionClosed]
        with pytest.raises(ConnectionClosed):
            await dispatcher.request("ask", {}, timeout=None)


async def test_stopping_rejects_waiting_requests_without_a_cancel(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _), anyio.create_task_group() as tasks:
        tasks.start_soon(ask := Asking(dispatcher))
        await peer.next()
        dispatcher.stop()
        assert isinstance(await ask.done(), ConnectionClosed)


async def test_both_directions_have_their_own_numbers(connect: Connect) -> None:
    async def ask_back(context: object, params: Raw) -> object:
        return {"answer": await peers[0].request("ask", {}, timeout=None)}

    peers: list[Dispatcher] = []
    async with connect({"m": ask_back}) as (dispatcher, peer, _):
        peers.append(dispatcher)
        peer.write(peer.call(1, "m"))
        assert (await peer.next())["method"] == "ask"
        peer.write(b'{"id":1,"result":{"yes":true}}\n')
        assert await peer.next() == {"jsonrpc": "2.0", "id": 1, "result": {"answer": {"yes": True}}}


async def test_params_that_cannot_be_encoded_send_nothing(connect: Connect) -> None:
    async with connect() as (dispatcher, peer, _):
        with pytest.raises(TypeError):
            await dispatcher.request("ask", {"a": object()}, timeout=None)
        assert await peer.silent()

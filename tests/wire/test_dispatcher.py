"""The dispatcher's contract, over memory and over real pipes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from msgspec import Raw

from acp_bridge.errors import SessionNotFound
from acp_bridge.wire.dispatcher import Dispatcher, RequestContext

from .conftest import Connect, Ends

pytestmark = pytest.mark.anyio


def error_code(frame: dict[str, Any]) -> int:
    return int(frame["error"]["code"])


class Recorder:
    """Diagnostics that remember."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []

    def note(self, text: str) -> None:
        raise AssertionError(text)

    def failure(self, what: str, error: BaseException) -> None:
        self.failures.append((what, type(error).__name__))


class Gate:
    """A request handler whose awaitables wait until they are let through."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.contexts: list[RequestContext] = []

    async def __call__(self, context: RequestContext, params: Raw) -> object:
        self.contexts.append(context)
        await self.open.wait()
        return {"method": context.method}


async def echo(context: RequestContext, params: Raw) -> object:
    return {"got": msgspec.json.decode(params)}


async def test_a_request_is_answered_with_its_id_and_its_handlers_result(connect: Connect) -> None:
    async with connect({"echo": echo}) as (_, peer, _):
        peer.write(peer.call("id-1", "echo", a=1), peer.call(1.5, "echo"), peer.call(None, "echo"))
        assert await peer.next() == {"jsonrpc": "2.0", "id": "id-1", "result": {"got": {"a": 1}}}
        assert (await peer.next())["id"] == 1.5
        assert (await peer.next())["id"] is None


async def test_requests_run_concurrently_and_a_slow_one_holds_up_none(connect: Connect) -> None:
    gate = Gate()
    async with connect({"slow": gate, "echo": echo}) as (dispatcher, peer, _):
        peer.write(peer.call(1, "slow"), peer.call(2, "echo"))
        assert (await peer.next())["id"] == 2
        assert [context.method for context in dispatcher.in_flight] == ["slow"]
        gate.open.set()
        assert await peer.next() == {"jsonrpc": "2.0", "id": 1, "result": {"method": "slow"}}
        assert dispatcher.in_flight == ()


async def test_a_prompt_and_its_cancel_in_one_write_are_seen_in_order(connect: Connect) -> None:
    """Field case P6: what the handler reserves before its awaitable runs is there for the next notification."""
    cancelled: dict[str, anyio.Event] = {}

    def prompt(context: RequestContext, params: Raw) -> Awaitable[object]:
        event = cancelled["s"] = anyio.Event()

        async def turn() -> object:
            await event.wait()
            return {"stopReason": "cancelled"}

        return turn()

    async with connect({"session/prompt": prompt}, {"session/cancel": lambda _: cancelled["s"].set()}) as (_, peer, _):
        peer.write(peer.call(1, "session/prompt"), {"jsonrpc": "2.0", "method": "session/cancel", "params": {}})
        assert (await peer.next())["result"] == {"stopReason": "cancelled"}


async def test_everything_a_handler_sent_precedes_its_answer(connect: Connect) -> None:
    async with connect({"talk": lambda c, p: talk()}) as (dispatcher, peer, _):

        async def talk() -> object:
            for number in range(1000):
                dispatcher.notify("session/update", {"n": number})
                await dispatcher.drain()
            return None

        peer.write(peer.call(1, "talk"))
        for number in range(1000):
            assert (await peer.next())["params"] == {"n": number}
        assert await peer.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_notifications_are_handled_in_order_and_unknown_ones_in_silence(connect: Connect) -> None:
    seen: list[bytes] = []
    async with connect({}, {"n": lambda params: seen.append(bytes(params))}) as (_, peer, _):
        peer.write(*(b'{"method":"n","params":{"n":%d}}\n' % number for number in range(50)), b'{"method":"other"}\n')
        assert await peer.silent()
    assert seen == [b'{"n":%d}' % number for number in range(50)]


async def test_a_failing_notification_handler_is_noted_and_answered_with_nothing(connect: Connect) -> None:
    notes = Recorder()

    def broken(params: Raw) -> None:
        raise KeyError("secret")

    async with connect({}, {"n": broken}, diagnostics=notes) as (_, peer, _):
        peer.write(b'{"method":"n"}\n', b'{"method":"n"}\n')
        assert await peer.silent()
    assert notes.failures == [("n failed", "KeyError")] * 2


async def test_an_unknown_request_is_refused_by_name_even_if_a_notification_has_that_name(connect: Connect) -> None:
    async with connect({}, {"session/cancel": lambda _: None}) as (_, peer, _):
        peer.write(peer.call(1, "no/such"), peer.call(2, "session/cancel"))
        assert error_code(frame := await peer.next()) == -32601
        assert "'no/such'" in frame["error"]["message"]
        assert error_code(await peer.next()) == -32601


async def test_a_notification_written_with_a_null_id_is_a_notification(connect: Connect) -> None:
    seen: list[bytes] = []
    async with connect({}, {"session/cancel": lambda params: seen.append(bytes(params))}) as (_, peer, _):
        peer.write(peer.call(None, "session/cancel", sessionId="s"))
        assert await peer.silent()
    assert len(seen) == 1


def refuse(context: RequestContext, params: Raw) -> Awaitable[object]:
    raise SessionNotFound("s1")


async def fail_later(context: RequestContext, params: Raw) -> object:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError("a secret")


async def answer_badly(context: RequestContext, params: Raw) -> object:
    return ["not", "an", "object"]


async def fail_in_a_group(context: RequestContext, params: Raw) -> object:
    async with anyio.create_task_group():
        raise SessionNotFound("s1")
    return None


@pytest.mark.parametrize(
    ("handler", "code", "noted"),
    [
        (refuse, -32002, []),
        (fail_in_a_group, -32002, [("m failed", "ExceptionGroup")]),
        (fail_later, -32603, [("m failed", "RuntimeError")]),
        (answer_badly, -32603, [("m failed", "TypeError")]),
    ],
)
async def test_a_failing_handler_gives_exactly_one_error(
    connect: Connect, handler: Any, code: int, noted: list[tuple[str, str]]
) -> None:
    notes = Recorder()
    async with connect({"m": handler}, diagnostics=notes) as (dispatcher, peer, _):
        peer.write(peer.call(1, "m"))
        frame = await peer.next()
        assert (frame["id"], error_code(frame)) == (1, code)
        assert "secret" not in str(frame)
        assert dispatcher.in_flight == ()
        assert await peer.silent()
    assert notes.failures == noted


async def test_a_second_request_with_an_id_in_flight_is_refused_and_the_first_goes_on(connect: Connect) -> None:
    gate = Gate()
    async with connect({"slow": gate}) as (_, peer, _):
        peer.write(peer.call("a", "slow"), b'{"id":"\\u0061","method":"slow"}\n', peer.call("a", "unknown"))
        assert error_code(await peer.next()) == -32600
        assert error_code(await peer.next()) == -32600
        gate.open.set()
        assert (await peer.next())["result"] == {"method": "slow"}
        assert len(gate.contexts) == 1
        peer.write(peer.call("a", "slow"))
        assert (await peer.next())["result"] == {"method": "slow"}


async def test_a_peers_cancel_ends_the_request_with_its_own_code(connect: Connect) -> None:
    async with connect({"slow": Gate()}) as (_, peer, _):
        peer.write(peer.call("x", "slow"), cancel("x"), cancel("x"))
        frame = await peer.next()
        assert (frame["id"], error_code(frame)) == ("x", -32800)
        assert await peer.silent()


def cancel(id_: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id_}}


async def test_a_handler_that_takes_cancels_itself_is_told_once_and_answers_its_result(connect: Connect) -> None:
    told: list[str] = []

    async def prompt(context: RequestContext, params: Raw) -> object:
        stopped = anyio.Event()

        def stop() -> None:
            told.append(context.method)
            stopped.set()

        context.on_cancel = stop
        await stopped.wait()
        return {"stopReason": "cancelled"}

    async with connect({"prompt": prompt, "echo": echo}) as (_, peer, _):
        peer.write(peer.call(1, "prompt"), peer.call(2, "echo"))
        assert (await peer.next())["id"] == 2
        peer.write(cancel(1), cancel(1))
        assert (await peer.next())["result"] == {"stopReason": "cancelled"}
        assert await peer.silent()
    assert told == ["prompt"]


async def test_work_that_finishes_in_spite_of_a_cancel_is_answered_with_its_result_only(connect: Connect) -> None:
    entered = anyio.Event()

    async def write(context: RequestContext, params: Raw) -> object:
        with anyio.CancelScope(shield=True):
            entered.set()
            while not context.cancel_requested:
                await anyio.lowlevel.checkpoint()
        return {"written": True}

    async with connect({"write": write}) as (_, peer, _):
        peer.write(peer.call(1, "write"))
        await entered.wait()
        peer.write(cancel(1))
        assert (await peer.next())["result"] == {"written": True}
        assert await peer.silent()


async def test_cancels_for_unknown_finished_or_malformed_ids_change_nothing(connect: Connect) -> None:
    async with connect({"echo": echo}) as (_, peer, _):
        peer.write(peer.call(1, "echo"))
        await peer.next()
        malformed: list[bytes] = [b"{}", b'{"requestId":[]}', b"[]", b'{"requestId":true}', b'{"requestId":1e999}']
        peer.write(
            cancel(1), cancel("nobody"), *(b'{"method":"$/cancel_request","params":%b}\n' % p for p in malformed)
        )
        peer.write(b'{"method":"$/cancel_request"}\n')
        assert await peer.silent()


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        (b"garbage", None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":', 7, -32700),
        (b'[{"id":1,"method":"echo"}]', None, -32600),
        (b'{"id":"a"}', "a", -32600),
        (b'{"id":4,"method":"echo","params":"x"}', 4, -32600),
        (b'{"id":4,"method":"echo","params":{"x":"\xff"}}', 4, -32700),
    ],
)
async def test_a_bad_line_gets_its_error_and_the_connection_lives_on(
    connect: Connect, line: bytes, id_: object, code: int
) -> None:
    async with connect({"echo": echo}) as (_, peer, _):
        peer.write(line + b"\n", peer.call(9, "echo"))
        frame = await peer.next()
        assert (frame["id"], error_code(frame)) == (id_, code)
        assert (await peer.next())["id"] == 9


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":null,"error":{"code":-32602,"message":"bad"}}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"id":77,"result":{"x":}}',
        b'{"error":5}',
        b'{"id":[],"result":1}',
        b'{"id":77,"result":1,"result":2}',
    ],
)
async def test_responses_nobody_waits_for_are_never_answered(connect: Connect, line: bytes) -> None:
    async with connect() as (_, peer, _):
        peer.write(line + b"\n")
        assert await peer.silent()


async def test_what_goes_over_the_wire_can_be_observed(connect: Connect) -> None:
    seen: list[tuple[str, bytes]] = []
    async with connect({"echo": echo}, on_frame=lambda way, frame: seen.append((way, frame))) as (_, peer, _):
        peer.write(b'{"id":1,"method":"echo","params":{}}\n')
        await peer.next()
    assert seen == [
        ("in", b'{"id":1,"method":"echo","params":{}}'),
        ("out", b'{"jsonrpc":"2.0","id":1,"result":{"got":{}}}\n'),
    ]


async def test_after_reading_ended_running_handlers_go_on_and_still_answer(ends: Ends) -> None:
    gate = Gate()
    with anyio.fail_after(5):
        async with (
            ends() as (transport, peer),
            Dispatcher(transport, {"slow": gate}, {"quit": lambda _: dispatcher.stop()}) as dispatcher,
        ):
            peer.write(peer.call(1, "slow"), b'{"method":"quit"}\n')
            await dispatcher.run()
            gate.open.set()
            await dispatcher.settled()
            assert (await peer.next())["result"] == {"method": "slow"}


async def test_leaving_the_dispatcher_answers_what_is_left_with_cancelled(ends: Ends) -> None:
    with anyio.fail_after(5):
        async with ends() as (transport, peer):
            async with Dispatcher(transport, {"slow": Gate()}, {}) as dispatcher, anyio.create_task_group() as tasks:
                tasks.start_soon(dispatcher.run)
                peer.write(peer.call(1, "slow"), peer.call(2, "slow"), peer.call(3, "none"))
                assert (await peer.next())["id"] == 3
                dispatcher.stop()
            answers = [await peer.next(), await peer.next()]
            assert {(frame["id"], error_code(frame)) for frame in answers} == {(1, -32800), (2, -32800)}


async def test_a_handler_cancelled_by_teardown_may_still_answer_its_result(ends: Ends) -> None:
    async def prompt(context: RequestContext, params: Raw) -> object:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
        return {"stopReason": "cancelled"}

    with anyio.fail_after(5):
        async with ends() as (transport, peer):
            async with Dispatcher(transport, {"prompt": prompt}, {}) as dispatcher, anyio.create_task_group() as tasks:
                tasks.start_soon(dispatcher.run)
                peer.write(peer.call(1, "prompt"), peer.call(3, "none"))
                assert (await peer.next())["id"] == 3
                dispatcher.stop()
            assert (await peer.next())["result"] == {"stopReason": "cancelled"}


async def test_what_the_body_raises_leaves_dispatcher_and_transport_as_it_is(ends: Ends) -> None:
    with anyio.fail_after(5), pytest.raises(ZeroDivisionError):
        async with ends() as (transport, _), Dispatcher(transport, {}, {}):
            raise ZeroDivisionError


async def test_stopping_before_running_reads_nothing(ends: Ends) -> None:
    with anyio.fail_after(5):
        async with ends() as (transport, peer), Dispatcher(transport, {"echo": echo}, {}) as dispatcher:
            peer.write(peer.call(1, "echo"))
            await peer.transport.flush()
            dispatcher.stop()
            await dispatcher.run()
            assert dispatcher.in_flight == ()


async def test_an_end_of_stream_lets_producers_go_that_wait_for_a_slow_reader(ends: Ends) -> None:
    begun, done = anyio.Event(), anyio.Event()

    async def pour(context: RequestContext, params: Raw) -> object:
        begun.set()
        for _ in range(200):
            dispatcher.notify("n", {"text": "x" * 65_536})
            await dispatcher.drain()
        done.set()
        return None

    with anyio.fail_after(5):
        async with (
            ends() as (transport, peer),
            Dispatcher(transport, {"pour": pour}, {}) as dispatcher,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(dispatcher.run)
            peer.write(peer.call(1, "pour"))
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            assert not done.is_set()
            dispatcher.stop()
            await done.wait()

"""The transports: order, back-pressure, hang-ups, odd descriptors."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from acp_bridge.errors import ConnectionClosed
from acp_bridge.wire.jsonrpc import Line, Oversized
from acp_bridge.wire.stdio import StdioFds, StdioTransport
from acp_bridge.wire.transport import HIGH_WATER, memory_transports

from .conftest import Ends, Pipes

pytestmark = pytest.mark.anyio


async def lines(transport: StdioTransport, count: int) -> list[Line]:
    got: list[Line] = []
    while len(got) < count:
        batch = await transport.receive()
        assert batch, "the stream ended"
        got += batch
    return got


async def test_lines_of_any_size_and_in_any_pieces_arrive_whole(pipes: Pipes) -> None:
    expected = [b"x" * size for size in (1, 65_535, 65_536, 65_537, 3_000_000)]
    stream = b"".join(line + b"\n" for line in expected)

    def write() -> None:
        for byte in b'{"one":"byte at a time"}\n':
            os.write(pipes.theirs.writer, bytes([byte]))
        for at in range(0, len(stream), 10_007):
            os.write(pipes.theirs.writer, stream[at : at + 10_007])

    writer = threading.Thread(target=write)
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport:
            writer.start()
            assert await lines(transport, 6) == [b'{"one":"byte at a time"}', *expected]
    writer.join()


async def test_a_line_over_the_cap_is_reported_and_the_stream_goes_on(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours, cap=100) as transport:
            os.write(pipes.theirs.writer, b"a" * 5000 + b"\nnext\n")
            assert await lines(transport, 2) == [Oversized(100, b"a" * 100), b"next"]


async def test_an_unterminated_last_line_is_delivered_before_the_end_and_the_end_is_for_good(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport:
            os.write(pipes.theirs.writer, b"one\ntwo")
            pipes.close(pipes.theirs.writer)
            assert [await transport.receive() for _ in range(4)] == [[b"one"], [b"two"], [], []]


async def test_after_the_editor_closed_our_input_answers_still_go_out(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport:
            pipes.close(pipes.theirs.writer)
            assert await transport.receive() == []
            transport.send(b"answer\n")
        assert os.read(pipes.theirs.reader, 100) == b"answer\n"


@pytest.fixture
def records() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair of sockets where each write is one record."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield pair
    for end in pair:
        end.close()


async def test_all_frames_of_one_loop_turn_go_out_in_one_write(
    pipes: Pipes, records: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = records
    with anyio.fail_after(5):
        async with StdioTransport(StdioFds(pipes.ours.reader, ours.fileno())) as transport:
            for number in range(100):
                transport.send(b"%d\n" % number)
            await transport.flush()
            assert theirs.recv(65_536) == b"".join(b"%d\n" % number for number in range(100))
            transport.send(b"later\n")
            await transport.flush()
            assert theirs.recv(65_536) == b"later\n"


async def test_a_slow_reader_holds_up_producers_at_the_mark_and_loses_nothing(pipes: Pipes) -> None:
    frames = [b"%06d %s\n" % (number, b"x" * 60_000) for number in range(60)]
    done = anyio.Event()

    async def produce(transport: StdioTransport) -> None:
        for frame in frames:
            transport.send(frame)
            await transport.drain()
            assert transport.buffered <= HIGH_WATER
        done.set()

    with anyio.fail_after(5):
        async with (
            StdioTransport(pipes.ours) as transport,
            StdioTransport(pipes.theirs) as editor,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(produce, transport)
            await anyio.wait_all_tasks_blocked()
            assert not done.is_set()
            assert HIGH_WATER < transport.buffered < HIGH_WATER + 2 * len(frames[0])
            assert await lines(editor, len(frames)) == [frame[:-1] for frame in frames]
            await done.wait()


async def test_drain_and_send_take_no_checkpoint_while_the_reader_keeps_up(ends: Ends) -> None:
    with anyio.fail_after(5):
        async with ends() as (transport, _):
            transport.send(b"x\n")
            with pytest.raises(StopIteration):
                transport.drain().send(None)


async def test_cancel_still_comes_in_while_the_outgoing_stream_is_stuck(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport:
            transport.send(b"x" * (2 * HIGH_WATER) + b"\n")
            await anyio.wait_all_tasks_blocked()
            os.write(pipes.theirs.writer, b"cancel\n")
            assert await transport.receive() == [b"cancel"]
            transport.relax()


async def test_a_vanished_reader_ends_the_stream_while_input_is_still_open(pipes: Pipes) -> None:
    """Field case L1: EPIPE while streaming."""
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport, anyio.create_task_group() as tasks:
            ended = anyio.Event()

            async def receive() -> None:
                assert await transport.receive() == []
                ended.set()

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            pipes.close(pipes.theirs.reader)
            transport.send(b"into the void\n")
            await ended.wait()
            transport.send(b"x" * (2 * HIGH_WATER))
            await transport.drain()
            await transport.flush()
            assert transport.buffered == 0
            assert await transport.receive() == []


async def test_a_reader_that_vanishes_under_back_pressure_lets_producers_go(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport, anyio.create_task_group() as tasks:
            transport.send(b"x" * (3 * HIGH_WATER))
            tasks.start_soon(transport.drain)
            tasks.start_soon(transport.flush)
            await anyio.wait_all_tasks_blocked()
            pipes.close(pipes.theirs.reader)


async def test_a_descriptor_that_was_closed_ends_the_stream(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport:
            pipes.close(pipes.ours.writer)
            transport.send(b"x\n")
            await transport.flush()
            assert await transport.receive() == []


async def test_leaving_with_a_stuck_reader_takes_a_second_not_for_ever_and_closes(pipes: Pipes) -> None:
    with anyio.fail_after(3):
        async with StdioTransport(pipes.ours) as transport:
            transport.send(b"x" * HIGH_WATER)
        with pytest.raises(ConnectionClosed):
            transport.send(b"more\n")
        assert await transport.receive() == []
        await transport.flush()


async def test_leaving_by_cancellation_still_flushes(pipes: Pipes) -> None:
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with StdioTransport(pipes.ours) as transport:
            transport.send(b"last words\n")
            scope.cancel()
            await anyio.sleep_forever()
    assert os.read(pipes.theirs.reader, 100) == b"last words\n"


async def test_descriptors_stay_open_and_block_again_afterwards(pipes: Pipes) -> None:
    async with StdioTransport(pipes.ours):
        assert [os.get_blocking(fd) for fd in pipes.ours] == [False, False]
    assert [os.get_blocking(fd) for fd in pipes.ours] == [True, True]


async def test_a_regular_file_is_read_to_its_end_and_written(pipes: Pipes, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"".join(b"%d\n" % number for number in range(50_000)))
    reader, writer = os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT)
    try:
        with anyio.fail_after(5):
            async with StdioTransport(StdioFds(reader, writer)) as transport:
                got = await lines(transport, 50_000)
                assert got[-1] == b"49999"
                assert await transport.receive() == []
                transport.send(b"answer\n")
        assert target.read_bytes() == b"answer\n"
    finally:
        pipes.close(reader, writer)


async def test_dev_null_as_input_is_an_immediate_end(pipes: Pipes) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        with anyio.fail_after(5):
            async with StdioTransport(StdioFds(null, pipes.ours.writer)) as transport:
                assert await transport.receive() == []
    finally:
        os.close(null)


async def test_an_idle_transport_has_nothing_scheduled(pipes: Pipes) -> None:
    """0 % CPU: every task waits for the world."""
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport, anyio.create_task_group() as tasks:
            tasks.start_soon(transport.receive)
            transport.send(b"x\n")
            await transport.flush()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()


async def test_a_cancelled_receive_loses_no_line(pipes: Pipes) -> None:
    with anyio.fail_after(5):
        async with StdioTransport(pipes.ours) as transport:
            os.write(pipes.theirs.writer, b"ha")
            with anyio.move_on_after(0):
                await transport.receive()
            os.write(pipes.theirs.writer, b"lf\n")
            assert await transport.receive() == [b"half"]


async def test_memory_ends_carry_bytes_both_ways_and_closing_one_ends_the_other() -> None:
    left, right = memory_transports(cap=10)
    with anyio.fail_after(5):
        left.send(b"a\nb\nc")
        right.send(b"x" * 11 + b"\n")
        assert await right.receive() == [b"a", b"b"]
        assert await left.receive() == [Oversized(10, b"x" * 10)]
        left.close()
        assert await right.receive() == [b"c"]
        assert await right.receive() == []
        right.send(b"nobody\n")
        await right.drain()
        with pytest.raises(ConnectionClosed):
            left.send(b"x\n")
        assert await left.receive() == []


async def test_a_memory_end_holds_producers_up_until_its_peer_reads() -> None:
    left, right = memory_transports()
    with anyio.fail_after(5):
        async with left, right, anyio.create_task_group() as tasks:
            left.send(b"x" * HIGH_WATER + b"\n")
            tasks.start_soon(left.drain)
            await anyio.wait_all_tasks_blocked()
            assert left.buffered > HIGH_WATER
            await right.receive()

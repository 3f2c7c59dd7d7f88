"""Claiming stdio, in real processes (field cases P2, P3)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


def run(program: str, *, stdin: bytes = b"", closed: tuple[int, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    def close() -> None:
        for fd in closed:
            os.close(fd)

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        input=stdin,
        capture_output=True,
        timeout=20,
        preexec_fn=close if closed else None,
        check=False,
    )


def test_prints_warnings_tracebacks_and_children_land_on_stderr_and_only_frames_on_stdout() -> None:
    done = run(
        """
        from acp_bridge.wire.stdio import claim_stdio
        fds = claim_stdio()
        import os, subprocess, sys, traceback, warnings
        print("a print")
        sys.__stdout__.write("the original stdout\\n")
        os.write(1, b"descriptor one\\n")
        os.system("echo from os.system")
        subprocess.run("echo a child; echo its fd 1 > /proc/self/fd/1; echo tty > /dev/stdout", shell=True)
        warnings.warn("a warning")
        os.write(fds.writer, b'{"frame":1}\\n')
        raise SystemError("a traceback")
        """
    )
    assert done.stdout == b'{"frame":1}\n'
    for text in (b"a print", b"original stdout", b"descriptor one", b"from os.system", b"a child", b"its fd 1", b"tty"):
        assert text in done.stderr
    assert b"a warning" in done.stderr
    assert b"a traceback" in done.stderr


def test_children_read_nothing_and_cannot_reach_the_wire() -> None:
    done = run(
        """
        from acp_bridge.wire.stdio import claim_stdio
        fds = claim_stdio()
        import os, subprocess, sys
        assert sys.stdin.read() == ""
        assert subprocess.run(["cat"], capture_output=True).stdout == b""
        open_in_child = subprocess.run(
            [sys.executable, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"],
            close_fds=False, capture_output=True, text=True,
        ).stdout
        os.write(fds.writer, f"{open_in_child.strip()} {os.read(fds.reader, 100)} {min(fds) > 2}\\n".encode())
        """,
        stdin=b"the editor's bytes\n",
    )
    assert done.stderr == b""
    assert done.stdout == b'[0, 1, 2] b"the editor\'s bytes\\n" True\n'


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 2)])
def test_descriptors_closed_at_start_count_as_dev_null(closed: tuple[int, ...]) -> None:
    done = run(
        """
        from acp_bridge.wire.stdio import claim_stdio
        fds = claim_stdio()
        import os
        print("lost or on stderr")
        os.write(fds.writer, f"{os.read(fds.reader, 10)} {min(fds) > 2}\\n".encode())
        """,
        stdin=b"typed",
        closed=closed,
    )
    assert done.stdout == (b"b'' True\n" if 0 in closed else b"b'typed' True\n")


def test_a_second_claim_is_refused() -> None:
    done = run(
        """
        from acp_bridge.wire.stdio import claim_stdio
        claim_stdio()
        claim_stdio()
        """
    )
    assert done.returncode == 1
    assert b"already claimed" in done.stderr


def test_claiming_imports_neither_anyio_nor_msgspec() -> None:
    done = run(
        """
        import sys
        from acp_bridge.wire.stdio import claim_stdio
        print(sorted({"anyio", "msgspec", "asyncio", "dataclasses", "inspect", "logging"} & set(sys.modules)))
        """
    )
    assert done.stdout == b"[]\n"


def test_the_wire_imports_nothing_heavier_than_anyio_and_msgspec() -> None:
    done = run(
        """
        import sys
        import anyio, msgspec
        anyio.Event, anyio.CancelScope, anyio.create_task_group, anyio.abc.TaskGroup
        import anyio.lowlevel
        before = set(sys.modules)
        import acp_bridge.wire.dispatcher, acp_bridge.wire.stdio, acp_bridge.wire.pipes, acp_bridge.wire.params
        print(sorted(name for name in set(sys.modules) - before if not name.startswith("acp_bridge")))
        """
    )
    assert done.stdout in (b"[]\n", b"['fcntl']\n"), done.stdout + done.stderr


EDITOR_GOES = """
    from acp_bridge.wire.stdio import StdioTransport, claim_stdio
    fds = claim_stdio()
    import anyio, os
    from acp_bridge.wire.dispatcher import Dispatcher

    async def stream(context, params):
        while True:
            dispatcher.notify("session/update", {"text": "x" * 1000})
            await dispatcher.drain()
            await anyio.lowlevel.checkpoint()

    async def main():
        global dispatcher
        async with StdioTransport(fds) as transport:
            async with Dispatcher(transport, {"stream": stream}, {}) as dispatcher:
                await dispatcher.run()

    anyio.run(main)
    os.write(2, b"ended cleanly")
"""


def test_a_whole_process_ends_when_its_reader_vanishes_while_it_streams() -> None:
    """Field case L1, third form: only stdout is closed, stdin stays open."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(EDITOR_GOES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"stream"}\n')
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"jsonrpc":"2.0","method":"session/update"')
        process.stdout.close()
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == b"ended cleanly"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stderr.close()


def test_a_whole_process_answers_what_it_read_before_the_end_and_exits() -> None:
    done = run(
        """
        from acp_bridge.wire.stdio import StdioTransport, claim_stdio
        fds = claim_stdio()
        import anyio
        from acp_bridge.wire.dispatcher import Dispatcher

        async def echo(context, params):
            print("handled")
            return {"got": params}

        async def main():
            async with StdioTransport(fds) as transport, Dispatcher(transport, {"echo": echo}, {}) as dispatcher:
                await dispatcher.run()
                await dispatcher.settled()

        anyio.run(main)
        """,
        stdin=b'{"id":1,"method":"echo","params":{}}\ngarbage\n{"id":2,"method":"echo","params":{}}',
    )
    assert done.stderr == b"handled\nhandled\n"
    answers = sorted(done.stdout.splitlines())
    assert answers[:2] == [
        b'{"jsonrpc":"2.0","id":1,"result":{"got":{}}}',
        b'{"jsonrpc":"2.0","id":2,"result":{"got":{}}}',
    ]
    assert b'"id":null,"error":{"code":-32700' in answers[2]

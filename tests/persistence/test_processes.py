"""Real processes: a writer that is killed, and a second agent on the same session (field cases D5, D6)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_bridge.errors import SessionAlreadyOwned
from tests.persistence.helpers import chunk, header, store_at

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]

# Saves batch after batch, says after each one how many events are durable, and keeps the session when it is done.
WRITER = """
import sys
from pathlib import Path
import anyio
from tests.persistence.helpers import chunk, header, store_at

async def main():
    async with store_at(Path(sys.argv[1])) as store:
        handle = await (store.open("s1") if sys.argv[2] == "open" else store.create(header()))
        seq = len(await handle.read())
        for _ in range(int(sys.argv[3])):
            for _ in range(50):
                handle.admit(chunk(seq, f"word {seq} "))
                seq += 1
            await handle.flush()
            print(seq, flush=True)
        sys.stdin.read()

anyio.run(main)
"""


@contextmanager
def writer(root: Path, how: str, batches: int = 10_000) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(root), how, str(batches)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def killed_after(process: subprocess.Popen[str], batches: int) -> int:
    """SIGKILL it in the middle of its work. Returns how many events it had been told are durable."""
    assert process.stdout is not None
    for _ in range(batches):
        assert process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.wait(timeout=20)
    return int(rest.split()[-1]) if rest.endswith("\n") else 50 * batches


async def test_a_killed_writer_keeps_every_event_that_was_called_durable(tmp_path: Path) -> None:
    durable = 0
    for round_, batches in enumerate((1, 4, 9)):
        with writer(tmp_path, "open" if round_ else "create") as process:
            promised = killed_after(process, batches)
        async with store_at(tmp_path) as store:
            handle = await store.open("s1")
            events = await handle.read()
        assert len(events) >= max(promised, durable)
        assert events == [chunk(seq, f"word {seq} ") for seq in range(len(events))]
        durable = len(events)


async def test_a_second_agent_is_refused_by_name_reads_all_the_same_and_gets_the_session_after_a_kill(
    tmp_path: Path,
) -> None:
    with writer(tmp_path, "create", batches=40) as process:
        assert process.stdout is not None
        promised = int(process.stdout.readline())
        async with store_at(tmp_path) as store:
            with pytest.raises(SessionAlreadyOwned) as caught:
                await store.open("s1")
            assert (caught.value.pid, caught.value.editor) == (process.pid, "Zed")
            for _ in range(20):
                found, events = await store.read("s1")
                assert found == header()
                assert len(events) >= promised
                assert events == [chunk(seq, f"word {seq} ") for seq in range(len(events))]
                promised = len(events)
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=20)
            handle = await store.open("s1")
            seq = len(await handle.read())
            await handle.append([chunk(seq)])

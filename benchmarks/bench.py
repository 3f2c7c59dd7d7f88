"""`make bench`: start, memory, per-chunk CPU, first-chunk latency and flush, as a table with the goals of the design.

Machines are shared and noisy: each figure is a median, and the ones that depend on the machine stand beside a
yardstick measured in the same run (bare Python, the libraries' imports, a bare write+fdatasync). Nothing is asserted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from editor import Editor  # type: ignore[import-not-found]  # the benchmarks folder is the script's own path

RUNS = 10
STACK = "import anyio, anyio._backends._asyncio, msgspec, pluggy"
SCREENPLAY = '{"turns": []}'


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="acp-bridge-bench-") as name:
        folder = Path(name).resolve()
        (folder / "screenplay.json").write_text(SCREENPLAY)
        print(f"{'what':48} {'measured':>14}  {'goal or yardstick'}")
        start(folder)
        with endpoint() as base_url:
            chunks(folder, base_url)
            paced(folder, base_url)
            warm(folder, base_url)
        flush(folder)
        kernel()


def row(what: str, measured: str, beside: str = "") -> None:
    print(f"{what:48} {measured:>14}  {beside}", flush=True)


def median_of(work: Callable[[], float], runs: int = RUNS) -> float:
    work()
    return statistics.median(work() for _ in range(runs))


def start(folder: Path) -> None:
    bare = median_of(lambda: launch("pass"))
    stack = median_of(lambda: launch(STACK))
    initialize: list[float] = []
    opened: list[float] = []
    rss: list[float] = []
    for number in range(RUNS + 1):
        with Editor(folder, f"scripted/{folder}/screenplay.json") as editor:
            editor.request("initialize", protocolVersion=1, clientCapabilities={})
            initialize.append(time.monotonic() - editor.spawned)
            editor.request("session/new", cwd=str(folder), mcpServers=[])
            opened.append(time.monotonic() - editor.spawned)
            rss.append(editor.rss_mb())
        if number == 0:
            for figures in (initialize, opened, rss):
                figures.clear()
    row("python -c pass", f"{bare * 1e3:.0f} ms")
    row("the libraries' imports alone", f"{stack * 1e3:.0f} ms")
    first, second = statistics.median(initialize), statistics.median(opened)
    row("spawn -> initialize", f"{first * 1e3:.0f} ms", f"goal 120 ms; {first / stack:.2f} x the imports alone")
    row("spawn -> session/new", f"{second * 1e3:.0f} ms", f"goal 150 ms; {second / stack:.2f} x the imports alone")
    row("RSS after session/new", f"{statistics.median(rss):.1f} MB", "goal 40 MB")


def launch(code: str) -> float:
    begun = time.monotonic()
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    return time.monotonic() - begun


def chunks(folder: Path, base_url: str) -> None:
    """CPU of the whole agent over one reply of 5,000 unpaced chunks, each on the wire by itself."""
    with Editor(folder, "openai/chunks-5000-0", base_url) as editor:
        session = editor.open_session(folder)
        prompt(editor, session)  # imports the SDK and connects
        figures = []
        for _ in range(3):
            before = editor.cpu_seconds()
            frames = prompt(editor, session)
            figures.append((editor.cpu_seconds() - before) / 5000)
        row("CPU per chunk, 5,000 chunks, whole agent", f"{statistics.median(figures) * 1e6:.0f} us", "goal 40 us")
        row("  chunk frames on the wire", str(frames), "5,000")
        row("  RSS after four such replies", f"{editor.rss_mb():.1f} MB", "goal 100 MB")


def prompt(editor: Editor, session: str) -> int:
    """Run one prompt to its end; the number of message chunks seen."""
    number = editor.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
    marker = b'"id":%d,' % number
    seen = 0
    while True:
        line = editor.line()
        if b"agent_message_chunk" in line:
            seen += 1
        elif marker in line and b'"result"' in line:
            return seen


def paced(folder: Path, base_url: str) -> None:
    with Editor(folder, "openai/chunks-50-20", base_url) as editor:
        session = editor.open_session(folder)
        prompt(editor, session)
        delays = [arrived - sent for sent, arrived in timed(editor, session)]
        row("delay of chunks 20 ms apart, median", f"{statistics.median(delays) * 1e3:.2f} ms", "goal 2 ms")


def warm(folder: Path, base_url: str) -> None:
    """Prompt to first chunk; what the endpoint itself takes is within it (well under 1 ms)."""
    with Editor(folder, "openai/chunks-1-0", base_url) as editor:
        session = editor.open_session(folder)

        def once() -> float:
            begun = time.monotonic()
            return min(arrived for _, arrived in timed(editor, session)) - begun

        row("warm prompt -> first chunk", f"{median_of(once) * 1e3:.1f} ms", "goal 8 ms, both flushes included")


def timed(editor: Editor, session: str) -> list[tuple[float, float]]:
    """(sent by the endpoint, arrived here) of each chunk of one prompt."""
    number = editor.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
    marker = b'"id":%d,' % number
    times = []
    while True:
        line = editor.line()
        arrived = time.monotonic()
        if b"agent_message_chunk" in line:
            times.append((float(line.split(b'"text":"')[1].split()[0]), arrived))
        elif marker in line and b'"result"' in line:
            return times


def flush(folder: Path) -> None:
    """A handle's append of a small batch against a bare write+fdatasync of as many bytes, alternating."""
    import anyio
    from flushing import alternating  # type: ignore[import-not-found]  # as above

    ours, bare = anyio.run(alternating, folder)
    row("bare write+fdatasync of the same bytes", f"{bare * 1e3:.2f} ms")
    row("flush of a small batch", f"{ours * 1e3:.2f} ms", f"goal 1.3 x; {ours / bare:.2f} x")


def kernel() -> None:
    import anyio
    from lifecycle import EFFECTS, unheard, unloading  # type: ignore[import-not-found]  # as above

    seconds = anyio.run(unloading)
    row(f"unloading {EFFECTS} effects that do not block", f"{seconds * 1e3:.0f} ms", "goal 50 ms")
    hook, nothing = unheard()
    row(
        "a hook that nobody listens to",
        f"{hook * 1e6:.2f} us",
        f"goal 0.5 us; an empty function {nothing * 1e6:.2f} us",
    )


@contextmanager
def endpoint() -> Iterator[str]:
    script = Path(__file__).with_name("endpoint.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    os.environ.pop("ACP_BRIDGE_MODEL", None)
    main()

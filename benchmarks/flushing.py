"""A flush of a small batch through the real store, beside a bare write+fdatasync of as many bytes."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from acp_bridge import hookspecs
from acp_bridge.lifecycle.diagnostics import Silent
from acp_bridge.lifecycle.kernel import Kernel
from acp_bridge.persistence.persistence import PERSISTENCE
from acp_bridge.session.codec import FORMAT_VERSION
from acp_bridge.session.events import Event, Header, StepEnd, StepStart
from acp_bridge_plugins.persistence_jsonl.plugin import PersistenceJsonl

ROUNDS = 200


async def alternating(folder: Path) -> tuple[float, float]:
    """Medians in seconds: (ours, bare)."""
    ours: list[float] = []
    bare: list[float] = []
    kernel = Kernel(hookspecs, Silent())
    async with kernel.mounted(PersistenceJsonl(folder / "flush")):
        store = kernel.require(PERSISTENCE, "benchmark")
        handle = await store.create(Header(FORMAT_VERSION, "bench", 1, str(folder)))
        await handle.append(_batch(0))
        size = next((folder / "flush").rglob("session.v1*")).stat().st_size // 2
        fd = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in range(1, ROUNDS):
            begun = time.perf_counter()
            await handle.append(_batch(number))
            ours.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            os.write(fd, b"x" * size)
            os.fdatasync(fd)
            bare.append(time.perf_counter() - begun)
        os.close(fd)
        await handle.close()
    return statistics.median(ours), statistics.median(bare)


def _batch(number: int) -> list[Event]:
    bodies = (StepStart(1, number + 1), StepEnd(1, number + 1))
    return [Event(body.TYPE, 2 * number + offset, 1, body) for offset, body in enumerate(bodies)]

"""Power loss: whatever a disk may show afterwards, the log opens and holds all that was promised (design §16).

Each test goes on with new sessions until it has judged its share of distinct states; see `STATES`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable

import pytest

from tests.persistence.helpers import HandClock
from tests.persistence.judging import Lost, Need, States, judge
from tests.persistence.scripts import (
    EMPTY,
    HEADER,
    Script,
    Witness,
    inline_threads,
    live,
    play,
    recorded,
    repaired,
)
from tests.support.model_disk import Image, ModelDisk

__all__ = ["inline_threads"]

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("inline_threads")]

# Distinct states to judge, over all tests of this file. `make torture` sets more.
STATES = int(os.environ.get("ACP_BRIDGE_TORTURE_STATES", "10000"))
SMALL, LARGE, HUGE = 30, 2_500, 150_000  # characters of a reply: batches of one sector, of nine, of several blocks


class Judged:
    """States that are done with. A hash for each, since the states themselves would fill the memory."""

    def __init__(self) -> None:
        self.distinct: set[int] = set()

    async def all_of(self, states: States, witness: Witness) -> None:
        for image, need in states.needs.items():
            if hash(image) not in self.distinct:
                self.distinct.add(hash(image))
                await judge(image, need, witness.admitted)


async def session(script: Script, disk: ModelDisk, limit: int, seed: int) -> tuple[States, Witness]:
    """A new session from its creation to its end, with every state on the way."""
    witness, clock = Witness(), HandClock()
    states = States(disk, witness, limit=limit, seed=seed)
    async with live(disk, clock) as store:
        await play(script, await store.create(HEADER), witness, clock)
    return states, witness


async def test_a_session_in_small_batches_is_whole_after_every_possible_power_loss() -> None:
    """Few states, but all of them: a batch fits into one or two sectors."""
    judged = Judged()
    for window_each in (None, 1, 2, 3, 5):
        script = await recorded(seed=1, size=SMALL, turns=2, window_each=window_each)
        await judged.all_of(*await session(script, ModelDisk(EMPTY), limit=10**6, seed=0))
    assert len(judged.distinct) >= 200


async def test_a_session_in_large_batches_holds_what_was_flushed_and_tells_the_truth_about_calls() -> None:
    judged, seed = Judged(), 0
    while len(judged.distinct) < STATES * 6 // 10:
        seed += 1
        script = await recorded(seed=seed, size=LARGE, window_each=2 + seed % 5)
        await judged.all_of(*await session(script, ModelDisk(EMPTY), limit=200, seed=seed))


async def test_of_a_batch_of_several_blocks_the_records_before_the_first_lost_sector_count() -> None:
    """And no others: the last block without its checksum may decode to anything."""
    script = await recorded(seed=1, size=HUGE)
    states, witness = await session(script, ModelDisk(EMPTY), limit=40, seed=1)
    torn = [(image, need) for image, need in states.needs.items() if need.call == "write" and need.acked]
    kept = set()
    for image, need in random.Random(1).sample(torn, 150):
        kept.add(len(await judge(image, need, witness.admitted)) - need.acked)
    assert len(kept) > 2


async def test_a_power_loss_while_a_torn_session_is_recovered_loses_no_more_than_the_first_one() -> None:
    """Lost power, loaded and repaired, gone on with, and lost power in the middle of that, at every moment."""
    judged, seed = Judged(), 100
    while len(judged.distinct) < STATES * 4 // 10:
        seed += 1
        script = await recorded(seed=seed, size=LARGE, window_each=3)
        states, _ = await session(script, ModelDisk(EMPTY), limit=60, seed=seed)
        torn = [(image, need) for image, need in states.needs.items() if need.call == "write" and need.acked]
        for image, need in random.Random(seed).sample(torn, 12):
            await judged.all_of(*await _recovery(image, need, seed))


async def _recovery(image: Image, need: Need, seed: int) -> tuple[States, Witness]:
    disk, clock = ModelDisk(image), HandClock()
    witness = Witness(acked=need.acked, stored=need.stored, ran=set(need.ran))
    states = States(disk, witness, limit=60, seed=seed)
    async with live(disk, clock) as store:
        handle = await store.open(HEADER.id)
        whole = await repaired(handle, witness)
        await play(await recorded(seed=seed, size=SMALL, prior=whole), handle, witness, clock)
    return states, witness


class Forgetful(ModelDisk):
    """A disk on which one kind of sync does nothing, as with a storage that leaves it out."""

    def __init__(self, forgets: Callable[[ModelDisk, int], bool]) -> None:
        super().__init__(EMPTY)
        self._forgets = forgets

    def sync(self, descriptor: int) -> None:
        if not self._forgets(self, descriptor):
            super().sync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        if not self._forgets(self, descriptor):
            super().sync_data(descriptor)


@pytest.mark.parametrize(
    ("how", "loss"),
    [
        ("append", "events of .* that were flushed|damaged"),
        ("new", "damaged|is gone"),
        ("directory", "the session is gone"),
    ],
)
async def test_the_judge_finds_what_a_missing_sync_loses(how: str, loss: str) -> None:
    """So that the tests above can fail: of appended batches, of the new file, of the directories."""
    disk = Forgetful(lambda disk, descriptor: disk.opened_as(descriptor) == how)
    script = await recorded(seed=1, size=SMALL)
    states, witness = await session(script, disk, limit=100, seed=0)
    losses = [text for item in states.needs.items() if (text := await _loss(*item, witness))]
    assert any(re.search(loss, text) for text in losses), losses


async def _loss(image: Image, need: Need, witness: Witness) -> str | None:
    try:
        await judge(image, need, witness.admitted)
    except Lost as lost:
        return str(lost)
    return None

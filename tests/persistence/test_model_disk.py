"""The twin of the disk obeys the rules it stands for, in both directions: neither more forgiving nor harder."""

from __future__ import annotations

import errno
import random

import pytest

from tests.support.model_disk import Fault, Image, ModelDisk
from tests.support.pages import SECTOR, File


def contents(file: File) -> set[bytes]:
    return set(file.states(10_000, random.Random(0)))


def states(disk: ModelDisk) -> set[Image]:
    return set(disk.after_power_loss(10_000, random.Random(0)))


def test_what_was_synced_is_there() -> None:
    file = File()
    file.write(b"kept")
    file.sync()
    assert contents(file) == {b"kept"}


def test_an_unsynced_write_is_there_or_not_or_only_its_size_is() -> None:
    file = File(b"old")
    file.write(b"new")
    assert contents(file) == {b"old", b"oldnew", b"old\0\0\0"}


def test_sectors_come_in_any_order_and_each_whole() -> None:
    file = File()
    first, second = b"a" * SECTOR, b"b" * 10
    file.write(first + second)
    nothing = bytes(SECTOR)
    assert contents(file) == {
        b"",
        nothing,
        first,
        nothing + bytes(10),
        nothing + second,
        first + bytes(10),
        first + second,
    }


def test_a_write_that_begins_inside_a_sector_is_torn_at_its_boundary() -> None:
    file = File(b"x" * 500)
    file.write(b"y" * 20)
    assert b"x" * 500 + b"y" * 12 in contents(file)
    assert b"x" * 500 + bytes(12) + b"y" * 8 in contents(file)
    assert not [state for state in contents(file) if state.count(b"y") not in (0, 8, 12, 20)]


def test_a_cut_may_come_back_until_it_is_synced() -> None:
    file = File(b"whole and torn")
    file.cut(5)
    assert contents(file) == {b"whole and torn", b"whole"}
    file.sync()
    assert contents(file) == {b"whole"}


def test_what_grows_over_a_cut_shows_nothing_of_what_was_there() -> None:
    file = File(b"whole and torn")
    file.cut(5)
    file.sync()
    file.write(b", new")
    assert contents(file) == {b"whole", b"whole, new", b"whole\0\0\0\0\0"}


def test_after_a_failed_sync_a_later_one_makes_nothing_certain() -> None:
    file = File(b"old")
    file.write(b"lost?")
    file.fail_sync()
    file.sync()
    assert contents(file) == {b"old", b"oldlost?", b"old\0\0\0\0\0"}
    assert file.live == b"oldlost?", "the cache shows it nevertheless"
    file.forget_cache()
    assert file.live == b"old\0\0\0\0\0"


def test_after_a_failed_sync_a_cut_that_is_synced_settles_it() -> None:
    file = File(b"old")
    file.write(b"lost?")
    file.fail_sync()
    file.cut(3)
    file.sync()
    file.write(b"new")
    file.sync()
    assert contents(file) == {b"oldnew"}


def test_an_entry_is_lost_until_its_directory_is_synced_even_if_the_file_was() -> None:
    disk = ModelDisk()
    descriptor = disk.open("/log", "new")
    disk.write(descriptor, b"x")
    disk.sync(descriptor)
    assert states(disk) == {(), (("/log", b"x"),)}
    disk.sync(disk.open("/", "directory"))
    assert states(disk) == {(("/log", b"x"),)}


def test_entries_come_and_go_one_by_one_and_a_rename_at_once() -> None:
    disk = ModelDisk((("/a", b"1"),))
    disk.link("/a", "/b")
    disk.unlink("/a")
    assert states(disk) == {(), (("/a", b"1"),), (("/b", b"1"),), (("/a", b"1"), ("/b", b"1"))}
    renamed = ModelDisk((("/a", b"1"),))
    renamed.rename("/a", "/b")
    assert states(renamed) == {(("/a", b"1"),), (("/b", b"1"),)}


def test_a_lost_directory_takes_everything_below_along() -> None:
    disk = ModelDisk()
    disk.make_directory("/d")
    disk.open("/d/log", "new")
    disk.sync(disk.open("/d", "directory"))
    assert states(disk) == {(), (("/d", None), ("/d/log", b""))}


def test_of_many_sectors_the_plain_states_are_always_among_those_tried() -> None:
    file = File()
    file.write(b"z" * (40 * SECTOR))
    found = set(file.states(200, random.Random(0)))
    assert {b"", b"z" * (40 * SECTOR), bytes(40 * SECTOR)} <= found
    assert {b"z" * (n * SECTOR) for n in range(40)} <= found
    assert len(found) > 2000


@pytest.mark.parametrize("lasts", [False, True])
def test_a_fault_hits_the_call_it_is_for_and_lasts_as_long_as_it_should(lasts: bool) -> None:
    disk = ModelDisk()
    disk.fault = Fault(1, errno.ENOSPC, lasts)
    descriptor = disk.open("/log", "new")
    with pytest.raises(OSError, match="No space left"):
        disk.write(descriptor, b"abc")
    assert disk.pread(descriptor, 10, 0) == b""
    if lasts:
        with pytest.raises(OSError, match="No space left"):
            disk.write(descriptor, b"abc")
        disk.heal()
    assert disk.write(descriptor, b"abc") == 3
    assert disk.calls[:2] == ["new", "write"]


def test_a_short_write_takes_half() -> None:
    disk = ModelDisk()
    disk.fault = Fault(1, None)
    descriptor = disk.open("/log", "new")
    assert disk.write(descriptor, b"abcde") == 3
    assert disk.write(descriptor, b"de") == 2
    assert disk.image() == (("/log", b"abcde"),)


def test_a_lock_excludes_until_its_descriptor_is_closed() -> None:
    disk = ModelDisk()
    first, second = disk.open("/l", "lock"), disk.open("/l", "lock")
    disk.lock(first)
    with pytest.raises(BlockingIOError):
        disk.lock(second)
    disk.close(first)
    disk.lock(second)
    assert disk.open_descriptors == ["lock"]

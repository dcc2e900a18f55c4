"""The notes about a copy's past: they are old or new after any failure, and a start derives its doubts from them."""

import random

import attrs
import pytest

from log.errors import CorruptLog, StorageError
from log.memory_disk import MemoryDisk, PowerLoss
from rocketmq_compat.replication.model import CopyDoubt, LogReach
from rocketmq_compat.storage.copy_notes import CopyFile, CopyNotes, doubt_of

BOOT = "this boot"
BEFORE = LogReach(7, 100)
DAMAGE = CorruptLog("commitlog", 5, "damaged")


def note(notes: CopyNotes, reach: LogReach | None = BEFORE) -> MemoryDisk:
    """A disk with these notes."""
    disk = MemoryDisk(random.Random(1))
    disk.make_directory("data")
    file = CopyFile.open(disk, "data")
    file.change(lambda _: notes)
    if reach is not None:
        file.note_reach(reach.epoch, reach.end)
    file.close()
    return disk


def doubt(
    disk: MemoryDisk, reach: LogReach = BEFORE, *, cut: CorruptLog | None = None, lacks_tables: bool = False
) -> CopyDoubt | None:
    return doubt_of(CopyFile.open(disk, "data"), boot=BOOT, reach=reach, cut=cut, lacks_tables=lacks_tables)


STOPPED = CopyNotes(boot=BOOT, slaves=frozenset({1, 3}), group="g", tables=frozenset({"topics"}))
KILLED = attrs.evolve(STOPPED, is_running=True)
REBOOTED = attrs.evolve(KILLED, boot="an earlier boot")


def test_notes_are_read_as_they_were_written() -> None:
    wanted = attrs.evolve(KILLED, doubt=CopyDoubt(LogReach(2, 9), lacks_tables=True), flushes=True)
    found = CopyFile.open(note(wanted), "data")
    assert (found.found, found.found_reach) == (wanted, BEFORE)


@pytest.mark.parametrize("notes", [STOPPED, KILLED])
def test_a_copy_that_is_what_it_was_is_not_doubted(notes: CopyNotes) -> None:
    assert doubt(note(notes)) is None


@pytest.mark.parametrize("notes", [STOPPED, KILLED])
def test_a_log_that_ends_before_it_did_has_a_floor(notes: CopyNotes) -> None:
    assert doubt(note(notes), LogReach(7, 99)) == CopyDoubt(BEFORE)
    assert doubt(note(notes), LogReach(6, 200)) == CopyDoubt(BEFORE)
    assert doubt(note(notes), LogReach(0, 0)) == CopyDoubt(BEFORE)


def test_a_log_that_was_cut_for_damage_is_doubted_wherever_it_ends() -> None:
    assert doubt(note(STOPPED), cut=DAMAGE) == CopyDoubt(BEFORE)


def test_who_has_no_notes_may_have_lost_anything() -> None:
    empty = MemoryDisk(random.Random(1))
    empty.make_directory("data")
    assert doubt(empty, LogReach(0, 0), lacks_tables=True) == CopyDoubt(None, lacks_tables=True)
    damaged = note(STOPPED)
    for bit in range(0, 8 * 8192, 8 * 16):
        damaged.flip_bit("data/copy", bit)
    assert doubt(damaged) == CopyDoubt(None, lacks_tables=True)


def test_who_does_not_know_how_far_it_had_come_has_no_floor() -> None:
    assert doubt(note(KILLED, None)) == CopyDoubt(None)


def test_what_was_not_flushed_may_be_gone_after_a_reboot() -> None:
    assert doubt(note(REBOOTED)) == CopyDoubt(None)
    assert doubt(note(REBOOTED), LogReach(7, 99)) == CopyDoubt(None)
    assert doubt(note(attrs.evolve(STOPPED, boot="an earlier boot"))) is None


def test_with_sync_flush_a_reboot_loses_nothing_that_was_acknowledged() -> None:
    flushes = attrs.evolve(REBOOTED, flushes=True)
    assert doubt(note(flushes)) == CopyDoubt(is_flushed=True)
    assert doubt(note(flushes), LogReach(7, 120)) == CopyDoubt(is_flushed=True)


def test_damage_and_a_reboot_together_leave_no_floor() -> None:
    flushes = attrs.evolve(REBOOTED, flushes=True)
    assert doubt(note(flushes), LogReach(7, 99)) == CopyDoubt(None)
    assert doubt(note(flushes), LogReach(7, 120), cut=DAMAGE) == CopyDoubt(None)


def test_a_doubt_lasts_until_it_has_ended() -> None:
    disk = note(attrs.evolve(KILLED, doubt=CopyDoubt(LogReach(8, 300))), LogReach(8, 200))
    assert doubt(disk, LogReach(8, 200)) == CopyDoubt(LogReach(8, 300))
    unknown = note(attrs.evolve(KILLED, doubt=CopyDoubt(None, lacks_tables=True)))
    assert doubt(unknown) == CopyDoubt(None, lacks_tables=True)


def test_lost_tables_alone_are_a_doubt() -> None:
    assert doubt(note(STOPPED), lacks_tables=True) == CopyDoubt(BEFORE, lacks_tables=True)


@pytest.mark.parametrize("is_power", [False, True])
def test_whichever_disk_call_fails_the_notes_are_the_old_or_the_new_ones(is_power: bool) -> None:
    old, new = KILLED, attrs.evolve(KILLED, slaves=frozenset({9}))
    for call in range(1, 20):
        disk = note(old)
        file = CopyFile.open(disk, "data")
        disk.fail_call(call)
        try:
            file.change(lambda _: new)
            is_done = True
        except StorageError:
            is_done = False
        chance = random.Random(call)
        left = disk.after_crash(chance, loss=PowerLoss.LOSE_ALL) if is_power else disk.after_kill(chance)
        found = CopyFile.open(left, "data").found
        assert found in ((new,) if is_done else (old, new))
        if is_done and call > 3:
            return
    raise AssertionError("a change has no end")

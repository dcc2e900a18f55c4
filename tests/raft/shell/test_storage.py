"""A node's files come back after a crash exactly as far as they were promised."""

import random

import attrs
import crc32c
import msgpack
import pytest

from log.config import LogConfig
from log.errors import CorruptLog, OffsetOutOfRange
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from raft.effects import LoadEntries, Persist
from raft.log_view import LogView
from raft.membership import Configuration, ConfigurationEntry, Membership
from raft.model import (
    NOOP,
    ORIGIN,
    Batch,
    Entry,
    EntryKind,
    HardState,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Term,
    WriteId,
)
from raft.storage import RaftStorage, log_id_of


def open_on(disk: MemoryDisk) -> RaftStorage:
    return RaftStorage(SegmentedLog.open(disk, "node", LogConfig(), log_id=7))


def records(index: int, term: int, base_offset: int, *texts: bytes) -> Entry:
    data: bytes = msgpack.packb(texts)
    batch = Batch(EntryKind.RECORDS, len(texts), 5, data, crc32c.crc32c(data))
    return Entry(LogIndex(index), Term(term), Offset(base_offset), batch)


def noop(index: int, term: int, base_offset: int) -> Entry:
    return Entry(LogIndex(index), Term(term), Offset(base_offset), NOOP)


ENTRIES = (noop(1, 2, 0), records(2, 2, 0, b"a", b"b"), noop(3, 4, 2), records(4, 4, 2, b"c"))


def fill_storage(disk: MemoryDisk) -> RaftStorage:
    storage = open_on(disk)
    storage.persist(Persist(WriteId(1), HardState(Term(4), NodeId(3)), ()))
    storage.persist(Persist(WriteId(2), None, ENTRIES))
    storage.flush()
    return storage


def test_a_restart_finds_term_vote_and_log() -> None:
    disk = MemoryDisk(random.Random(1))
    fill_storage(disk)
    state, view = open_on(disk.after_crash(random.Random(2))).restore()
    assert state == HardState(Term(4), NodeId(3))
    assert (view.last_index, view.last_term, view.end_offset, view.durable_index) == (4, 4, 3, 4)
    assert [view.term_at(LogIndex(index)) for index in range(5)] == [0, 2, 2, 4, 4]
    assert view.cached_entries(LogIndex(1), 10_000) == ENTRIES


def test_a_new_directory_holds_nothing() -> None:
    state, view = open_on(MemoryDisk(random.Random(1))).restore()
    assert state == HardState()
    assert view.last_index == 0


def test_a_write_is_durable_once_a_flush_that_began_after_it_has_ended() -> None:
    storage = fill_storage(MemoryDisk(random.Random(1)))
    storage.persist(Persist(WriteId(3), None, (records(5, 4, 3, b"d"),)))
    flush = storage.begin_flush()
    storage.persist(Persist(WriteId(4), None, (records(6, 4, 4, b"e"),)))
    flush.run()
    assert storage.end_flush(flush) == 3
    assert not storage.is_durable
    assert storage.flush() == 4
    assert storage.is_durable


@pytest.mark.parametrize("seed", range(20))
def test_no_crash_leaves_entries_of_a_term_without_the_term(seed: int) -> None:
    disk = MemoryDisk(random.Random(seed))
    storage = fill_storage(disk)
    storage.persist(Persist(WriteId(3), HardState(Term(9), None), (records(5, 9, 3, b"d"),)))
    state, view = open_on(disk.after_crash(random.Random(seed))).restore()
    assert view.last_term <= state.term
    assert view.last_index >= 4


def test_entries_that_replace_others_are_all_that_is_left() -> None:
    disk = MemoryDisk(random.Random(1))
    storage = fill_storage(disk)
    storage.persist(Persist(WriteId(3), HardState(Term(5), None), (records(2, 5, 0, b"z"),)))
    storage.flush()
    _, view = open_on(disk.after_crash(random.Random(2))).restore()
    assert (view.last_index, view.last_term, view.end_offset) == (2, 5, 1)


def test_load_gives_at_least_one_entry_and_nothing_where_nothing_is() -> None:
    storage = fill_storage(MemoryDisk(random.Random(1)))
    assert storage.load(LoadEntries(NodeId(2), LogIndex(2), 1)) == ENTRIES[1:2]
    assert storage.load(LoadEntries(NodeId(2), LogIndex(2), 100_000)) == ENTRIES[1:]
    assert storage.load(LoadEntries(NodeId(2), LogIndex(5), 100_000)) == ()


def test_offsets_lead_to_the_entries_that_hold_them() -> None:
    storage = fill_storage(MemoryDisk(random.Random(1)))
    assert [storage.find_index(Offset(offset)) for offset in range(3)] == [2, 2, 4]
    with pytest.raises(OffsetOutOfRange):
        storage.find_index(Offset(3))


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgpack.packb([9, 1, None]), msgpack.packb([1, -1, None])])
def test_a_state_that_this_version_cannot_read_is_refused(payload: bytes) -> None:
    storage = open_on(MemoryDisk(random.Random(1)))
    storage.log.save_state(payload)
    with pytest.raises(CorruptLog, match="cannot read it"):
        storage.restore()


def test_entries_of_a_term_that_the_state_does_not_know_are_refused() -> None:
    storage = open_on(MemoryDisk(random.Random(1)))
    storage.persist(Persist(WriteId(1), None, (noop(1, 3, 0),)))
    with pytest.raises(CorruptLog, match="older than that of the last entry"):
        storage.restore()


def test_logs_of_different_nodes_and_clusters_have_different_ids() -> None:
    ids = {log_id_of(cluster, NodeId(node)) for cluster in ("a", "b") for node in (1, 2, 11)}
    assert len(ids) == 6


def test_a_floor_is_saved_with_term_and_vote() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    state = HardState(Term(4), NodeId(3), Position(LogIndex(7), Term(3)))
    storage.persist(Persist(WriteId(1), state, ()))
    storage.flush()
    storage.close()
    assert open_on(disk).restore()[0] == state


def test_a_damaged_log_is_cut_and_its_node_keeps_vote_and_floor() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    storage.persist(
        Persist(WriteId(1), HardState(Term(4), NodeId(3)), (records(1, 2, 0, b"a"), records(2, 4, 1, b"b")))
    )
    storage.flush()
    end = storage.log.end
    storage.close()
    disk.flip_bit(f"node/{0:020d}.log", (end - 1) * 8)
    hard_state, view = RaftStorage.open(disk, "node", LogConfig(), log_id=7).restore()
    assert hard_state == HardState(Term(4), NodeId(3), Position(LogIndex(2), Term(4)))
    assert view.position == Position(LogIndex(1), Term(2))


def test_a_second_damage_never_lowers_the_floor() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    floor = Position(LogIndex(9), Term(3))
    storage.persist(
        Persist(WriteId(1), HardState(Term(4), None, floor), (records(1, 2, 0, b"a"), records(2, 2, 1, b"b")))
    )
    storage.flush()
    end = storage.log.end
    storage.close()
    disk.flip_bit(f"node/{0:020d}.log", (end - 1) * 8)
    hard_state, _ = RaftStorage.open(disk, "node", LogConfig(), log_id=7).restore()
    assert hard_state.floor == floor


def test_a_term_older_than_an_entry_shows_that_the_newest_state_is_lost() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    storage.persist(Persist(WriteId(1), HardState(Term(3)), (records(1, 2, 0, b"a"), records(2, 4, 1, b"b"))))
    storage.flush()
    end = storage.log.end
    storage.close()
    disk.flip_bit(f"node/{0:020d}.log", (end - 1) * 8)
    with pytest.raises(CorruptLog, match="older than that of an entry"):
        RaftStorage.open(disk, "node", LogConfig(), log_id=7)


def test_damage_that_a_sidecar_vouches_for_is_repaired_by_the_start_that_meets_it() -> None:
    # One segment for each entry. The damaged one is closed and has a whole sidecar, and is among those read back at once.
    disk, config = MemoryDisk(random.Random(0)), LogConfig(segment_bytes_max=4096)
    storage = RaftStorage(SegmentedLog.open(disk, "node", config, log_id=7))
    storage.persist(Persist(WriteId(1), HardState(Term(4), NodeId(3)), ()))
    for index in range(1, 9):
        storage.persist(Persist(WriteId(1 + index), None, (records(index, 4, index - 1, b"a" * 5000),)))
        storage.flush()
    storage.close()
    names = [name for name in disk.list_directory("node") if name.endswith(".index")]
    assert len(names) > 6
    base, following = (int(name.removesuffix(".index")) for name in names[4:6])
    disk.flip_bit(f"node/{base:020d}.log", (following - base - 1) * 8)
    hard_state, view = RaftStorage.open(disk, "node", config, log_id=7).restore()
    assert (hard_state.vote, hard_state.floor) == (3, Position(LogIndex(8), Term(4)))
    assert 0 < view.last_index < 8


def test_where_nobody_could_give_it_back_nothing_is_cut() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    storage.persist(Persist(WriteId(1), HardState(Term(4)), (records(1, 2, 0, b"a"),)))
    storage.flush()
    end = storage.log.end
    storage.close()
    disk.flip_bit(f"node/{0:020d}.log", (end - 1) * 8)
    with pytest.raises(CorruptLog):
        RaftStorage.open(disk, "node", LogConfig(), log_id=7, repair=False)


def test_a_node_that_comes_back_has_room_for_its_votes_when_the_disk_fills_up() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    storage.persist(Persist(WriteId(1), HardState(Term(4)), ENTRIES[:2]))
    storage.flush()
    disk = disk.after_kill(random.Random(0))
    storage = RaftStorage.open(disk, "node", LogConfig(), log_id=7)
    disk.capacity_bytes = disk.used_bytes()
    for term in range(5, 50):
        storage.persist(Persist(WriteId(term), HardState(Term(term), NodeId(2)), ()))
        storage.flush()
    assert open_on(disk.after_kill(random.Random(0))).restore()[0] == HardState(Term(49), NodeId(2))


def test_a_node_comes_back_though_its_disk_is_full() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    storage.persist(Persist(WriteId(1), HardState(Term(4)), ENTRIES[:2]))
    storage.close()
    disk.capacity_bytes = disk.used_bytes()
    assert RaftStorage.open(disk, "node", LogConfig(), log_id=7).restore()[0] == HardState(Term(4))


SMALL = LogConfig(segment_bytes_max=4096)
"""One segment for each entry of `long_log`."""
TERMS = (2, 2, 4, 4, 4, 5, 5, 5)


def long_entry(index: int, term: int) -> Entry:
    return records(index, term, 2 * index - 2, b"a" * 5000, b"b")


def long_log(disk: MemoryDisk) -> RaftStorage:
    storage = RaftStorage(SegmentedLog.open(disk, "node", SMALL, log_id=7))
    storage.persist(Persist(WriteId(1), HardState(Term(5), NodeId(3)), ()))
    for index, term in enumerate(TERMS, start=1):
        storage.persist(Persist(WriteId(1 + index), None, (long_entry(index, term),)))
        storage.flush()
    return storage


def reopen_storage(disk: MemoryDisk) -> RaftStorage:
    return RaftStorage.open(disk, "node", SMALL, log_id=7)


def terms_of(view: LogView) -> list[int]:
    """From the last index that is gone on."""
    return [view.term_at(LogIndex(index)) for index in range(view.start.index, view.last_index + 1)]


def test_the_directory_and_the_members_come_back_with_the_state() -> None:
    disk = MemoryDisk(random.Random(0))
    stored = Membership([ConfigurationEntry(LogIndex(7), Term(3), Configuration([NodeId(1), NodeId(4)]))]).encode()
    state = HardState(Term(4), NodeId(3), Position(LogIndex(7), Term(3)), 99, stored)
    storage = open_on(disk)
    assert not storage.has_members
    storage.persist(Persist(WriteId(1), state, ()))
    storage.flush()
    reopened = open_on(disk.after_kill(random.Random(0)))
    assert reopened.has_members
    assert reopened.restore()[0] == state


def test_a_node_whose_members_never_changed_stores_its_state_as_versions_without_changes_do() -> None:
    disk = MemoryDisk(random.Random(0))
    storage = open_on(disk)
    storage.persist(Persist(WriteId(1), HardState(Term(4), NodeId(3)), ()))
    assert storage.log.state == msgpack.packb((1, 4, 3))
    storage.persist(Persist(WriteId(2), HardState(Term(4), NodeId(3), Position(LogIndex(7), Term(3))), ()))
    assert storage.log.state == msgpack.packb((2, 4, 3, 3, 7))


TRIMMED = LogStart(Position(LogIndex(3), Term(4)), Offset(6), Position(LogIndex(7), Term(5)), b"snapshot")
BEYOND = LogStart(Position(LogIndex(20), Term(4)), Offset(31), Position(LogIndex(25), Term(5)), b"snapshot")


def trim(storage: RaftStorage, first_index: int) -> LogStart | None:
    return storage.trim(LogIndex(first_index), TRIMMED.applied, TRIMMED.snapshot)


def test_what_is_trimmed_is_told_with_the_place_and_the_snapshot() -> None:
    storage = long_log(MemoryDisk(random.Random(1)))
    assert trim(storage, 4) == TRIMMED
    hard_state, view = storage.restore()
    assert hard_state == HardState(Term(5), NodeId(3))
    assert (view.start, view.last_index, view.end_offset, view.durable_index) == (TRIMMED, 8, 16, 8)
    assert terms_of(view) == list(TERMS[2:])
    assert view.cached_entries(LogIndex(4), 1 << 30) == tuple(long_entry(at, TERMS[at - 1]) for at in range(4, 9))


@pytest.mark.parametrize("first_index", [0, 1, 3, 4])
def test_a_log_that_begins_there_already_is_not_trimmed(first_index: int) -> None:
    storage = long_log(MemoryDisk(random.Random(1)))
    trim(storage, 4)
    assert trim(storage, first_index) is None
    assert storage.restore()[1].start == TRIMMED


def test_a_whole_log_is_not_trimmed_to_its_first_entry() -> None:
    storage = long_log(MemoryDisk(random.Random(1)))
    assert trim(storage, 1) is None
    assert storage.restore()[1].start == ORIGIN


def test_what_has_left_is_neither_loaded_nor_found() -> None:
    storage = long_log(MemoryDisk(random.Random(1)))
    trim(storage, 4)
    assert [storage.load(LoadEntries(NodeId(2), LogIndex(index), 1)) for index in (1, 3)] == [(), ()]
    assert storage.load(LoadEntries(NodeId(2), LogIndex(4), 1)) == (long_entry(4, 4),)
    assert storage.find_index(Offset(6)) == 4
    with pytest.raises(OffsetOutOfRange):
        storage.find_index(Offset(5))


def after_reset(disk: MemoryDisk) -> RaftStorage:
    storage = long_log(disk)
    storage.persist(Persist(WriteId(20), HardState(Term(6)), ()))
    storage.persist(Persist(WriteId(21), None, (), BEYOND))
    return storage


def test_a_new_beginning_holds_nothing_but_term_and_vote() -> None:
    storage = after_reset(MemoryDisk(random.Random(1)))
    assert storage.flush() == 21
    hard_state, view = storage.restore()
    assert hard_state == HardState(Term(6))
    assert (view.start, view.position, view.end_offset) == (BEYOND, BEYOND.position, 31)
    assert (view.durable_index, view.cached_entries(LogIndex(21), 1)) == (20, None)
    assert [storage.load(LoadEntries(NodeId(2), LogIndex(index), 1)) for index in (1, 8, 20, 21)] == [()] * 4


@pytest.mark.parametrize("term", [4, 6], ids=["of the same term", "of a newer term"])
def test_what_follows_a_new_beginning_has_its_terms_and_offsets(term: int) -> None:
    storage = after_reset(MemoryDisk(random.Random(1)))
    entries = (records(21, term, 31, b"x"), records(22, term, 32, b"y", b"z"))
    storage.persist(Persist(WriteId(22), None, entries))
    view = storage.restore()[1]
    assert terms_of(view) == [4, term, term]
    assert (view.last_index, view.end_offset, view.cached_entries(LogIndex(21), 1 << 30)) == (22, 34, entries)
    assert [storage.find_index(Offset(offset)) for offset in (31, 33)] == [21, 22]
    with pytest.raises(OffsetOutOfRange):
        storage.find_index(Offset(30))


def test_a_log_can_be_reset_to_where_the_old_one_had_other_entries() -> None:
    storage = long_log(MemoryDisk(random.Random(1)))
    start = attrs.evolve(TRIMMED, position=Position(LogIndex(3), Term(3)))
    storage.persist(Persist(WriteId(20), None, (), start))
    storage.persist(Persist(WriteId(21), None, (records(4, 5, 6, b"x"),)))
    view = storage.restore()[1]
    assert (view.start, terms_of(view), view.end_offset) == (start, [3, 5], 7)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc1", id="no msgpack"),
        pytest.param(msgpack.packb([2, 7, 5, b""]), id="another version"),
        pytest.param(msgpack.packb([1, 2, 5, b""]), id="what left was not applied"),
        pytest.param(msgpack.packb([1, 7, 5, "text"]), id="a snapshot that is text"),
        pytest.param(msgpack.packb([1, 7, 5]), id="no snapshot"),
        pytest.param(msgpack.packb([1, 7, 5, b"", 1]), id="more than this version knows"),
    ],
)
def test_a_beginning_that_this_version_cannot_read_is_refused(payload: bytes) -> None:
    storage = long_log(MemoryDisk(random.Random(1)))
    storage.log.trim(4, payload)
    with pytest.raises(CorruptLog, match=r"the start.*cannot read it"):
        storage.restore()


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_finds_where_the_log_began(seed: int) -> None:
    disk = MemoryDisk(random.Random(seed))
    storage = long_log(disk)
    trim(storage, 4)
    storage.flush()
    hard_state, view = reopen_storage(disk.after_crash(random.Random(seed))).restore()
    assert hard_state == HardState(Term(5), NodeId(3))
    assert (view.start, terms_of(view), view.end_offset) == (TRIMMED, list(TERMS[2:]), 16)


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_finds_a_new_beginning_and_what_follows_it(seed: int) -> None:
    disk = MemoryDisk(random.Random(seed))
    storage = after_reset(disk)
    storage.persist(Persist(WriteId(22), None, (records(21, 6, 31, b"x"),)))
    storage.flush()
    hard_state, view = reopen_storage(disk.after_crash(random.Random(seed))).restore()
    assert hard_state == HardState(Term(6))
    assert (view.start, terms_of(view), view.end_offset) == (BEYOND, [4, 6], 32)


def test_a_restart_finds_a_new_beginning_with_nothing_behind_it() -> None:
    disk = MemoryDisk(random.Random(1))
    after_reset(disk).flush()
    hard_state, view = reopen_storage(disk.after_crash(random.Random(1))).restore()
    assert hard_state == HardState(Term(6))
    assert (view.start, view.position, view.end_offset) == (BEYOND, BEYOND.position, 31)

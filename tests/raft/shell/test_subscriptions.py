"""A subscriber gets everything that is committed, in order, whenever it comes, and its position if entries are gone."""

import random

import attrs
import pytest

from log.memory_disk import MemoryDisk
from raft import subscription
from raft.driver import DriverConfig
from raft.events import StepDown
from raft.model import EntryKind, LogIndex, NodeId, Position, Term
from raft.roles import Leader
from raft.subscription import CommittedEntry, Delivered, LeaderChanged, ResetToSnapshot, Subscription
from tests.raft.shell.test_driver import ME, TWO, Rig, entry, heartbeat
from tests.raft.shell.test_retention import KEEP, SEGMENT, fill, install_snapshot, make_full_node


def subscribe(rig: Rig, after_index: int = 0) -> list[Delivered]:
    """Subscribes, and returns the list of everything that the subscriber is given from now on."""
    given: list[Delivered] = []
    rig.driver.subscribe(Subscription(given.append, after_index))
    rig.settle()
    return given


def indexes(given: list[Delivered]) -> list[int]:
    return [each.index for each in given if isinstance(each, CommittedEntry)]


def test_entries_come_as_they_are_committed_with_their_leaders_time() -> None:
    rig = Rig()
    given = subscribe(rig)
    rig.wall_ms = 1234
    rig.lead()
    rig.append(rig.draw(), b"one")
    rig.settle()
    rig.wall_ms = 5678
    rig.apply(rig.draw(), "w", "k", 1)
    rig.settle()
    first_led = given.index(LeaderChanged(ME, Term(1)))
    assert given[:first_led] == [LeaderChanged(None, Term(0)), LeaderChanged(None, Term(1))]
    first, second, third = given[first_led + 1 :]
    assert isinstance(first, CommittedEntry)
    assert (first.index, first.kind, first.data, first.records()) == (1, EntryKind.NOOP, b"", [])
    assert isinstance(second, CommittedEntry)
    assert (second.index, second.term, second.timestamp_ms, second.base_offset, second.span) == (2, 1, 1234, 0, 1)
    assert second.records() == [b"one"]
    assert isinstance(third, CommittedEntry)
    assert (third.index, third.kind, third.timestamp_ms, third.base_offset) == (3, EntryKind.COMMANDS, 5678, 1)


def test_what_is_not_known_to_be_committed_is_not_given() -> None:
    rig = Rig(3)
    given = subscribe(rig)
    rig.receive(TWO, attrs.evolve(heartbeat(entry(1, b"a"), entry(2, b"b")), commit_index=LogIndex(1)))
    rig.settle()
    assert indexes(given) == [1]
    assert LeaderChanged(TWO, Term(1)) in given
    rig.receive(TWO, attrs.evolve(heartbeat(prev=2), commit_index=LogIndex(2)))
    rig.settle()
    assert indexes(given) == [1, 2]


@pytest.mark.parametrize("after_index", [0, 3])
def test_one_that_comes_late_is_given_all_from_its_place_on(after_index: int) -> None:
    rig = Rig().lead()
    fill(rig, 5)
    assert indexes(subscribe(rig, after_index)) == list(range(after_index + 1, 7))


def test_a_round_gives_a_portion_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig().lead()
    fill(rig, 5)
    monkeypatch.setattr(subscription, "PORTION_BYTES", 1)
    given: list[Delivered] = []
    rig.driver.subscribe(Subscription(given.append))
    for count in range(1, 7):
        assert rig.driver.deadline < rig.now, "another round is due"
        rig.pump()
        assert len(indexes(given)) == count
    assert rig.driver.deadline > rig.now
    rig.pump()
    assert indexes(given) == [1, 2, 3, 4, 5, 6]


def test_one_that_lacks_what_has_left_the_log_is_reset_to_where_it_begins() -> None:
    rig = make_full_node()
    start = rig.core.log.start
    assert start.index > 0
    leadership, reset, *rest = subscribe(rig)
    assert leadership == LeaderChanged(ME, Term(1))
    assert reset == ResetToSnapshot(start.position, start.offset, start.applied, start.snapshot)
    assert indexes(rest) == list(range(start.index + 1, rig.core.commit_index + 1))


def test_a_restart_resets_those_that_begin_before_the_log_and_no_others() -> None:
    rig = make_full_node()
    rig.storage.close()
    again = Rig(config=KEEP, segment_bytes=SEGMENT, disk=rig.disk).lead()
    place = again.core.log.start.index
    assert any(isinstance(each, ResetToSnapshot) for each in subscribe(again, place - 1))
    given = subscribe(again, place)
    assert not any(isinstance(each, ResetToSnapshot) for each in given)
    assert indexes(given)[0] == place + 1


def test_a_leaders_snapshot_resets_a_subscriber_and_it_goes_on_behind_it() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"replaced")))
    rig.settle()
    given = subscribe(rig)
    message = install_snapshot()
    rig.receive(TWO, message)
    rig.settle()
    start = message.start
    assert given[-1] == ResetToSnapshot(start.position, start.offset, start.applied, start.snapshot)
    assert indexes(given) == []
    assert (start.position, start.applied) == (Position(LogIndex(50), Term(1)), Position(LogIndex(60), Term(1)))


def test_every_change_of_leadership_is_given_once() -> None:
    rig = Rig(3).lead()
    given = subscribe(rig)
    rig.settle()
    assert given == [LeaderChanged(ME, rig.core.term)]
    assert isinstance(rig.core.role, Leader)
    rig.driver._step(rig.now, StepDown())
    rig.settle()
    assert given[1:] == [LeaderChanged(None, rig.core.term)]
    rig.receive(TWO, attrs.evolve(heartbeat(), term=Term(9)))
    rig.settle()
    assert given[2:] == [LeaderChanged(NodeId(2), Term(9))]


def test_one_that_is_closed_is_given_nothing_more_even_by_itself_within_a_portion() -> None:
    rig = Rig().lead()
    fill(rig, 3)
    given: list[Delivered] = []

    def take(each: Delivered) -> None:
        given.append(each)
        if indexes(given):
            closing.close()

    closing = Subscription(take)
    rig.driver.subscribe(closing)
    rig.settle()
    fill(rig, 1)
    assert indexes(given) == [1]


def test_a_slow_one_that_is_overtaken_by_the_retention_is_reset_and_costs_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscription, "PORTION_BYTES", 1)
    rig = Rig(
        config=DriverConfig(retention=KEEP.retention), segment_bytes=SEGMENT, disk=MemoryDisk(random.Random(1))
    ).lead()
    given: list[Delivered] = []
    slow = Subscription(given.append)
    rig.driver.subscribe(slow)
    rig.pump()
    assert indexes(given) == [1]
    monkeypatch.setattr(Subscription, "advance", lambda self, core, storage: None)
    fill(rig, 40)
    assert rig.core.log.start.index > slow.last_index
    monkeypatch.undo()
    rig.settle()
    assert [type(each) for each in given].count(ResetToSnapshot) == 1
    assert indexes(given)[-1] == rig.core.commit_index

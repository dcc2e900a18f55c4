"""A large snapshot is written outside of the loop: the node goes on meanwhile, and what follows is quick."""

import random
from collections import deque
from collections.abc import Callable

import pytest

from log.errors import StorageFailed
from log.memory_disk import MemoryDisk
from log.start import prepare
from raft.messages import AppendAccepted
from raft.snapshot_work import Done
from tests.raft.shell.test_driver import TWO, Rig, entry, heartbeat
from tests.raft.shell.test_retention import KEEP, SEGMENT, fill, install_snapshot, parts_of


class Beside:
    """Another thread that has not come to its work yet."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], None], Done]] = deque()

    def __call__(self, work: Callable[[], None], done: Done) -> None:
        self.waiting.append((work, done))

    def run(self) -> None:
        work, done = self.waiting.popleft()
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001 - as the thread does
            error = raised
        done(error)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the payload of each log-start checkpoint that is written."""
    sizes: list[int] = []

    def counted(*arguments: object, **named: object) -> None:
        sizes.append(len(arguments[2].payload))  # type: ignore[attr-defined]
        prepare(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("log.retirement.prepare", counted)
    return sizes


def test_appends_commit_while_a_snapshot_is_written_and_then_the_log_is_trimmed(written: list[int]) -> None:
    beside = Beside()
    rig = Rig(config=KEEP, segment_bytes=SEGMENT, disk=MemoryDisk(random.Random(1)), work_beside=beside).lead()
    fill(rig, 80)
    assert len(beside.waiting) == 1, "one is written at a time"
    assert rig.core.log.start.index == 0
    asked = rig.draw()
    rig.append(asked, b"meanwhile")
    rig.settle()
    assert isinstance(rig.caller.seen[asked], tuple)
    assert written == []
    beside.run()
    assert len(written) == 1
    assert rig.core.log.start.index > 0
    rig.settle()
    assert rig.storage.log.start_payload(), "the flush has put it in force"
    assert len(written) == 1, "and has not written it again"


def test_a_leaders_snapshot_is_written_beside_the_loop_and_installed_when_its_last_part_comes_again(
    written: list[int],
) -> None:
    beside = Beside()
    rig = Rig(3, work_beside=beside)
    rig.receive(TWO, heartbeat(entry(1, b"kept")))
    rig.settle()
    *parts, last = parts_of(install_snapshot(term=1, size=2 << 20), 1 << 20)
    for part in (*parts, last):
        rig.receive(TWO, part)
        rig.settle()
    assert len(beside.waiting) == 1
    answers = len(rig.messages(AppendAccepted))
    rig.receive(TWO, heartbeat(entry(1, b"kept")))
    rig.receive(TWO, last)
    rig.settle()
    assert len(rig.messages(AppendAccepted)) == answers + 1, "heartbeats are answered"
    assert (len(beside.waiting), rig.core.log.start.index) == (1, 0)
    beside.run()
    rig.receive(TWO, last)
    rig.settle()
    assert (rig.core.log.start.index, rig.told.count("snapshot_installed")) == (50, 1)
    assert len(written) == 1, "it is written once"


def test_a_snapshot_that_is_written_for_a_leader_that_is_gone_is_installed_by_none() -> None:
    beside = Beside()
    rig = Rig(3, work_beside=beside)
    rig.receive(TWO, heartbeat(entry(1, b"kept")))
    rig.settle()
    for part in parts_of(install_snapshot(term=1, size=2 << 20), 1 << 20):
        rig.receive(TWO, part)
    rig.receive(TWO, heartbeat(entry(2, b"next", term=2), term=2, prev=1))
    rig.settle()
    beside.run()
    *_, last = parts_of(install_snapshot(term=2, size=2 << 20), 1 << 20)
    rig.receive(TWO, last)
    rig.settle()
    assert (rig.core.log.start.index, rig.core.log.last_index) == (0, 2)


def test_a_disk_that_fails_beside_the_loop_ends_the_node() -> None:
    beside = Beside()
    rig = Rig(config=KEEP, segment_bytes=SEGMENT, disk=MemoryDisk(random.Random(1)), work_beside=beside).lead()
    fill(rig, 80)
    rig.disk.fail_call(1)
    with pytest.raises(StorageFailed):
        beside.run()


def test_a_full_disk_beside_the_loop_leaves_the_trim_to_a_later_flush() -> None:
    beside = Beside()
    rig = Rig(config=KEEP, segment_bytes=SEGMENT, disk=MemoryDisk(random.Random(1)), work_beside=beside).lead()
    fill(rig, 80)
    capacity, rig.disk.capacity_bytes = rig.disk.capacity_bytes, rig.disk.used_bytes()
    beside.run()
    rig.disk.capacity_bytes = capacity
    rig.settle()
    assert rig.core.log.start.index > 0

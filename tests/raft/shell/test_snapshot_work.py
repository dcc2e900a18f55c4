"""A large snapshot is written outside of the loop: the node goes on meanwhile, and what follows is quick."""

import math
import random
from collections import deque
from collections.abc import Callable, Iterator

import attrs
import pytest

from log.errors import StorageFailed
from log.memory_disk import MemoryDisk
from log.start import prepare
from raft.driver import DriverConfig
from raft.messages import AppendAccepted
from raft.model import LogIndex, Position, Term
from raft.snapshot_work import DRAW_S, Done
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
def checkpoint_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the size of the payload of each log-start checkpoint that is written."""
    sizes: list[int] = []

    def record_size(*arguments: object, **named: object) -> None:
        sizes.append(len(arguments[2].payload))  # type: ignore[attr-defined]
        prepare(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("log.retirement.prepare", record_size)
    return sizes


def test_appends_commit_while_a_snapshot_is_written_and_then_the_log_is_trimmed(checkpoint_sizes: list[int]) -> None:
    beside = Beside()
    rig = Rig(config=KEEP, segment_bytes=SEGMENT, disk=MemoryDisk(random.Random(1)), work_beside=beside).lead()
    fill(rig, 80)
    assert len(beside.waiting) == 1, "one is written at a time"
    assert rig.core.log.start.index == 0
    asked = rig.draw()
    rig.append(asked, b"meanwhile")
    rig.settle()
    assert isinstance(rig.caller.seen[asked], tuple)
    assert checkpoint_sizes == []
    beside.run()
    assert len(checkpoint_sizes) == 1
    assert rig.core.log.start.index > 0
    rig.settle()
    assert rig.storage.log.start_payload(), "the flush has put it in force"
    assert len(checkpoint_sizes) == 1, "and has not written it again"


def test_a_leaders_snapshot_is_written_beside_the_loop_and_installed_when_its_last_part_comes_again(
    checkpoint_sizes: list[int],
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
    assert len(checkpoint_sizes) == 1, "it is written once"


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
    sent = install_snapshot(term=2, size=2 << 20)
    position, applied = (Position(LogIndex(index), Term(2)) for index in (50, 60))
    start = attrs.evolve(sent.start, position=position, applied=applied)
    *_, last = parts_of(attrs.evolve(sent, start=start), 1 << 20)
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


class InPieces:
    """A machine whose snapshot is drawn piece by piece, each of which takes its time; what is applied meanwhile is not in it."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.restored = b""
        self.piece: Callable[[bytes], object] = bytes
        self.on_piece: Callable[[], None] = lambda: None

    def check(self, command: bytes, *, read_only: bool) -> None:
        pass

    def apply(self, index: int, command: bytes) -> bytes:
        self.values.append(command)
        return b"\xc0"

    def query(self, command: bytes) -> bytes:
        return b"".join(self.values)

    def snapshot(self) -> Iterator[bytes]:
        return self._draw(list(self.values))

    def _draw(self, values: list[bytes]) -> Iterator[bytes]:
        for value in values:
            self.on_piece()
            yield self.piece(value)  # type: ignore[misc]

    def restore(self, snapshot: bytes) -> None:
        self.restored = snapshot


def _with_pieces(config: DriverConfig = KEEP) -> tuple[Rig, InPieces]:
    machine = InPieces()
    disk = MemoryDisk(random.Random(1))
    rig = Rig(config=config, segment_bytes=SEGMENT, disk=disk, state_machine=machine).lead()
    machine.on_piece = lambda: rig.pass_time(DRAW_S)
    for value in (b"a", b"b", b"c"):
        rig.driver.apply(rig.caller, rig.draw(), value)
        rig.settle()
    return rig, machine


def test_a_snapshot_in_pieces_is_drawn_turn_by_turn_and_holds_the_moment_of_the_call() -> None:
    rig, machine = _with_pieces()
    applied: list[int] = []

    def on_piece() -> None:
        rig.pass_time(DRAW_S)
        applied.append(len(machine.values))
        rig.driver.apply(rig.caller, 10_000 + len(applied), b"later")

    machine.on_piece = on_piece
    request_id = 1000
    while not rig.core.log.start.index:
        if rig.driver.deadline > -math.inf:
            request_id += 1
            rig.append(request_id, b"x" * 500)
        rig.settle()
    assert applied[0] < applied[-1], "commands were applied between its pieces"
    assert rig.core.log.start.snapshot == b"abc"


def test_pieces_beyond_the_bound_are_dropped_and_nothing_leaves_the_log() -> None:
    rig, _ = _with_pieces(attrs.evolve(KEEP, snapshot_bytes_max=2))
    fill(rig, 60)
    assert "snapshot_too_large" in rig.told
    assert rig.core.log.start.index == 0


def test_a_piece_that_is_no_bytes_is_named() -> None:
    rig, machine = _with_pieces()
    machine.piece = len
    with pytest.raises(TypeError, match="made of bytes, not of int"):
        fill(rig, 60)

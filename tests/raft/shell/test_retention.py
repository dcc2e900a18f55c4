"""Records leave a node's log and a snapshot takes their place: the driver alone, and nodes over sockets."""

import random
from pathlib import Path

import attrs
import msgpack
import pytest
import trio

from log.memory_disk import MemoryDisk
from log.policy import FlushPolicy
from log.retention import Retention
from raft.batching import PIPELINE_S
from raft.client import Attempt, Client
from raft.driver import DriverConfig
from raft.errors import OutcomeUnknown, RecordsTrimmed, SnapshotDiverged, WrongStateMachine
from raft.group import RaftGroup
from raft.messages import AppendAccepted, AppendEntries, InstallSnapshot, SnapshotReceived
from raft.model import LogIndex, LogStart, Offset, Position, Term
from raft.node import _explain
from raft.register import RegisterMachine
from raft.settings import parse_settings
from raft.state_machine import StateMachine
from raft.subscription import CommittedEntry, Delivered, ResetToSnapshot
from raft.trimming import TRIM_EVERY_S
from tests.ports import free_ports
from tests.raft.shell.nodes import CLUSTER_ID, FoundedGroup, local_cluster, until
from tests.raft.shell.test_driver import TWO, Rig, entry, heartbeat

SEGMENT = 4096
KEEP = DriverConfig(retention=Retention(bytes_max=2 * SEGMENT))
QUERY: bytes = msgpack.packb(["r", "k"])


def make_full_node(config: DriverConfig = KEEP) -> Rig:
    """Returns a single node whose log has grown over several files, with a command before all records and one behind them."""
    rig = Rig(config=config, segment_bytes=SEGMENT, disk=MemoryDisk(random.Random(1))).lead()
    rig.apply(rig.draw(), "w", "k", 1)
    rig.settle()
    fill(rig, 40)
    rig.apply(rig.draw(), "w", "k", 2)
    rig.settle()
    return rig


def fill(rig: Rig, records: int) -> None:
    for _ in range(records):
        rig.append(rig.draw(), b"x" * 500)
        rig.settle()


def start_of(rig: Rig) -> int:
    return rig.core.log.start.offset


def install_snapshot(
    index: int = 50, term: int = 9, *, applied: int = 60, value: int = 7, size: int = 0
) -> InstallSnapshot:
    """A leader's log that begins behind `index`, with a register machine that has applied up to `applied`."""
    snapshot: bytes = msgpack.packb(["k", value, "filler", b"f" * size])
    start = LogStart(Position(LogIndex(index), Term(1)), Offset(40), Position(LogIndex(applied), Term(1)), snapshot)
    return InstallSnapshot(Term(term), start, 1)


def test_below_the_start_a_read_is_told_where_the_log_begins() -> None:
    rig = make_full_node()
    start = start_of(rig)
    assert start > 0
    assert rig.driver.status()["start_offset"] == start
    for offset in (0, start - 1):
        with pytest.raises(RecordsTrimmed) as caught:
            rig.driver.read_committed(offset, 1000)
        assert (caught.value.start_offset, caught.value.definite) == (start, True)
    assert rig.driver.read_committed(start, 1000)[0].base_offset == start
    assert "trimmed" in rig.told


def test_without_a_retention_nothing_leaves() -> None:
    rig = make_full_node(DriverConfig())
    assert (start_of(rig), rig.driver.read_committed(0, 1)[0].base_offset) == (0, 0)
    assert "trimmed" not in rig.told


def test_a_trimmed_log_starts_again_with_its_state_and_its_records() -> None:
    rig = make_full_node()
    start, end = start_of(rig), rig.driver.committed_end
    rig.storage.close()
    again = Rig(config=KEEP, segment_bytes=SEGMENT, disk=rig.disk)
    assert start_of(again) == start
    again.lead()
    assert msgpack.unpackb(again.driver.query(QUERY)) == 2
    assert again.driver.committed_end == end
    assert again.driver.read_committed(start, 100)[0].base_offset == start
    with pytest.raises(RecordsTrimmed):
        again.driver.read_committed(start - 1, 100)
    fill(again, 20)
    assert start_of(again) > start


def test_a_snapshot_that_is_too_large_is_told_and_nothing_leaves() -> None:
    rig = make_full_node(attrs.evolve(KEEP, snapshot_bytes_max=3))
    assert "snapshot_too_large" in rig.told
    assert "trimmed" not in rig.told
    assert start_of(rig) == 0
    assert rig.driver.read_committed(0, 1)[0].base_offset == 0


def test_by_age_files_leave_a_node_to_which_nothing_happens() -> None:
    rig = make_full_node(DriverConfig(retention=Retention(age_ms_max=5000)))
    files = len(rig.disk.paths())
    assert start_of(rig) == 0
    for _ in range(3):
        rig.wall_ms += 3000
        rig.now = max(rig.core.deadline, rig.now + TRIM_EVERY_S)
        rig.settle()
    assert start_of(rig) > 0
    assert len(rig.disk.paths()) < files - 2


def test_what_is_not_applied_yet_stays_in_the_log_and_is_in_no_snapshot() -> None:
    rig = Rig(3, config=attrs.evolve(KEEP, apply_bytes=1), segment_bytes=SEGMENT).lead()
    rig.accept()
    for number in range(40):
        rig.apply(number, "w", "k", b"%d" % number + b"x" * 500)
        rig.settle()
        rig.pass_time(PIPELINE_S)
        rig.settle()
    rig.accept()
    while rig.driver.applied_index < 14:
        rig.pump()
    rig.pass_time(TRIM_EVERY_S)
    rig.pump()
    assert 0 < rig.core.log.start.index <= rig.driver.applied_index < rig.core.commit_index
    rig.settle()
    rig.storage.close()
    again = Rig(3, config=KEEP, segment_bytes=SEGMENT, disk=rig.disk).lead()
    again.accept()
    while again.driver.applied_index < again.core.commit_index:
        again.pump()
    assert msgpack.unpackb(again.driver.query(QUERY)).startswith(b"39")


def test_a_command_whose_result_a_snapshot_replaced_is_unknown() -> None:
    rig = Rig(3, config=DriverConfig(apply_bytes=1)).lead()
    rig.accept()
    for number in (1, 2, 3):
        rig.apply(number, "w", "k", number)
        rig.settle()
        rig.pass_time(PIPELINE_S)
        rig.settle()
    assert rig.caller.seen == {}
    rig.accept()  # all are committed, and the first portion is applied
    assert rig.core.commit_index > rig.driver.applied_index
    rig.settle()
    answered = dict(rig.caller.seen)
    rig.receive(TWO, install_snapshot())
    rest = {number for number in (1, 2, 3) if number not in answered}
    assert rest
    assert {rig.caller.seen[number] for number in rest} == {OutcomeUnknown}
    assert "snapshot_installed" in rig.told
    assert msgpack.unpackb(rig.driver.query(QUERY)) == 7
    assert rig.driver.applied_index == 60


def test_a_follower_begins_anew_where_its_leader_does_and_says_so_when_it_is_durable() -> None:
    rig = Rig(3)
    rig.receive(TWO, install_snapshot())
    assert rig.messages(AppendAccepted) == []
    rig.settle()
    assert [message.match_index for message in rig.messages(AppendAccepted)] == [50]  # type: ignore[union-attr]
    assert (rig.core.log.last_index, rig.driver.committed_end, start_of(rig)) == (50, 40, 40)
    with pytest.raises(RecordsTrimmed):
        rig.driver.read_committed(39, 1)
    rig.storage.close()
    again = Rig(3, disk=rig.disk)
    assert (again.core.log.last_index, start_of(again), again.driver.applied_index) == (50, 40, 60)
    assert msgpack.unpackb(again.driver.query(QUERY)) == 7


def test_a_snapshot_of_what_the_group_no_longer_has_ends_the_node() -> None:
    rig = Rig(3)
    rig.receive(TWO, install_snapshot(index=50, applied=51))
    rig.settle()
    other = attrs.evolve(entry(51, b"", term=9), base_offset=Offset(40))
    message = AppendEntries(Term(9), LogIndex(50), Term(1), LogIndex(51), 2, (other,))
    with pytest.raises(SnapshotDiverged, match="holds entry 51 of term 1, but the group has one of term 9 at 51"):
        rig.receive(TWO, message)


def test_a_reign_that_goes_on_without_what_a_snapshot_knows_ends_the_node_before_it_answers_anything() -> None:
    rig = Rig(3, config=DriverConfig(flush_policy=FlushPolicy.NONE))
    rig.receive(TWO, install_snapshot(index=50, applied=60))
    rig.settle()
    rig.lead()
    rig.apply(1, "w", "k", 100)
    with pytest.raises(SnapshotDiverged, match="holds entry 60 of term 1, but the group has one of term 10 at 51"):
        rig.accept()
    assert 1 not in rig.caller.seen


def test_a_disk_that_the_log_has_filled_is_emptied_by_its_retention() -> None:
    disk = MemoryDisk(random.Random(1), capacity_bytes=4 << 20)
    rig = Rig(config=DriverConfig(retention=Retention(age_ms_max=5000)), segment_bytes=1 << 16, disk=disk).lead()
    rig.apply(rig.draw(), "w", "k", b"s" * 200_000)
    rig.settle()
    while "storage_full" not in rig.told:
        rig.append(rig.draw(), b"x" * 40_000)
        rig.settle()
    rig.wall_ms += 3_600_000
    files = len(disk.paths())
    rig.now = max(rig.core.deadline, rig.now + TRIM_EVERY_S)
    rig.settle()
    assert rig.core.log.start.index > 40
    assert len(disk.paths()) < files - 40
    asked = rig.draw()
    rig.append(asked, b"y" * 40_000)
    rig.settle()
    assert isinstance(rig.caller.seen[asked], tuple)


def test_what_a_full_disk_could_not_let_go_leaves_when_there_is_room_though_nothing_is_written() -> None:
    disk = MemoryDisk(random.Random(1), capacity_bytes=8 << 20)
    rig = Rig(config=DriverConfig(retention=Retention(age_ms_max=5000)), segment_bytes=1 << 16, disk=disk).lead()
    rig.apply(rig.draw(), "w", "k", b"s" * (2 << 20))
    rig.settle()
    while "storage_full" not in rig.told:
        rig.append(rig.draw(), b"x" * 40_000)
        rig.settle()
    rig.wall_ms += 3_600_000
    files = len(disk.paths())
    rig.now = max(rig.core.deadline, rig.now + TRIM_EVERY_S)
    rig.settle()
    assert len(disk.paths()) >= files
    disk.capacity_bytes = None
    last_index = rig.core.log.last_index
    rig.now = max(rig.core.deadline, rig.now + TRIM_EVERY_S)
    rig.settle()
    assert len(disk.paths()) < files - 40
    assert rig.core.log.last_index == last_index


def test_a_snapshot_that_comes_while_a_flush_is_under_way_waits_to_be_sent_again() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"kept")))
    rig.pump()
    assert len(rig.flushes) == 1
    rig.receive(TWO, install_snapshot())
    assert (rig.core.log.last_index, "snapshot_installed" in rig.told) == (1, False)
    rig.settle()
    rig.receive(TWO, install_snapshot())
    rig.settle()
    assert (rig.core.log.last_index, "snapshot_installed" in rig.told) == (50, True)


class Plain:
    """A state machine without snapshots."""

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Everything is a command."""

    def apply(self, index: int, command: bytes) -> bytes:
        """Nothing comes of it."""
        return b""

    def query(self, command: bytes) -> bytes:
        """Nor of questions."""
        return b""


class Choosy(Plain):
    """One that cannot be restored."""

    def snapshot(self) -> bytes:
        """All of it."""
        return b""

    def restore(self, snapshot: bytes) -> None:
        """Not from this one."""
        raise ValueError("a snapshot of another version")


@pytest.mark.parametrize(("machine", "error"), [(Plain(), WrongStateMachine), (Choosy(), ValueError)])
def test_a_state_machine_that_cannot_be_restored_does_not_cost_the_node_its_log(
    machine: StateMachine, error: type[Exception]
) -> None:
    rig = Rig(3, state_machine=machine)
    rig.receive(TWO, heartbeat(*[entry(index, b"r") for index in range(1, 5)]))
    rig.settle()
    with pytest.raises(error):
        rig.receive(TWO, install_snapshot())
    again = Rig(3, disk=rig.disk.after_kill(random.Random(1)))
    assert (again.storage.log.first_index, again.storage.log.last_index) == (1, 4)


def test_a_trim_before_the_flush_of_an_interval_leaves_no_deadline_behind() -> None:
    rig = Rig(config=attrs.evolve(KEEP, flush_policy=FlushPolicy.INTERVAL), segment_bytes=SEGMENT).lead()
    while "trimmed" not in rig.told:
        fill(rig, 1)
        rig.pass_time(0.005)
        rig.settle()
    rig.pass_time(0.06)
    rig.settle()
    assert rig.storage.is_durable
    assert rig.driver.deadline >= rig.now


def test_no_more_is_written_of_snapshots_than_leaves_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    snapshot = RegisterMachine.snapshot

    def record_size(machine: RegisterMachine) -> bytes:
        made = snapshot(machine)
        taken.append(len(made))
        return made

    monkeypatch.setattr(RegisterMachine, "snapshot", record_size)
    rig = Rig(config=KEEP, segment_bytes=SEGMENT).lead()
    rig.apply(rig.draw(), "w", "k", b"v" * 20_000)
    rig.settle()
    fill(rig, 400)
    assert len(taken) > 1
    assert sum(taken) <= rig.storage.log.end


def test_a_full_disk_takes_no_snapshot_and_loses_nothing() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"kept")))
    rig.settle()
    rig.disk.capacity_bytes = rig.disk.used_bytes()
    told = len(rig.messages(AppendAccepted))
    rig.receive(TWO, install_snapshot(size=2 << 20))
    rig.settle()
    assert "storage_full" in rig.told
    assert "snapshot_installed" not in rig.told
    assert (rig.core.log.last_index, len(rig.messages(AppendAccepted))) == (1, told)
    rig.disk.capacity_bytes = None
    rig.receive(TWO, install_snapshot(size=2 << 20))
    rig.settle()
    assert rig.core.log.last_index == 50


def parts_of(message: InstallSnapshot, size: int) -> list[InstallSnapshot]:
    """The same snapshot, in parts of this size."""
    whole = message.start.snapshot
    return [
        InstallSnapshot(
            message.term,
            attrs.evolve(message.start, snapshot=whole[offset : offset + size]),
            message.round,
            offset,
            max(len(whole) - offset - size, 0),
        )
        for offset in range(0, len(whole), size)
    ]


def test_parts_of_a_snapshot_wait_in_memory_and_only_the_last_waits_for_a_flush_to_end() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat(entry(1, b"kept")))
    rig.settle()
    first, second, last = parts_of(install_snapshot(term=1, size=100), 50)
    log_bytes = rig.storage.log.end
    rig.receive(TWO, first)
    rig.receive(TWO, heartbeat(entry(2, b"under way"), prev=1))
    assert len(rig.flushes) == 1
    rig.receive(TWO, second)
    rig.receive(TWO, last)
    assert [each.received for _, each in rig.sent if isinstance(each, SnapshotReceived)] == [50, 100]
    assert (rig.core.log.last_index, "snapshot_installed" in rig.told) == (2, False)
    rig.settle()
    assert rig.storage.log.end > log_bytes, "what came in between was written"
    rig.receive(TWO, last)
    rig.settle()
    assert (rig.core.log.start.index, rig.told.count("snapshot_installed")) == (50, 1)
    assert msgpack.unpackb(rig.driver.query(QUERY)) == 7


def test_a_snapshot_that_is_too_large_for_this_node_is_not_kept_in_memory() -> None:
    rig = Rig(3, config=DriverConfig(snapshot_bytes_max=99))
    for part in parts_of(install_snapshot(size=100), 50):
        rig.receive(TWO, part)
    assert rig.messages(SnapshotReceived) == []
    assert rig.core._staged is None
    assert set(rig.told) == {"snapshot_too_large"}


# -------------------------------------------------------------------- nodes


class Sum:
    """A state machine without snapshots."""

    def check(self, command: bytes, *, read_only: bool) -> None:
        pass

    def apply(self, index: int, command: bytes) -> bytes:
        return b""

    def query(self, command: bytes) -> bytes:
        return b""


@pytest.mark.parametrize("setting", ["retention_bytes=1000000", "retention_s=3600"])
async def test_a_retention_asks_for_a_machine_that_can_begin_with_a_snapshot(tmp_path: Path, setting: str) -> None:
    members = {1: ("127.0.0.1", free_ports(1)[0])}
    directory = str(tmp_path / "1")
    with pytest.raises(ValueError, match="Sum needs `snapshot` and `restore`"):
        async with RaftGroup.open(
            node_id=1, members=members, directory=directory, settings=parse_settings([setting]), state_machine=Sum()
        ):
            pass
    assert not (tmp_path / "1").exists()


SETTINGS = parse_settings(
    [
        "retention_bytes=65536",
        "segment_bytes_max=65536",
        "heartbeat_s=0.03",
        "election_timeout_s_min=0.15",
        "election_timeout_s_max=0.3",
    ]
)


async def test_a_trimmed_log_is_not_opened_with_a_machine_that_has_no_snapshots(tmp_path: Path) -> None:
    members = {1: ("127.0.0.1", free_ports(1)[0])}
    directory = str(tmp_path / "1")
    async with RaftGroup.open(node_id=1, members=members, directory=directory, settings=SETTINGS) as group:
        await until(lambda: group.status()["role"] == "leader")
        for _ in range(40):
            await group.append([b"x" * 8000])
        await until(lambda: group.status()["start_offset"] != 0)
    with pytest.raises(WrongStateMachine, match="give Sum `snapshot` and `restore`") as caught:
        async with RaftGroup.open(node_id=1, members=members, directory=directory, state_machine=Sum()):
            pass
    line = _explain(caught.value, started=False)
    assert line is not None
    assert "\n" not in line
    async with RaftGroup.open(node_id=1, members=members, directory=directory) as group:
        assert group.status()["start_offset"] != 0


async def test_a_snapshot_larger_than_a_frame_reaches_a_node_and_its_subscriber_while_appends_go_on(
    tmp_path: Path,
) -> None:
    settings = attrs.evolve(
        SETTINGS,
        raft=attrs.evolve(SETTINGS.raft, append_bytes_max=64 * 1024, snapshot_part_bytes_max=16 * 1024),
        frame_bytes_max=64 * 1024,
        batch_bytes_max=64 * 1024,
        read_bytes_max=32 * 1024,
    )
    async with local_cluster(tmp_path, settings=settings, start=(1, 2), kind=FoundedGroup) as cluster:
        leader = await cluster.leader()
        written = 0
        while len(leader._driver.core.log.start.snapshot) <= 4 * settings.frame_bytes_max:
            await leader.apply(msgpack.packb(["w", written, b"%d" % written * 5_000]))
            written += 1
        late = await cluster.start(3)
        given: list[Delivered] = []
        late.subscribe(given.append)
        while not cluster.notices("snapshot_installed"):
            assert (await leader.append([b"meanwhile"])).count == 1
        assert leader.status()["role"] == "leader"
        tail = await leader.tail()
        await until(lambda: late.status()["committed_end"] == tail.committed_end)
        await until(lambda: isinstance(given[-1], CommittedEntry) and given[-1].index == late.status()["commit_index"])
        (reset,) = [each for each in given if isinstance(each, ResetToSnapshot)]
        machine = RegisterMachine()
        machine.restore(reset.snapshot)
        assert len(machine.values) > 20
        assert machine.values == {number: b"%d" % number * 5_000 for number in range(len(machine.values))}
        last = msgpack.packb(["r", written - 1])
        assert msgpack.unpackb(late._driver.query(last)) == b"%d" % (written - 1) * 5_000
        assert not cluster.notices("frame_too_large")
        assert len({fields["term"] for fields in cluster.notices("role")}) <= 2, (
            "one election, and none for the transfer"
        )


async def test_a_client_is_told_at_once_where_the_log_begins(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, settings=SETTINGS) as cluster:
        leader = await cluster.leader()
        for _ in range(40):
            await leader.append([b"x" * 8000])
        await until(lambda: leader.status()["start_offset"] != 0)
        host, port = leader.address
        attempts: list[Attempt] = []
        async with Client([f"{host}:{port}"], CLUSTER_ID) as client:
            with trio.fail_after(20), pytest.raises(RecordsTrimmed) as caught:
                await client.read(0, on_attempt=attempts.append)
            assert len(attempts) == 1
            start = caught.value.start_offset
            assert (await client.status())["start_offset"] == start
            assert (await client.read(start)).batches[0].base_offset == start
        with pytest.raises(RecordsTrimmed):
            await leader.read(0)
        assert cluster.notices("trimmed")


async def test_a_node_without_the_retention_of_the_others_names_the_setting_and_catches_up_once_it_has_it(
    tmp_path: Path,
) -> None:
    async with local_cluster(tmp_path, settings=SETTINGS, start=(1, 2), kind=FoundedGroup) as cluster:
        leader = await cluster.leader()
        for _ in range(40):
            await leader.append([b"x" * 8000])
        await until(lambda: leader.status()["start_offset"] != 0)
        cluster.settings = attrs.evolve(SETTINGS, retention_bytes=0)
        behind = await cluster.start(3)
        await until(lambda: cluster.notices("connection_closed"))
        assert behind.status()["end_offset"] == 0
        (closed, *_) = cluster.notices("connection_closed")
        assert closed["role"] in ("peer 1", "peer 2")
        assert "the other nodes run with retention_bytes or retention_s" in closed["reason"]
        await until(lambda: any("retention_bytes" in each["reason"] for each in cluster.notices("link_down")))
        await cluster.stop(3)
        cluster.settings = SETTINGS
        behind = await cluster.start(3)
        await until(lambda: behind.status()["end_offset"] == leader.status()["end_offset"])
        # From now on its own log shows that logs are trimmed here, whatever its settings are.
        await cluster.stop(3)
        cluster.settings = attrs.evolve(SETTINGS, retention_bytes=0)
        behind = await cluster.start(3)
        assert behind.status()["start_offset"] != 0


def test_what_the_register_machine_holds_comes_back_from_its_snapshot() -> None:
    machine = RegisterMachine()
    for key, value in ((1, "one"), ("two", b"2"), (b"three", 3)):
        machine.apply(1, msgpack.packb(["w", key, value]))
    again = RegisterMachine({"old": 1})
    again.restore(machine.snapshot())
    assert again.values == machine.values

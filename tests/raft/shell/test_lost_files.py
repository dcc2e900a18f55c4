"""A directory that lost what its node promised by is refused; one whose first start was cut short is not."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from log import mark
from log.errors import StorageFailed
from log.memory_disk import MemoryDisk, PowerLoss
from raft.effects import Persist
from raft.group import IDENTITY_NAME, IncompleteDirectory, RaftGroup, _Identity, open_storage
from raft.model import NOOP, Entry, HardState, LogIndex, NodeId, Offset, Term, WriteId
from raft.node import _explain
from raft.settings import NodeSettings
from raft.storage import RaftStorage
from tests.raft.shell.nodes import FAST, free_ports, local_cluster, until

DIRECTORY = "data/1"
IDENTITY = _Identity("test", 1, (1, 2, 3))
SETTINGS = NodeSettings()


def opened(disk: MemoryDisk) -> RaftStorage:
    return open_storage(disk, DIRECTORY, IDENTITY, SETTINGS)


def vote_and_append(storage: RaftStorage) -> None:
    """What a node does first: it votes, and takes an entry."""
    entry = Entry(LogIndex(1), Term(1), Offset(0), NOOP)
    storage.persist(Persist(WriteId(1), HardState(Term(1), NodeId(2)), (entry,)))
    storage.flush()


def used() -> MemoryDisk:
    """The disk of a node that has voted and holds an entry."""
    disk = MemoryDisk(random.Random(1))
    storage = opened(disk)
    vote_and_append(storage)
    storage.close()
    return disk


def without(disk: MemoryDisk, *endings: str) -> MemoryDisk:
    for path in disk.paths():
        if path.endswith(endings):
            disk.remove(path)
    return disk


LOST = [
    pytest.param((".log", ".index", mark.NAME), "durable", id="log and checkpoint"),
    pytest.param((mark.NAME,), "durable", id="checkpoint"),
    pytest.param((IDENTITY_NAME,), "identity.json", id="identity"),
    pytest.param((IDENTITY_NAME, mark.NAME), "identity.json", id="identity and checkpoint"),
]


@pytest.mark.parametrize(("endings", "named"), LOST)
def test_a_used_directory_that_lost_a_file_is_refused_and_left_as_it_is(endings: tuple[str, ...], named: str) -> None:
    disk = without(used(), *endings)
    segments = {path: disk.content(path) for path in disk.paths() if path.endswith(".log")}
    for _ in range(2):
        with pytest.raises(IncompleteDirectory) as caught:
            opened(disk)
        assert named in caught.value.missing
        assert not disk.exists(f"{DIRECTORY}/{IDENTITY_NAME}") or IDENTITY_NAME not in endings
        assert {path: disk.content(path) for path in disk.paths() if path.endswith(".log")} == segments


@pytest.mark.parametrize("size", [0, 100, 2 * mark.SLOT_BYTES])
def test_a_checkpoint_that_is_blank_is_as_good_as_none(size: int) -> None:
    disk = used()
    file = disk.open(f"{DIRECTORY}/{mark.NAME}", create=False)
    file.cut(0)
    file.write_at(0, [bytes(size)])
    with pytest.raises(IncompleteDirectory, match="the checkpoint of its durable end"):
        opened(disk)


def test_a_log_whose_checkpoint_vouches_for_nothing_is_missed_all_the_same() -> None:
    disk = MemoryDisk(random.Random(1))
    opened(disk).close()
    with pytest.raises(IncompleteDirectory, match="every file of its log"):
        opened(without(disk, ".log"))


def test_a_log_whose_checkpoint_is_left_comes_back_below_its_floor_and_with_its_vote() -> None:
    storage = opened(without(used(), ".log", ".index"))
    assert storage.log.recovery.repaired is not None
    hard_state, view = storage.restore()
    assert (hard_state.term, hard_state.vote, hard_state.floor.index, view.last_index) == (1, 2, 1, 0)


def test_a_directory_that_never_held_anything_gets_its_identity_again() -> None:
    disk = MemoryDisk(random.Random(1))
    opened(disk).close()
    opened(without(disk, IDENTITY_NAME)).close()
    assert disk.exists(f"{DIRECTORY}/{IDENTITY_NAME}")


def killed(disk: MemoryDisk, seed: int) -> MemoryDisk:
    return disk.after_kill(random.Random(seed))


def power_cut(disk: MemoryDisk, seed: int) -> MemoryDisk:
    return disk.after_crash(random.Random(seed))


def all_lost(disk: MemoryDisk, seed: int) -> MemoryDisk:
    return disk.after_crash(random.Random(seed), loss=PowerLoss.LOSE_ALL)


@pytest.mark.parametrize("fate", [killed, power_cut, all_lost])
def test_a_first_start_that_is_cut_short_at_any_call_is_not_taken_for_a_loss(
    fate: Callable[[MemoryDisk, int], MemoryDisk],
) -> None:
    failures = 0
    for call in range(1, 200):
        for seed in range(5):
            disk = MemoryDisk(random.Random(seed))
            disk.fail_call(call)
            try:
                storage = opened(disk)
                vote_and_append(storage)
            except StorageFailed:
                failures += 1
            opened(fate(disk, seed)).close()
    assert failures > 5 * 20


class Naming(MemoryDisk):
    """Notes which names are durable when the identity gets its own."""

    def rename(self, source: str, target: str) -> None:
        if target.endswith(IDENTITY_NAME):
            self.before = self.durable_copy().paths()
        super().rename(source, target)


def test_the_log_is_durable_before_the_identity_is() -> None:
    disk = Naming(random.Random(1))
    opened(disk).close()
    assert [path.rpartition("/")[2] for path in disk.before if not path.endswith(".tmp")] == [
        "00000000000000000000.log",
        mark.NAME,
    ]


async def test_acknowledged_records_do_not_vanish_when_a_majority_lost_its_files(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.stop(3)
        leader = await cluster.leader()
        for number in range(31):
            await leader.append([b"record %d" % number])
        await cluster.stop(1)
        await cluster.stop(2)
    for node in (1, 2):
        for path in (tmp_path / str(node)).iterdir():
            if path.suffix in (".log", ".index") or path.name == mark.NAME:
                path.unlink()
        members = {number: ("127.0.0.1", port) for number, port in enumerate(free_ports(3), 1)}
        with pytest.raises(IncompleteDirectory) as caught:
            async with RaftGroup.open(
                node_id=node, members=members, directory=str(tmp_path / str(node)), cluster_id="test"
            ):
                pass
        line = _explain(caught.value, started=False)
        assert line is not None
        assert "\n" not in line
        assert "start this node with an empty directory" in line
    identity = json.loads((tmp_path / "1" / IDENTITY_NAME).read_text())
    assert identity == {"cluster_id": "test", "node_id": 1, "members": [1, 2, 3]}


async def test_a_node_that_is_started_with_an_empty_directory_instead_fetches_the_log(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, settings=NodeSettings(raft=FAST)) as cluster:
        leader = await cluster.leader()
        await leader.append([b"kept"])
        follower = next(group for group in await cluster.followers())
        number = int(str(follower.status()["node"]))
        await cluster.stop(number)
        (tmp_path / str(number)).rename(tmp_path / "lost")
        follower = await cluster.start(number)
        await until(lambda: follower.status()["end_offset"] == 1)

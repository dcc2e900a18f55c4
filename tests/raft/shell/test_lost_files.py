"""A directory that lost what its node promised by is refused; one whose first start was cut short is not."""

import contextlib
import random
import shutil
from pathlib import Path

import pytest

from log import mark
from log.errors import ForeignLog, StorageFailed
from log.memory_disk import MemoryDisk
from raft.directory import IDENTITY_NAME, Identity, IncompleteDirectory, open_storage
from raft.effects import Persist
from raft.errors import NotLeader
from raft.model import NOOP, Entry, HardState, LogIndex, NodeId, Offset, Term, WriteId
from raft.settings import NodeSettings
from raft.storage import RaftStorage
from tests.crashes import FATES, TURNS, Fate, calls_before
from tests.raft.shell.nodes import FAST, local_cluster, until

DIRECTORY = "data/1"
IDENTITY = Identity("test", 1, (1, 2, 3))
ALONE = Identity("test", 1, (1,))
SETTINGS = NodeSettings()


def open_node(disk: MemoryDisk, identity: Identity = IDENTITY) -> RaftStorage:
    return open_storage(disk, DIRECTORY, identity, SETTINGS)


def vote_and_append(storage: RaftStorage) -> None:
    """Does a node's first work: it votes, and takes an entry."""
    entry = Entry(LogIndex(1), Term(1), Offset(0), NOOP)
    storage.persist(Persist(WriteId(1), HardState(Term(1), NodeId(2)), (entry,)))
    storage.flush()


def use_disk() -> MemoryDisk:
    """Returns the disk of a node that has voted and holds an entry."""
    disk = MemoryDisk(random.Random(1))
    storage = open_node(disk)
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
    pytest.param((IDENTITY_NAME, mark.NAME), "identity.json", id="identity and checkpoint"),
]


@pytest.mark.parametrize(("endings", "named"), LOST)
def test_a_used_directory_that_lost_a_file_is_set_aside_and_known_to_have_had_a_past(
    endings: tuple[str, ...], named: str
) -> None:
    disk = without(use_disk(), *endings)
    segments = [disk.content(path) for path in disk.paths() if path.endswith(".log")]
    storage = open_node(disk)
    assert named in (storage.set_aside_for or "")
    for _ in range(2):
        hard_state, view = storage.restore()
        assert (hard_state, view.last_index, storage.was_lost) == (HardState(), 0, True)
        storage.close()
        storage = open_node(disk)
        assert storage.set_aside_for is None, "it is set aside once"
    assert [disk.content(path) for path in disk.paths() if path.endswith(".log.lost")] == segments
    vote_and_append(storage)
    storage.close()
    assert not open_node(disk).was_lost, "it remembers again"


@pytest.mark.parametrize(("endings", "named"), LOST)
def test_a_used_directory_without_peers_that_lost_a_file_is_refused_and_left_as_it_is(
    endings: tuple[str, ...], named: str
) -> None:
    disk = MemoryDisk(random.Random(1))
    storage = open_node(disk, ALONE)
    vote_and_append(storage)
    storage.close()
    before = {path: disk.content(path) for path in without(disk, *endings).paths()}
    for _ in range(2):
        with pytest.raises(IncompleteDirectory) as caught:
            open_node(disk, ALONE)
        assert named in caught.value.missing or IDENTITY_NAME in caught.value.missing
        assert {path: disk.content(path) for path in before if path.endswith(".log")} == {
            path: content for path, content in before.items() if path.endswith(".log")
        }


def test_a_log_that_lost_only_its_identity_vouches_for_itself() -> None:
    storage = open_node(without(use_disk(), IDENTITY_NAME))
    hard_state, view = storage.restore()
    assert (hard_state.term, hard_state.vote, view.last_index, storage.was_lost) == (1, 2, 1, False)


def test_a_log_of_another_version_is_never_set_aside() -> None:
    disk = MemoryDisk(random.Random(1))
    storage = open_node(disk)
    storage.log.save_state(b"\x93\x63\x01\xc0")
    storage.flush()
    storage.close()
    before = disk.paths()
    with pytest.raises(ForeignLog, match="this version cannot read it"):
        open_node(disk).restore()
    assert disk.paths() == before


@pytest.mark.parametrize("size", [0, 100, 2 * mark.SLOT_BYTES])
def test_a_checkpoint_that_is_blank_is_as_good_as_none(size: int) -> None:
    disk = use_disk()
    file = disk.open(f"{DIRECTORY}/{mark.NAME}", create=False)
    file.cut(0)
    file.write_at(0, [bytes(size)])
    assert "the checkpoint of its durable end" in (open_node(disk).set_aside_for or "")


def test_a_log_whose_checkpoint_vouches_for_nothing_is_missed_all_the_same() -> None:
    disk = MemoryDisk(random.Random(1))
    open_node(disk).close()
    assert "every file of its log" in (open_node(without(disk, ".log")).set_aside_for or "")


@pytest.mark.parametrize("call", range(1, 60))
def test_a_crash_while_files_are_set_aside_loses_no_knowledge_of_the_past(call: int) -> None:
    disk = without(use_disk(), mark.NAME)
    disk.sync_directory(DIRECTORY)
    disk.fail_call(call)
    with contextlib.suppress(StorageFailed):
        open_node(disk)
    storage = open_node(disk.after_crash(random.Random(call)))
    assert storage.was_lost
    assert storage.restore()[0] == HardState()


def test_a_log_whose_checkpoint_is_left_comes_back_below_its_floor_and_with_its_vote() -> None:
    storage = open_node(without(use_disk(), ".log", ".index"))
    assert storage.log.recovery.repaired is not None
    hard_state, view = storage.restore()
    assert (hard_state.term, hard_state.vote, hard_state.floor.index, view.last_index) == (1, 2, 1, 0)


def test_a_directory_that_never_held_anything_gets_its_identity_again() -> None:
    disk = MemoryDisk(random.Random(1))
    open_node(disk).close()
    open_node(without(disk, IDENTITY_NAME)).close()
    assert disk.exists(f"{DIRECTORY}/{IDENTITY_NAME}")


@pytest.mark.parametrize("fate", FATES)
def test_a_first_start_that_is_cut_short_at_any_call_is_not_taken_for_a_loss(fate: Fate) -> None:
    failed = 0
    for call in calls_before(fate):
        disks = [MemoryDisk(random.Random(seed)) for seed in range(5)]
        for seed, disk in enumerate(disks):
            disk.fail_call(call)
            with contextlib.suppress(StorageFailed):
                vote_and_append(open_node(disk))
            open_node(fate(disk, seed)).close()
        if not any(disk.failed_as_asked for disk in disks):
            break
        failed += 1
    assert failed > 20 // TURNS


class Naming(MemoryDisk):
    """Notes which names are durable when the identity gets its own."""

    def rename(self, source: str, target: str) -> None:
        if target.endswith(IDENTITY_NAME):
            self.before = self.durable_copy().paths()
        super().rename(source, target)


def test_the_log_is_durable_before_the_identity_is() -> None:
    disk = Naming(random.Random(1))
    open_node(disk).close()
    assert [path.rpartition("/")[2] for path in disk.before if not path.endswith(".tmp")] == [
        "00000000000000000000.log",
        mark.NAME,
    ]


@pytest.mark.parametrize("loss", ["files", "directory"])
@pytest.mark.parametrize("first", [1, 3])
async def test_acknowledged_records_survive_on_one_sound_node_of_three(tmp_path: Path, loss: str, first: int) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        for number in range(31):
            await leader.append([b"record %d" % number])
        await until(lambda: all(node.group.status()["commit_index"] == 32 for node in cluster.nodes.values()))
    for node in (1, 2):
        if loss == "directory":
            shutil.rmtree(tmp_path / str(node))
            continue
        for path in (tmp_path / str(node)).iterdir():
            if path.suffix in (".log", ".index") or path.name == mark.NAME:
                path.unlink()
    async with local_cluster(tmp_path, start=()) as cluster:
        for node in (first, *({1, 2, 3} - {first})):
            await cluster.start(node)
        leader = await cluster.leader()
        assert leader.status()["node"] == 3
        records = [record for batch in (await leader.read(0)).batches for record in batch.records()]
        assert records == [b"record %d" % number for number in range(31)]
        await leader.append([b"one more"])
        await until(lambda: all(node.group.status()["end_offset"] == 32 for node in cluster.nodes.values()))


async def test_two_nodes_that_lost_everything_lead_nothing_without_the_third(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, settings=NodeSettings(raft=FAST)) as cluster:
        leader = await cluster.leader()
        await leader.append([b"kept"])
        for node in (1, 2, 3):
            await cluster.stop(node)
        for node in (1, 2):
            shutil.rmtree(tmp_path / str(node))
            await cluster.start(node)
        await until(lambda: all(cluster.nodes[node].group.status()["unheard"] == [3] for node in (1, 2)))
        for node in (1, 2):
            cluster.nodes[node].group.campaign()
            with pytest.raises(NotLeader):
                await cluster.nodes[node].group.append([b"not taken"])
        await cluster.start(3)
        leader = await cluster.leader()
        assert [batch.records() for batch in (await leader.read(0)).batches] == [[b"kept"]]


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

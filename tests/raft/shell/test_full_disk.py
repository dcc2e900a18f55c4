"""Full disks, on a few nodes or on all: requests are refused for certain, a leader stays, and no node ends."""

import contextlib
import random

from jepsen_like.testing.cluster import LocalCluster
from log.memory_disk import MemoryDisk
from raft.client import Attempt
from raft.effects import RoleName
from raft.errors import RaftError, StorageFull
from raft.full_disk import HAND_OVER_EVERY_S, NOTICE_EVERY_S
from raft.messages import RequestVote, TimeoutNow, VoteReply
from raft.model import LogIndex, Term
from raft.roles import Leader
from tests.raft.shell.test_driver import THREE, TWO, Rig, entry, heartbeat

RECORD = b"x" * 100_000


def full(disk: MemoryDisk) -> None:
    disk.capacity_bytes = disk.used_bytes()


def fill(rig: Rig) -> None:
    """Let a leader send entries until one does not fit, not even into what was reserved before."""
    full(rig.disk)
    index = 1
    while "storage_full" not in rig.told:
        rig.receive(TWO, heartbeat(entry(index, b"x" * 8192), prev=index - 1))
        rig.settle()
        index = rig.core.log.last_index + 1


def test_a_leader_without_room_hands_over_and_lets_others_stand_first() -> None:
    rig = Rig(3).lead()
    rig.accept()
    full(rig.disk)
    rig.append(1, RECORD * 20)
    rig.settle()
    assert rig.caller.seen == {1: StorageFull}
    assert rig.core.role_name is RoleName.FOLLOWER
    assert (
        rig.core.deadline >= rig.now + rig.core.config.election_timeout_s_min + rig.core.config.election_timeout_s_max
    )


def test_a_leader_that_has_handed_over_for_want_of_room_keeps_leading_and_refuses_for_certain() -> None:
    rig = Rig(3).lead()
    full(rig.disk)
    rig.append(1, RECORD * 20)
    rig.settle()
    rig.lead()
    began = rig.now
    for request_id in range(2, 12):
        rig.append(request_id, RECORD * 20)
        rig.settle()
    assert {rig.caller.seen[request_id] for request_id in range(2, 12)} == {StorageFull}
    assert isinstance(rig.core.role, Leader)
    assert rig.told.count("storage_full") == 2, "the first one, and one in the time of a notice"
    rig.now = began + HAND_OVER_EVERY_S
    rig.core.role.quorum_check_due = rig.now + 1
    rig.append(12, RECORD * 20)
    rig.settle()
    assert rig.core.leader is None
    assert NOTICE_EVERY_S < HAND_OVER_EVERY_S


def test_a_group_of_one_has_no_one_to_hand_over_to() -> None:
    rig = Rig().lead()
    full(rig.disk)
    rig.append(1, RECORD * 20)
    rig.settle()
    assert (rig.caller.seen, rig.core.role_name) == ({1: StorageFull}, RoleName.LEADER)
    rig.disk.capacity_bytes = None
    rig.append(2, RECORD)
    rig.settle()
    assert rig.caller.seen[2] == (0, 1, rig.core.term)


def test_no_number_of_elections_ends_a_node_without_room() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat())
    rig.settle()
    fill(rig)
    for term in range(2, 1500):
        rig.receive(THREE, RequestVote(Term(term), LogIndex(999), Term(1)))
        rig.receive(TWO, heartbeat(term=term))
        rig.settle()
    voted = len(rig.messages(VoteReply))
    assert rig.core.term < 1499, "the room that is kept for terms and votes has an end"
    rig.now += 60
    rig.settle()
    rig.disk.capacity_bytes = None
    rig.receive(THREE, RequestVote(Term(2000), LogIndex(999), Term(1)))
    rig.settle()
    assert (rig.core.term, len(rig.messages(VoteReply))) == (2000, voted + 1)


def test_no_number_of_hand_overs_ends_a_node_without_room() -> None:
    rig = Rig(3)
    rig.receive(TWO, heartbeat())
    rig.settle()
    fill(rig)
    for _ in range(1500):
        rig.receive(TWO, heartbeat(term=rig.core.term))
        rig.receive(TWO, TimeoutNow(rig.core.term))
        rig.settle()
    assert rig.core.term < 1499, "the room that is kept for terms and votes has an end"


def test_a_node_that_starts_on_a_full_disk_serves_once_there_is_room() -> None:
    rig = Rig().lead()
    rig.append(1, RECORD)
    rig.settle()
    rig.storage.close()
    full(rig.disk)
    again = Rig(disk=rig.disk)
    full(again.disk)
    for _ in range(30):
        again.now += 1.0
        again.settle()
    assert (again.core.role_name, again.told.count("storage_full") > 1) == (RoleName.FOLLOWER, True)
    assert again.driver.deadline > again.now  # it does not look for room all the time
    again.disk.capacity_bytes = None
    again.now += NOTICE_EVERY_S
    again.settle()
    again.append(2, RECORD)
    again.settle()
    assert again.caller.seen[2] == (1, 1, again.core.term)


def test_what_a_node_without_room_has_promised_is_on_its_disk() -> None:
    rig = Rig(3)
    fill(rig)
    for term in range(2, 1000):
        rig.receive(THREE, RequestVote(Term(term), LogIndex(999), Term(1)))
        rig.settle()
    granted = [reply.term for reply in rig.messages(VoteReply) if isinstance(reply, VoteReply) and reply.granted]
    again = Rig(3, disk=rig.disk.after_kill(random.Random(1)))
    assert again.core.term >= max(granted, default=Term(0))


async def test_full_disks_on_all_nodes_neither_unseat_leaders_for_ever_nor_end_a_node() -> None:
    attempts: list[Attempt] = []
    async with LocalCluster.open() as cluster, cluster.client(deadline_s=1.0) as client:
        await client.append([b"before"])
        began = await term_of(cluster)
        for node in cluster.nodes:
            full(cluster.disk(node))
        while sum(isinstance(attempt.error, StorageFull) for attempt in attempts) < 20:
            with contextlib.suppress(RaftError):
                await client.append([RECORD * 20], on_attempt=attempts.append)
        unknown = [attempt for attempt in attempts if attempt.error is not None and not attempt.error.definite]
        assert len(unknown) <= len(cluster.nodes), "a leader may have room that its followers lack, but not for long"
        assert all([await cluster.status(node) for node in cluster.nodes]), "all nodes are up"
        assert await term_of(cluster) <= began + 2 * len(cluster.nodes)
        for node in cluster.nodes:
            cluster.disk(node).capacity_bytes = None
        await client.append([b"after"])
        assert (await cluster.check()).valid


async def term_of(cluster: LocalCluster) -> int:
    status = await cluster.status(await cluster.wait_for_leader())
    assert status is not None
    return int(str(status["term"]))

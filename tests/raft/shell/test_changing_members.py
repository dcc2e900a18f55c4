"""Changes of the members and of the leader over real sockets: by clients, while others append."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from raft.client import Client
from raft.errors import InvalidRequest, NotLeader, OutcomeUnknown, RaftError
from raft.group import RaftGroup
from raft.membership import AddLearner, Change, ChangeVoters, Promote, Remove
from tests.raft.shell.nodes import CLUSTER_ID, LocalCluster, local_cluster, until


def client_of(cluster: LocalCluster) -> Client:
    addresses = [f"{host}:{port}" for host, port in cluster.members.values()]
    return Client(addresses, CLUSTER_ID, connect_timeout_s=0.2, retry_pause_s=0.01)


async def change(cluster: LocalCluster, *steps: Change) -> None:
    """Make changes one after another; one of unknown outcome is asked for again, which does no harm."""
    for step in steps:
        async with client_of(cluster) as client:
            while True:
                try:
                    await client.change_members(step)
                    break
                except OutcomeUnknown:
                    continue


async def voters_are(group: RaftGroup, voters: Sequence[int], learners: Sequence[int] = ()) -> None:
    await until(lambda: (group.status()["voters"], group.status()["learners"]) == (list(voters), list(learners)))


async def records_of(group: RaftGroup) -> list[bytes]:
    found = await group.read(0)
    return [record for batch in found.batches for record in batch.records()]


async def test_all_members_are_replaced_one_after_another_while_clients_append(tmp_path: Path) -> None:
    acknowledged: list[bytes] = []
    async with local_cluster(tmp_path) as cluster:
        await cluster.leader()

        async def append(writer: int) -> None:
            number = 0
            while True:
                async with client_of(cluster) as client:
                    number += 1
                    record = f"{writer}/{number}".encode()
                    try:
                        await client.append([record])
                    except RaftError:
                        continue
                    acknowledged.append(record)

        async with trio.open_nursery() as load:
            for writer in range(3):
                load.start_soon(append, writer)
            for old, new in ((1, 4), (2, 5), (3, 6)):
                await change(cluster, AddLearner(new, await cluster.join(new)), Promote(new), Remove(old))
                await cluster.stop(old)
                shutil.rmtree(tmp_path / str(old))
            before = len(acknowledged)
            await until(lambda: len(acknowledged) > before + 20)
            load.cancel_scope.cancel()
        leader = await cluster.leader()
        assert leader.status()["voters"] == [4, 5, 6]
        stored = await records_of(leader)
        assert set(acknowledged) <= set(stored)
        assert len(stored) == len(set(stored))


async def test_members_that_left_and_came_are_known_after_a_restart_with_the_settings_of_the_beginning(
    tmp_path: Path,
) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.leader()
        await change(cluster, AddLearner(4, await cluster.join(4)), Promote(4), Remove(1))
        await cluster.stop(1)
        for node_id in (2, 3, 4):
            await cluster.stop(node_id)
        for node_id in (2, 3, 4):
            await cluster.start(node_id)
        leader = await cluster.leader()
        assert leader.status()["voters"] == [2, 3, 4]
        await leader.append([b"goes on"])


async def test_several_voters_are_replaced_at_once(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await (await cluster.leader()).append([b"kept"])
        for node_id in (4, 5):
            await change(cluster, AddLearner(node_id, await cluster.join(node_id)))
        await change(cluster, ChangeVoters(frozenset({3, 4, 5})))
        for node_id in (1, 2):
            await cluster.stop(node_id)
        leader = await cluster.leader()
        assert (leader.status()["voters"], leader.status()["outgoing"]) == ([3, 4, 5], [])
        assert await records_of(leader) == [b"kept"]


async def test_a_voter_that_lost_its_directory_returns_as_a_learner(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.leader()
        await change(cluster, AddLearner(4, await cluster.join(4)), Promote(4))
        await change(cluster, AddLearner(4))
        follower = next(node for node in (1, 2, 3) if cluster.nodes[node].group.status()["role"] != "leader")
        others = sorted({1, 2, 3} - {follower})
        await cluster.stop(follower)
        shutil.rmtree(tmp_path / str(follower))
        await cluster.start(follower)
        await voters_are(await cluster.leader(), others, sorted((4, follower)))
        await change(cluster, Promote(follower))
        await voters_are(cluster.nodes[follower].group, sorted((*others, follower)), [4])


async def test_a_voter_that_lost_its_directory_answers_a_leader_that_its_settings_do_not_name(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.leader()
        await change(cluster, AddLearner(4, await cluster.join(4)), Promote(4), Remove(1))
        await cluster.stop(1)
        async with client_of(cluster) as client:
            await client.transfer_leadership(4)
        await until(lambda: cluster.nodes[4].group.status()["role"] == "leader")
        await cluster.stop(3)
        shutil.rmtree(tmp_path / "3")
        await cluster.start(3)
        await voters_are(cluster.nodes[4].group, [2, 4], [3])
        await change(cluster, Promote(3))
        await voters_are(cluster.nodes[3].group, [2, 3, 4])


async def test_a_voter_returns_to_a_group_that_has_replaced_all_whom_it_knows(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.leader()
        await cluster.stop(3)
        for old, new in ((1, 4), (2, 5)):
            await change(cluster, AddLearner(new, await cluster.join(new)), Promote(new), Remove(old))
            await cluster.stop(old)
        await (await cluster.leader()).append([b"kept"])
        await cluster.start(3)
        await voters_are(cluster.nodes[3].group, [3, 4, 5])
        await until(lambda: cluster.nodes[3].group.status()["committed_end"] == 1)


async def test_a_leader_hands_over_to_the_node_that_is_asked_for(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        own = leader.status()["node"]
        target = next(node for node in (1, 2, 3) if node != own)
        await leader.append([b"before"])
        await leader.transfer_leadership(target)
        await until(lambda: cluster.nodes[target].group.status()["role"] == "leader")
        with pytest.raises(NotLeader):
            await leader.transfer_leadership(target)
        async with client_of(cluster) as client:
            await client.transfer_leadership(target)  # it leads: nothing is left to do
            await client.append([b"after"])


async def test_a_change_that_does_not_fit_is_refused_for_good(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        for step in (Remove(1), Promote(7), ChangeVoters(frozenset({1, 7}))):
            with pytest.raises(InvalidRequest):
                await leader.change_members(step)
            async with client_of(cluster) as client:
                with pytest.raises(InvalidRequest):
                    await client.change_members(step)
        for nonsense in (AddLearner(0), AddLearner(7, "nowhere"), ChangeVoters(frozenset())):
            with pytest.raises(InvalidRequest):
                await leader.change_members(nonsense)
        with pytest.raises(InvalidRequest):
            await leader.transfer_leadership(7)

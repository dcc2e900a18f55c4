"""RaftGroup over real sockets: what it promises to its callers."""

import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import msgpack
import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from log.errors import StorageFailed
from log.memory_disk import MemoryDisk
from log.policy import FlushPolicy
from raft.client_codec import PEER, Hello, encode_hello
from raft.codec import encode_message
from raft.config import RaftConfig
from raft.directory import WrongDirectory, WrongMembers
from raft.errors import InvalidRequest, NotLeader, OutcomeUnknown, ShuttingDown
from raft.group import RaftGroup
from raft.messages import AppendEntries
from raft.model import LogIndex, NodeId, Term
from raft.notices import event_of
from raft.server import PEER_CONNECTIONS_MAX
from raft.settings import NodeSettings, parse_settings
from tests.ports import free_ports
from tests.raft.shell.nodes import FAST, FoundedGroup, local_cluster, until


def id_of(group: RaftGroup) -> int:
    node = group.status()["node"]
    assert isinstance(node, int)
    return node


async def knows(group: RaftGroup, **expected: object) -> None:
    """Wait until the node's status shows this."""
    await until(lambda: expected.items() <= group.status().items())


async def test_what_is_appended_is_read_on_every_node(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        first = await leader.append([b"one", b"two"])
        second = await leader.append([b"three"])
        assert (first.base_offset, first.count, second.base_offset) == (0, 2, 2)
        assert (await leader.tail()).committed_end == 3
        for node in cluster.nodes.values():
            await knows(node.group, committed_end=3)
            found = await node.group.read(0)
            assert [record for batch in found.batches for record in batch.records()] == [b"one", b"two", b"three"]
            assert found.committed_end == 3


async def test_a_read_at_the_committed_end_finds_nothing_on_the_leader_and_is_not_for_a_follower(
    tmp_path: Path,
) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        await leader.append([b"one"])
        assert (await leader.read(1)).batches == ()
        assert (await leader.read(7)).committed_end == 1
        for follower in await cluster.followers():
            with pytest.raises(NotLeader):
                await follower.read(1)


async def test_a_follower_names_the_leader_and_its_address(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        host, port = leader.address
        for follower in await cluster.followers():
            await knows(follower, leader=id_of(leader))
            with pytest.raises(NotLeader) as caught:
                await follower.append([b"x"])
            assert (caught.value.leader, caught.value.address) == (id_of(leader), f"{host}:{port}")
            with pytest.raises(NotLeader) as caught:
                await follower.tail()
            assert (caught.value.leader, caught.value.address) == (id_of(leader), f"{host}:{port}")


async def test_many_callers_get_offsets_of_their_own(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        seen: dict[int, bytes] = {}

        async def append(name: int) -> None:
            for turn in range(5):
                records = [f"{name}.{turn}.{at}".encode() for at in range(3)]
                appended = await leader.append(records)
                for at, record in enumerate(records):
                    assert appended.base_offset + at not in seen
                    seen[appended.base_offset + at] = record

        async with trio.open_nursery() as nursery:
            for name in range(10):
                nursery.start_soon(append, name)
        found = await leader.read(0)
        stored = [record for batch in found.batches for record in batch.records()]
        assert dict(enumerate(stored)) == seen


async def test_commands_are_applied_once_and_queries_see_them(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()

        async def command(*parts: object) -> object:
            return msgpack.unpackb((await leader.apply(msgpack.packb(parts))).result)

        assert await command("w", "key", 1) is None
        assert await command("c", "key", 1, 2) == [True, 1]
        assert await command("c", "key", 1, 3) == [False, 2]
        answer = await leader.query(msgpack.packb(["r", "key"]))
        assert msgpack.unpackb(answer.result) == 2
        with pytest.raises(InvalidRequest):
            await leader.apply(msgpack.packb(["nonsense"]))
        with pytest.raises(InvalidRequest):
            await leader.query(msgpack.packb(["w", 1, 1]))


async def test_commands_take_no_offsets(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        group = await cluster.leader()
        await group.append([b"one"])
        await group.apply(msgpack.packb(["w", 1, 1]))
        assert (await group.append([b"two"])).base_offset == 1
        found = await group.read(0)
        assert [batch.base_offset for batch in found.batches] == [0, 1]


async def test_everything_acknowledged_survives_a_restart_of_all_nodes(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        await leader.append([b"kept"])
        await leader.apply(msgpack.packb(["w", "key", 7]))
        old_term = (await leader.tail()).epoch
        for node_id in (1, 2, 3):
            await cluster.stop(node_id)
        for node_id in (1, 2, 3):
            await cluster.start(node_id)
        leader = await cluster.leader()
        assert (await leader.tail()).epoch > old_term
        assert [record for batch in (await leader.read(0)).batches for record in batch.records()] == [b"kept"]
        assert msgpack.unpackb((await leader.query(msgpack.packb(["r", "key"]))).result) == 7


async def test_a_majority_goes_on_when_the_leader_stops_and_the_leader_catches_up_when_it_returns(
    tmp_path: Path,
) -> None:
    async with local_cluster(tmp_path) as cluster:
        old = await cluster.leader()
        old_id = id_of(old)
        await old.append([b"before"])
        await cluster.stop(old_id)
        new = await cluster.leader()
        appended = await new.append([b"after"])
        returned = await cluster.start(old_id)
        await knows(returned, committed_end=2)
        assert appended.base_offset == 1
        assert len((await returned.read(0)).batches) == 2


async def test_a_paused_leader_says_nothing_and_finds_another_in_its_place_when_it_goes_on(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        old = await cluster.leader()
        await old.append([b"before"])
        old.pause()
        paused = cluster.nodes.pop(id_of(old))
        new = await cluster.leader()
        await new.append([b"meanwhile"])
        assert old.status()["role"] == "leader"
        old.resume()
        await knows(old, role="follower", committed_end=2)
        cluster.nodes[id_of(old)] = paused


async def test_a_node_that_is_paused_twice_goes_on_when_it_is_resumed_once(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        group = await cluster.leader()
        group.pause()
        await wait_all_tasks_blocked()
        group.pause()
        group.resume()
        await group.append([b"x"])


async def test_a_node_that_is_paused_just_after_it_was_resumed_stands_still(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        group = await cluster.leader()
        group.pause()
        await wait_all_tasks_blocked()
        group.resume()
        group.pause()
        last_index = group.status()["last_index"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.append, [b"x"])
            await wait_all_tasks_blocked()
            assert group.status()["last_index"] == last_index
            group.resume()
        assert group.status()["committed_end"] == 1


async def test_a_node_that_is_paused_before_its_first_step_takes_none() -> None:
    members = {1: ("127.0.0.1", free_ports(1)[0])}
    async with RaftGroup.open(node_id=1, members=members, directory="node", disk=MemoryDisk(random.Random(1))) as group:
        group.pause()
        group.campaign()
        await wait_all_tasks_blocked()
        assert group.status()["role"] == "follower"
        group.resume()
        await knows(group, role="leader")


async def test_a_new_group_need_not_sit_out_an_election_timeout(tmp_path: Path) -> None:
    patient = NodeSettings(raft=RaftConfig(election_timeout_s_min=60.0, election_timeout_s_max=90.0))
    async with local_cluster(tmp_path, 3, patient) as cluster:
        await until(lambda: len(cluster.notices("link_up")) == 6)
        cluster.nodes[2].group.campaign()
        assert id_of(await cluster.leader()) == 2
        cluster.nodes[1].group.campaign()  # which changes nothing, for it knows a leader
        await cluster.nodes[2].group.append([b"x"])
        assert id_of(await cluster.leader()) == 2


async def test_without_a_majority_an_append_ends_unknown_when_the_leader_gives_up(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        for follower in await cluster.followers():
            await cluster.stop(id_of(follower))
        with pytest.raises(OutcomeUnknown):
            await leader.append([b"lost or not"])
        with pytest.raises(NotLeader):
            await leader.append([b"certainly not"])


async def test_what_is_in_flight_when_a_node_stops_is_unknown_and_later_calls_are_refused(tmp_path: Path) -> None:
    outcomes: list[BaseException] = []
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        for follower in await cluster.followers():
            await cluster.stop(id_of(follower))

        async def append() -> None:
            try:
                await leader.append([b"x"])
            except (OutcomeUnknown, ShuttingDown) as error:
                outcomes.append(error)

        cluster.nursery.start_soon(append)
        await until(lambda: leader.status()["last_index"] != leader.status()["commit_index"])
        await cluster.stop(id_of(leader))
        await until(lambda: outcomes)
        with pytest.raises(ShuttingDown):
            await leader.append([b"y"])
        with pytest.raises(ShuttingDown):
            await leader.read(0)
    assert isinstance(outcomes[0], OutcomeUnknown)


async def test_a_batch_that_could_never_be_answered_is_refused(tmp_path: Path) -> None:
    bound = 512 * 1024
    settings = NodeSettings(raft=FAST, frame_bytes_max=bound, read_bytes_max=bound // 2, batch_bytes_max=bound)
    async with local_cluster(tmp_path, 1, settings) as cluster:
        group = await cluster.leader()
        with pytest.raises(InvalidRequest, match="too large"):
            await group.append([b"x" * bound])
        with pytest.raises(InvalidRequest, match="too large"):
            await group.apply(msgpack.packb(["w", "key", b"x" * bound]))


async def test_arguments_that_no_node_takes_are_refused_before_they_can_do_harm(tmp_path: Path) -> None:
    wrong: Any = ["put"]
    async with local_cluster(tmp_path, 1) as cluster:
        group = await cluster.leader()
        before = group.status()["last_index"]
        for call in (group.apply(wrong), group.query(wrong), group.read(-1), group.read(wrong), group.append(wrong)):
            with pytest.raises(InvalidRequest):
                await call
        assert group.status()["last_index"] == before


@pytest.mark.parametrize("flush", ["interval", "none"])
async def test_the_weaker_flush_policies_serve_too(tmp_path: Path, flush: str) -> None:
    settings = parse_settings(
        [
            f"flush={flush}",
            "flush_interval_s=0.01",
            "heartbeat_s=0.03",
            "election_timeout_s_min=0.15",
            "election_timeout_s_max=0.3",
        ]
    )
    async with local_cluster(tmp_path, 3, settings) as cluster:
        leader = await cluster.leader()
        for turn in range(20):
            assert (await leader.append([b"x"])).base_offset == turn


async def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    members = {number: ("127.0.0.1", port) for number, port in enumerate(free_ports(2), 1)}
    async with RaftGroup.open(node_id=1, members=members, directory=str(tmp_path)):
        pass
    with pytest.raises(WrongDirectory, match="belongs to node 1 of cluster 'quorumlog'"):
        async with RaftGroup.open(node_id=2, members=members, directory=str(tmp_path)):
            pass


async def test_a_node_does_not_start_with_other_members_than_before_but_with_other_addresses(tmp_path: Path) -> None:
    one, two, three = (("127.0.0.1", port) for port in free_ports(3))
    async with RaftGroup.open(node_id=1, members={1: one, 2: two}, directory=str(tmp_path)):
        pass
    for others in ({1: one}, {1: one, 3: three}, {1: one, 2: two, 3: three}):
        with pytest.raises(WrongMembers, match="is made of nodes 1, 2, not of 1"):
            async with RaftGroup.open(node_id=1, members=others, directory=str(tmp_path)):
                pass
    async with RaftGroup.open(node_id=1, members={2: three, 1: one}, directory=str(tmp_path)) as group:
        assert group.status()["voters"] == [1, 2]


async def test_a_node_must_be_among_the_members(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not among the members"):
        async with RaftGroup.open(node_id=3, members={1: ("127.0.0.1", 1)}, directory=str(tmp_path)):
            pass


async def test_a_failed_disk_ends_the_group() -> None:
    disk = MemoryDisk(random.Random(1))
    (port,) = free_ports(1)
    with pytest.RaisesGroup(StorageFailed, flatten_subgroups=True):
        async with RaftGroup.open(
            node_id=1, members={1: ("127.0.0.1", port)}, directory="node", settings=NodeSettings(raft=FAST), disk=disk
        ) as group:
            await until(lambda: group.status()["role"] == "leader")
            await group.append([b"fine"])
            disk.fail_call(1)
            await group.append([b"not fine"])


async def test_when_the_disk_fails_calls_from_outside_the_block_end_unknown_and_later_ones_are_refused() -> None:
    disk = MemoryDisk(random.Random(1))
    members = {1: ("127.0.0.1", free_ports(1)[0])}
    write, read = msgpack.packb(["w", "key", 1]), msgpack.packb(["r", "key"])
    unknown: list[OutcomeUnknown] = []

    async def call(make: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(OutcomeUnknown, match="the node has failed") as caught:
            await make()
        unknown.append(caught.value)

    async def all_are_refused(group: RaftGroup) -> None:
        calls = (
            group.append([b"x"]),
            group.apply(write),
            group.read(0),
            group.read(1),
            group.tail(),
            group.query(read),
        )
        for made in calls:
            with pytest.raises(ShuttingDown):
                await made

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            with pytest.RaisesGroup(StorageFailed, flatten_subgroups=True):
                async with RaftGroup.open(
                    node_id=1, members=members, directory="node", settings=NodeSettings(raft=FAST), disk=disk
                ) as group:
                    await knows(group, role="leader", commit_index=1)
                    await group.append([b"fine"])
                    disk.failing = True
                    nursery.start_soon(call, lambda: group.append([b"not fine"]))
                    nursery.start_soon(call, lambda: group.apply(write))
                    try:
                        await trio.sleep_forever()
                    finally:
                        # Cleaning up within the block may wait for tasks outside of it.
                        with trio.fail_after(20, shield=True):
                            await until(lambda: len(unknown) == 2)
                            await all_are_refused(group)
            await all_are_refused(group)


LEADER = NodeId(2)


@attrs.define
class Receiver:
    """A node whose peer sends on as many connections as a test wants."""

    group: RaftGroup
    lost: list[NodeId] = attrs.field(factory=list)
    """The peers reported as disconnected, in this order."""
    told: list[tuple[str, dict[str, object]]] = attrs.field(factory=list)
    _term: int = 0

    async def greet(self) -> trio.SocketStream:
        """A connection of the peer that has sent nothing yet."""
        stream = await trio.open_tcp_stream(*self.group.address)
        await stream.send_all(encode_hello(Hello("quorumlog", PEER, LEADER)))
        assert await stream.receive_some()
        return stream

    async def speak(self, stream: trio.SocketStream) -> None:
        """Send a heartbeat of the peer as the leader of the next term, and wait until it is processed."""
        self._term += 1
        heartbeat = AppendEntries(Term(self._term), LogIndex(0), Term(0), LogIndex(0), 0)
        await stream.send_all(b"".join(encode_message(heartbeat)))
        await knows(self.group, term=self._term, leader=LEADER)

    async def end(self, stream: trio.SocketStream) -> list[NodeId]:
        """Close a connection. Returns the peers reported as disconnected once the node has noticed."""
        connections = self.group._member.doorkeeper.listener.connections
        await stream.aclose()
        await until(lambda: self.group._member.doorkeeper.listener.connections < connections)
        return self.lost


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    members = {number: ("127.0.0.1", port) for number, port in enumerate(free_ports(2), 1)}
    told: list[tuple[str, dict[str, object]]] = []
    async with FoundedGroup.open(
        node_id=1,
        members=members,
        directory="node",
        settings=NodeSettings(
            raft=RaftConfig(heartbeat_s=60, election_timeout_s_min=120, election_timeout_s_max=121), flush_stall_s=60
        ),
        disk=MemoryDisk(random.Random(1)),
        notify=lambda notice: told.append(event_of(notice)),
    ) as group:
        receiver = Receiver(group, told=told)
        monkeypatch.setattr(group._driver, "on_disconnected", receiver.lost.append)
        yield receiver


async def test_the_end_of_a_stale_connection_of_a_peer_is_no_news_but_that_of_the_one_in_use_is(
    receiver: Receiver,
) -> None:
    stale, in_use = await receiver.greet(), await receiver.greet()
    await receiver.speak(stale)
    await receiver.speak(in_use)
    assert await receiver.end(stale) == []
    assert await receiver.end(in_use) == [LEADER]


async def test_the_end_of_the_connection_in_use_is_news_though_a_stale_one_seems_open(receiver: Receiver) -> None:
    stale, in_use = await receiver.greet(), await receiver.greet()
    await receiver.speak(stale)
    await receiver.speak(in_use)
    assert await receiver.end(in_use) == [LEADER]
    await stale.aclose()


async def test_the_end_of_a_connection_that_said_nothing_is_no_news_unless_it_is_the_only_one(
    receiver: Receiver,
) -> None:
    in_use, silent = await receiver.greet(), await receiver.greet()
    await receiver.speak(in_use)
    assert await receiver.end(silent) == []
    assert await receiver.end(in_use) == [LEADER]
    assert await receiver.end(await receiver.greet()) == [LEADER, LEADER]


async def test_a_stale_connection_that_makes_room_for_a_newer_one_is_no_news(receiver: Receiver) -> None:
    streams = [await receiver.greet() for _ in range(PEER_CONNECTIONS_MAX)]
    for stream in streams:
        await receiver.speak(stream)
    streams.append(await receiver.greet())
    assert [fields["reason"] for event, fields in receiver.told if event == "connection_closed"] == [
        "replaced by newer connections of the same peer"
    ]
    assert receiver.lost == []
    for stream in streams:
        await stream.aclose()


class GatedDisk(MemoryDisk):
    """Its syncs wait at a gate, in the flush thread."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.gate = threading.Event()
        self.gate.set()
        self.waits = threading.Event()
        self.before_call = self._wait

    def _wait(self, operation: str, path: str) -> None:
        if operation == "sync":
            self.waits.set()
            self.gate.wait()


async def test_a_flush_by_interval_comes_in_time_though_nothing_else_happens() -> None:
    disk = GatedDisk()
    (port,) = free_ports(1)
    patient = RaftConfig(heartbeat_s=60, election_timeout_s_min=120, election_timeout_s_max=121)
    settings = NodeSettings(raft=patient, flush=FlushPolicy.INTERVAL, flush_interval_s=0.05, flush_stall_s=60)
    async with RaftGroup.open(
        node_id=1, members={1: ("127.0.0.1", port)}, directory="node", settings=settings, disk=disk
    ) as group:
        group.campaign()
        await knows(group, role="leader", commit_index=1)
        for _ in range(3):  # the first may ride on the flush of the election
            disk.waits.clear()
            await group.append([b"one"])
            with trio.fail_after(30):
                await until(disk.waits.is_set)


async def test_an_append_that_waited_for_the_one_before_it_does_not_wait_for_a_heartbeat() -> None:
    disk = GatedDisk()
    (port,) = free_ports(1)
    patient = RaftConfig(heartbeat_s=60, election_timeout_s_min=120, election_timeout_s_max=121)
    settings = NodeSettings(raft=patient, flush_stall_s=60)
    async with RaftGroup.open(
        node_id=1, members={1: ("127.0.0.1", port)}, directory="node", settings=settings, disk=disk
    ) as group:
        group.campaign()
        await knows(group, role="leader", durable_index=1)
        disk.gate.clear()
        disk.waits.clear()
        try:
            with trio.fail_after(30):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(group.append, [b"one"])
                    await until(disk.waits.is_set)
                    nursery.start_soon(group.append, [b"two"])
                    await wait_all_tasks_blocked()
                    disk.gate.set()
        finally:
            disk.gate.set()  # a thread that waits without end would keep the process from ending
        assert group.status()["committed_end"] == 2


async def test_whoever_reads_a_whole_log_lets_the_node_live_meanwhile(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 1) as cluster:
        leader = await cluster.leader()
        await leader.append([b"x"])
        with assert_checkpoints():
            await leader.read(0)


@pytest.mark.parametrize(
    ("members", "cluster_id", "says"),
    [
        ({0: ("127.0.0.1", 1), 1: ("127.0.0.1", 2)}, "c", "the ids of nodes are 1 to 2147483647"),
        ({1: ("127.0.0.1", 1), 2**31: ("127.0.0.1", 2)}, "c", "the ids of nodes are 1 to 2147483647"),
        ({1: ("127.0.0.1", 1)}, "", "a cluster id has 1 to 256 characters"),
        ({1: ("127.0.0.1", 1)}, 257 * "c", "a cluster id has 1 to 256 characters"),
    ],
)
async def test_a_group_that_cannot_be_is_refused_before_its_directory_is_claimed(
    members: dict[int, tuple[str, int]], cluster_id: str, says: str
) -> None:
    disk = MemoryDisk(random.Random(1))
    with pytest.raises(ValueError, match=says):
        async with RaftGroup.open(node_id=1, members=members, directory="d", cluster_id=cluster_id, disk=disk):
            pass
    assert not disk.exists("d")

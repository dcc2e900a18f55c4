"""The controllers are a raft group on the brokers' ports: its members, and who leads, change by raft's own client."""

import pytest
import trio

from jepsen_like.operate.log import GroupAccess
from jepsen_like.operate.members import Operator
from jepsen_like.operate.outcomes import NotDone
from kafka_compat.controller.commands import AllocateProducerIds, encode_command
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.client import Client
from raft.errors import Busy, OutcomeUnknown
from raft.membership import AddLearner, Change, Promote, Remove
from tests.kafka_compat.broker.cluster import Cluster, cluster

NONE = KafkaErrorCode.NONE


def raft_client(brokers: Cluster) -> Client:
    addresses = [f"{host}:{port}" for host, port in brokers.addresses.values()]
    return Client(addresses, "c", retry_pause_s=0.01, secret=brokers.secret)


async def change(brokers: Cluster, step: Change) -> None:
    """Make a change of the members; asked for again, it does no harm."""
    async with raft_client(brokers) as client:
        while True:
            try:
                await client.change_members(step)
                return
            except (OutcomeUnknown, Busy):
                continue


async def put(brokers: Cluster, topic: str, value: bytes) -> None:
    """Produce one value with acks=all; a refusal is tried again."""
    error = KafkaErrorCode.NOT_LEADER_OR_FOLLOWER
    while error is not NONE:
        async with brokers.client(brokers.state(topic).leader) as client:
            error, _ = await client.produce(topic, value)
        assert error in (NONE, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, KafkaErrorCode.NOT_ENOUGH_REPLICAS), error


async def lead_with(brokers: Cluster, broker: int) -> None:
    """Hand over; an attempt that came to nothing is made again."""
    async with raft_client(brokers) as client:
        while (await client.status())["leader"] != broker:
            try:
                await client.transfer_leadership(broker)
            except OutcomeUnknown:
                continue


async def test_another_controller_leads_when_it_is_asked_to_and_topics_are_made_as_before() -> None:
    async with cluster() as brokers:
        for broker in (1, 2, 3):
            await lead_with(brokers, broker)
            async with brokers.client(broker) as client:
                assert await client.create(f"t{broker}", 3) is NONE
        await brokers.until(lambda: all(brokers.knows(f"t{broker}") for broker in (1, 2, 3)))


async def test_a_controller_becomes_a_learner_and_a_voter_again_while_its_broker_serves() -> None:
    async with cluster() as brokers:
        async with raft_client(brokers) as client:
            for broker in (1, 2, 3):
                await client.change_members(AddLearner(broker))
                async with brokers.client(broker) as kafka:
                    assert await kafka.create(f"t{broker}", 3) is NONE
                await client.change_members(Promote(broker))
            assert (await client.status())["voters"] == [1, 2, 3]
        await brokers.until(lambda: all(brokers.knows(f"t{broker}") for broker in (1, 2, 3)))


async def test_a_broker_that_joins_is_found_by_the_others_serves_and_takes_the_place_of_the_controller() -> None:
    async with cluster(2) as brokers:
        async with brokers.client(1) as client:
            assert await client.create("before", 2) is NONE
        await put(brokers, "before", b"1")
        await change(brokers, AddLearner(3, await brokers.join(3)))
        await brokers.running[3].broker.serving.wait()
        async with brokers.client(2) as client:
            assert await client.create("on-all", 3, min_insync_replicas="3") is NONE
        await brokers.until(lambda: all(brokers.running[each].broker.image.topics.get("on-all") for each in (1, 2, 3)))
        await put(brokers, "on-all", b"on three disks")
        await change(brokers, Promote(3))
        await lead_with(brokers, 3)
        await change(brokers, AddLearner(1))  # its broker stays
        await change(brokers, Remove(2))
        await brokers.kill(2)
        async with brokers.client(1) as client:
            assert await client.create("by-the-new-controller", 2) is NONE
        await brokers.until(lambda: brokers.state("before").leader in (1, 3))
        async with brokers.client(brokers.state("before").leader) as client:
            assert await client.values("before") == [b"1"]
        for broker in (1, 3):  # with the flags of the beginning
            await brokers.kill(broker)
            await brokers.start(broker)
        await brokers.running[1].broker.serving.wait()
        async with brokers.client(1) as client:
            assert await client.create("after", 2) is NONE


async def test_a_broker_that_has_copies_does_not_leave() -> None:
    async with cluster() as brokers:
        async with brokers.client(1) as kafka:
            assert await kafka.create("t", 3, 2) is NONE
        access = GroupAccess(tuple(brokers.addresses.values()), "c", 5.0, secret=brokers.secret)
        async with access.client() as client:
            operator = Operator(access, client, "quorumlog member remove 3")
            with pytest.raises(
                NotDone, match=r"node 3 is still needed.*copies of 2 partitions.*reassign --replace 3=ID"
            ):
                await operator.remove(3)
            assert (await operator.members()).voters == [1, 2, 3]
            async with brokers.client(1) as kafka:
                assert await kafka.delete("t") is NONE
            await operator.remove(3)
            assert (await operator.members()).voters == [1, 2]


async def test_a_broker_that_began_with_a_tail_that_is_gone_becomes_the_controller() -> None:
    """Its first entry as the leader has an index that its log had already when it began."""
    async with cluster() as brokers:
        old = next(number for number, each in brokers.running.items() if each.broker._parts.node.leads)
        group = brokers.running[old].broker._group
        assert group is not None
        others = [each for each in (1, 2, 3) if each != old]
        for each in others:
            await brokers.kill(each)
        log = group._driver.core.log
        tail_end = log.last_index + 100
        while log.last_index < tail_end:
            group.propose(encode_command(AllocateProducerIds(old, 0)), lambda outcome: None)
            await trio.sleep(0.002)
        await brokers.kill(old)
        for each in others:
            await brokers.start(each)
        await brokers.until(lambda: any(each.broker._parts.node.leads for each in brokers.running.values()))
        await brokers.start(old)
        await brokers.running[old].broker.serving.wait()
        leader = next(each.broker for each in brokers.running.values() if each.broker._parts.node.leads)
        assert leader._group is not None
        await leader._group.transfer_leadership(old)
        await brokers.until(lambda: brokers.running[old].broker._parts.node.leads, within_s=3)

"""The controllers are a raft group on the brokers' ports: its members, and who leads, change by raft's own client."""

from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.client import Client
from raft.errors import OutcomeUnknown
from raft.membership import AddLearner, Promote
from tests.kafka_compat.broker.cluster import Cluster, cluster

NONE = KafkaErrorCode.NONE


def raft_client(brokers: Cluster) -> Client:
    addresses = [f"{host}:{port}" for host, port in brokers.addresses.values()]
    return Client(addresses, "c", retry_pause_s=0.01, secret=brokers.secret)


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

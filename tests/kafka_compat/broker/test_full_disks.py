"""Full disks on some brokers of a cluster: no broker ends, no leader is unseated, and all go on when there is room."""

from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.broker.cluster import Cluster, cluster

NONE = KafkaErrorCode.NONE
FULL = KafkaErrorCode.KAFKA_STORAGE_ERROR
LARGE = bytes(300_000)


def fill(brokers: Cluster, *names: int) -> None:
    for name in names:
        brokers.disks[name].capacity_bytes = brokers.disks[name].used_bytes()


def make_room(brokers: Cluster) -> None:
    for disk in brokers.disks.values():
        disk.capacity_bytes = None


def full_events(brokers: Cluster) -> set[int]:
    return {broker for broker, event, _ in brokers.events if event == "storage_full"}


async def test_a_majority_of_full_disks_unseats_no_leader_and_ends_no_broker() -> None:
    async with cluster(3) as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: any(brokers.leads(each, "t") for each in (1, 2, 3)))
        leader = next(each for each in (1, 2, 3) if brokers.leads(each, "t"))
        other = next(each for each in (1, 2, 3) if each != leader)
        epoch, controllers = brokers.state("t").leader_epoch, len(controller_changes(brokers))
        async with brokers.client(leader) as client:
            assert await client.produce("t", b"before") == (NONE, 0)
            fill(brokers, leader, other)
            kept = 1
            for _ in range(20):
                code, offset = await client.produce("t", LARGE)
                if code is NONE:  # into what was reserved before
                    kept += 1
                else:
                    assert (code, offset) == (FULL, -1)
            assert await client.produce("t", LARGE) == (FULL, -1)
            assert len(await client.values("t")) == kept, "reads go on"
            assert set(brokers.running) == {1, 2, 3}
            assert (brokers.state("t").leader, brokers.state("t").leader_epoch) == (leader, epoch)
            assert len(controller_changes(brokers)) <= controllers + 1
            assert leader in full_events(brokers)
            make_room(brokers)
            assert await client.produce("t", LARGE) == (NONE, kept)
        await brokers.until(lambda: set(brokers.state("t").isr) == {1, 2, 3})


def controller_changes(brokers: Cluster) -> list[int]:
    return [broker for broker, event, fields in brokers.events if event == "controller" and fields.get("leads", True)]


async def test_a_follower_without_room_leaves_the_isr_and_comes_back_with_room() -> None:
    async with cluster(2) as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 2) is NONE
        await brokers.until(lambda: any(brokers.leads(each, "t") for each in (1, 2)))
        leader, follower = (1, 2) if brokers.leads(1, "t") else (2, 1)
        async with brokers.client(leader) as client:
            assert await client.produce("t", b"before") == (NONE, 0)
            fill(brokers, follower)
            for offset in range(1, 9):
                assert await client.produce("t", LARGE, acks=1) == (NONE, offset)
            await brokers.until(lambda: follower in full_events(brokers))
            make_room(brokers)
            assert await client.produce("t", b"after", acks=-1) == (NONE, 9)
        await brokers.until(lambda: set(brokers.state("t").isr) == {1, 2})
        assert set(brokers.running) == {1, 2}


async def test_a_topic_that_finds_no_room_on_a_broker_is_made_there_later() -> None:
    async with cluster(2) as brokers, brokers.client(1) as client:
        assert await client.create("first", 2) is NONE
        fill(brokers, 2)
        brokers.disks[2].capacity_bytes = 0
        assert await client.create("t", 2) is NONE
        await brokers.until(lambda: 2 in full_events(brokers))
        make_room(brokers)
        replicas = brokers.running[2].broker._parts.replicas
        await brokers.until(lambda: replicas.by_name("t", 0) is not None)
        await brokers.until(lambda: set(brokers.state("t").isr) == {1, 2})

"""Three brokers in one process: what was acknowledged survives, and clients cannot end a broker."""

import random
import uuid

import attrs
import pytest
import trio

from kafka_compat.config_keys import RACK_AWARE
from kafka_compat.model import NO_LEADER
from kafka_compat.protocol.api import RequestHeader
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH, OffsetFetchGroup, OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records
from raft.net.running_clock import RunningClock
from tests.kafka_compat.broker.cluster import Client, Cluster, cluster

NONE = KafkaErrorCode.NONE


async def test_what_all_replicas_acknowledged_survives_the_end_of_the_leader() -> None:
    async with cluster() as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        old = brokers.state("t").leader
        async with brokers.client(old) as client:
            for number in range(20):
                assert await client.produce("t", b"%d" % number) == (NONE, number)
        await brokers.kill(old)
        await brokers.until(lambda: brokers.state("t").leader not in (old, NO_LEADER))
        new = brokers.state("t").leader
        async with brokers.client(new) as client:
            await brokers.until(lambda: brokers.leads(new, "t"))
            assert (await client.produce("t", b"after"))[0] is NONE
            assert await client.values("t") == [b"%d" % number for number in range(20)] + [b"after"]
        await brokers.start(old)
        await brokers.until(lambda: len(brokers.state("t").isr) == 3)


async def test_with_before_ack_a_power_cut_of_all_brokers_loses_nothing() -> None:
    async with cluster(flush="before-ack") as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        async with brokers.client(brokers.state("t").leader) as client:
            for number in range(5):
                assert await client.produce("t", b"%d" % number) == (NONE, number)
        # The disks as a power cut at this moment leaves them.
        cut = {each: disk.after_crash(random.Random(each)) for each, disk in brokers.disks.items()}
        for broker in (1, 2, 3):
            await brokers.kill(broker)
        brokers.disks = cut
        for broker in (1, 2, 3):
            await brokers.start(broker)
        for running in list(brokers.running.values()):
            await running.broker.serving.wait()
        await brokers.until(lambda: brokers.state("t").leader != NO_LEADER)
        leader = brokers.state("t").leader
        await brokers.until(lambda: brokers.leads(leader, "t"))
        async with brokers.client(leader) as client:
            assert (await client.produce("t", b"after"))[0] is NONE
            assert await client.values("t") == [b"0", b"1", b"2", b"3", b"4", b"after"]


async def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there_what_is_committed() -> None:
    async with cluster(broker_rack="rack-{broker}", replica_selector_class=RACK_AWARE) as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        leader = brokers.state("t").leader
        follower = next(each for each in (1, 2, 3) if each != leader)
        async with brokers.client(leader) as client, brokers.client(follower) as near:
            assert (await client.produce("t", b"0"))[0] is NONE
            await brokers.until(lambda: len(brokers.state("t").isr) == 3)

            async def read(reader: Client, version: int, rack: str) -> tuple[int, int, int]:
                partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
                topic = FetchTopic(topic="t", partitions=(partition,))
                request = FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=(topic,), rack_id=rack)
                found = (await reader.ask(FETCH, version, request)).responses[0].partitions[0]
                return found.error_code, found.preferred_read_replica, len(found.records)

            assert (await read(client, 12, f"rack-{follower}"))[1:] == (follower, 0)
            for rack in ("", f"rack-{leader}", "elsewhere"):
                assert (await read(client, 12, rack))[1] == -1
            error, preferred, size = await read(near, 12, f"rack-{follower}")
            assert (error, preferred, size > 0) == (NONE, -1, True)
            told = [(number, fields["times"]) for number, event, fields in brokers.events if event == "follower_reads"]
            assert told == [(follower, 1)]
            assert (await read(near, 10, ""))[0] == KafkaErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_controlled_shutdown_moves_leaderships_first() -> None:
    async with cluster() as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        leader = brokers.state("t").leader
        assert await brokers.running[leader].broker.shut_down()
        assert brokers.state("t").leader not in (leader, NO_LEADER)
        assert leader not in brokers.state("t").isr


async def test_a_controller_that_stops_fences_no_broker_whose_connection_it_ends() -> None:
    async with cluster() as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        (controller,) = (number for number, each in brokers.running.items() if each.broker._parts.node.leads)
        assert await brokers.running[controller].broker.shut_down()
        await brokers.kill(controller)
        proposed = [fields for number, event, fields in brokers.events if (number, event) == (controller, "proposes")]
        assert [fields["reason"] for fields in proposed if fields["command"] == "FenceBroker"] == [
            f"broker {controller}: its controlled shutdown is complete"
        ]


async def test_clients_are_told_of_brokers_even_if_all_are_fenced() -> None:
    """librdkafka drops every address that an answer does not have, and would be left without any."""
    async with cluster() as brokers:
        broker = brokers.running[1].broker
        image = broker.image
        await brokers.until(lambda: [each.id for each in broker._context.live_brokers()] == [1, 2, 3])
        registered = dict(image.brokers)
        image.brokers[2] = attrs.evolve(registered[2], fenced=True)
        assert [each.id for each in broker._context.live_brokers()] == [1, 3]
        image.brokers.update({each: attrs.evolve(known, fenced=True) for each, known in registered.items()})
        async with brokers.client(1) as client:
            answer = await client.ask(METADATA, 12, MetadataRequest(topics=None))
        assert {(each.node_id, (each.host, each.port)) for each in answer.brokers} == set(brokers.addresses.items())
        image.brokers.clear()
        (own,) = broker._context.live_brokers()
        assert (own.id, (own.host, own.port)) == (1, brokers.addresses[1])
        image.brokers.update(registered)


async def test_a_topic_made_again_at_once_is_replicated() -> None:
    async with cluster() as brokers, brokers.client(1) as client:
        for attempt in range(3):
            assert await client.create("t", 3) is NONE
            await brokers.until(
                lambda: all(each.broker._parts.replicas.by_name("t", 0) for each in brokers.running.values())
            )
            leader = brokers.state("t").leader
            async with brokers.client(leader) as writer:
                with trio.fail_after(15):
                    assert await writer.produce("t", b"%d" % attempt) == (NONE, 0)
            assert await client.delete("t") is NONE


async def test_a_client_that_sends_far_ahead_cannot_end_a_broker() -> None:
    """It sends more requests than are taken at once, with fetches among them, which are served when a produce is
    answered.
    """
    async with cluster() as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        leader = brokers.state("t").leader
        batch = encode_records([(None, b"v")], 1)
        produce = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=(ProduceTopic(name="t", partition_data=(ProducePartition(index=0, records=batch),)),),
        )
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(partition,)),))
        frames = b""
        for number in range(300):
            if number % 3 == 2:
                pieces = FETCH.encode_request(RequestHeader(FETCH.key, 12, number, "x"), fetch)
            else:
                pieces = PRODUCE.encode_request(RequestHeader(PRODUCE.key, 9, number, "x"), produce)
            frames += b"".join(map(bytes, pieces))
        stream = await trio.open_tcp_stream(*brokers.addresses[leader])
        await stream.send_all(frames)
        received = b""
        answered: list[int] = []
        with trio.fail_after(10):
            while len(answered) < 300:
                received += await stream.receive_some(1 << 16)
                while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4]):
                    answered.append(int.from_bytes(received[4:8]))
                    received = received[4 + int.from_bytes(received[:4]) :]
        assert answered == list(range(300))
        assert len(brokers.running) == 3
        await stream.aclose()


@pytest.mark.parametrize("count", [1, 5])
async def test_clusters_of_other_sizes_serve(count: int) -> None:
    async with cluster(count) as brokers, brokers.client(1) as client:
        assert await client.create("t", count) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        async with brokers.client(brokers.state("t").leader) as writer:
            assert await writer.produce("t", b"x") == (NONE, 0)


async def test_a_broker_that_knows_nothing_yet_lets_clients_wait() -> None:
    """Otherwise the broker would answer that the client's topics do not exist."""
    async with trio.open_nursery() as nursery:
        brokers = Cluster(nursery, 3, {})
        await brokers.start(1)
        async with brokers.client(1) as client:
            answers = []

            async def ask() -> None:
                answers.append(await client.ask(METADATA, 9, MetadataRequest(topics=None), timeout_s=30))

            async with trio.open_nursery() as asking:
                asking.start_soon(ask)
                for _ in range(10):
                    await trio.sleep(0.01)
                assert answers == []
                await brokers.start(2)
                await brokers.start(3)
            assert answers[0].brokers is not None
            assert brokers.running[1].broker._parts.hosting.began
        for running in list(brokers.running.values()):
            await running.kill()


async def test_a_broker_without_a_controller_stops_at_once() -> None:
    async with trio.open_nursery() as nursery:
        brokers = Cluster(nursery, 3, {})
        await brokers.start(1)
        with trio.fail_after(20):
            assert not await brokers.running[1].broker.shut_down(within_s=60)
        await brokers.kill(1)


@pytest.mark.parametrize("unclean", ["true", "false"])
async def test_only_an_unclean_election_makes_a_replica_lead_that_was_out_of_sync(unclean: str) -> None:
    async with cluster() as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 2, unclean_leader_election_enable=unclean) is NONE
        leader, follower = (
            brokers.state("t").leader,
            next(each for each in brokers.state("t").replicas if each != brokers.state("t").leader),
        )
        async with brokers.client(leader) as client:
            assert (await client.produce("t", b"both"))[0] is NONE
            await brokers.kill(follower)
            await brokers.until(lambda: brokers.state("t").isr == (leader,))
            assert (await client.produce("t", b"one"))[0] is NONE
        await brokers.kill(leader)
        await brokers.start(follower)
        await brokers.running[follower].broker.serving.wait()
        if unclean == "true":
            await brokers.until(lambda: brokers.leads(follower, "t"))
            async with brokers.client(follower) as client:
                assert (await client.produce("t", b"new"))[0] is NONE
                assert await client.values("t") == [b"both", b"new"]
        else:
            assert brokers.state("t").leader == NO_LEADER
            await brokers.start(leader)
            await brokers.until(lambda: brokers.running[leader].broker.serving.is_set() and brokers.leads(leader, "t"))
            async with brokers.client(leader) as client:
                assert await client.values("t") == [b"both", b"one"]


async def test_a_broker_that_stood_still_sends_a_heartbeat_as_soon_as_it_notices() -> None:
    long = {
        "broker_heartbeat_interval_ms": "60000",
        "broker_session_timeout_ms": "120000",
        "broker_silence_timeout_ms": "120000",
    }
    async with cluster(1, **long) as brokers:
        parts = brokers.running[1].broker._parts
        clock = parts.context.clock
        assert isinstance(clock, RunningClock)
        await brokers.until(lambda: parts.registration.deadline > clock() + 30)
        before = parts.registration._beats
        ran = clock()
        clock._clock = lambda: trio.current_time() + 50
        await brokers.until(lambda: parts.registration._beats > before)
        assert clock() < ran + 30, "fifty seconds of standing still are no time in which others were silent"


async def test_a_group_that_is_named_twice_is_answered_twice_each_time_with_its_own_topics() -> None:
    """A topic without a name is answered where it was asked for, and nowhere else: else an answer grows with the square."""
    strangers = [uuid.UUID(int=number).bytes for number in (1, 2)]
    groups = tuple(
        OffsetFetchGroup(group_id="g", topics=(OffsetFetchTopic(topic_id=each, partition_indexes=(0,)),))
        for each in strangers
    )
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    async with cluster(1, **settings) as brokers, brokers.client(1) as client:
        found = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
        with trio.fail_after(20):
            while (await client.ask(FIND_COORDINATOR, 4, found)).coordinators[0].error_code != NONE:
                await trio.lowlevel.checkpoint()
        answer = await client.ask(OFFSET_FETCH, 10, OffsetFetchRequest(groups=groups))
        assert [[topic.topic_id for topic in each.topics] for each in answer.groups] == [[each] for each in strangers]

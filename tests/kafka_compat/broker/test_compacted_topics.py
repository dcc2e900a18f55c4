"""A topic of a user with `cleanup.policy=compact` on three brokers: the last value of each key stays, in every copy."""

import random

from kafka_compat.model import NO_LEADER
from kafka_compat.protocol.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import KafkaRecord, encode_records, read_records
from tests.kafka_compat.broker.cluster import Client, Cluster, cluster

NONE = KafkaErrorCode.NONE
BATCHES, IN_BATCH, KEYS = 60, 10, 12


async def put(client: Client, pairs: list[tuple[bytes | None, bytes | None]]) -> KafkaErrorCode:
    topic = ProduceTopic(name="t", partition_data=(ProducePartition(index=0, records=encode_records(pairs, 1)),))
    answer = await client.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(topic,)))
    return KafkaErrorCode(answer.responses[0].partition_responses[0].error_code)


async def read_from(client: Client, offset: int) -> list[KafkaRecord]:
    """The records that one fetch returns, from the asked offset on."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(partition,)),))
    answer = (await client.ask(FETCH, 12, request)).responses[0].partitions[0]
    assert answer.error_code == NONE
    found: list[KafkaRecord] = []
    content = memoryview(answer.records or b"")
    while content:
        size = 12 + int.from_bytes(content[8:12], "big")
        found += [each for each in read_records(content[:size]) if each.offset >= offset]
        content = content[size:]
    return found


def is_compacted(brokers: Cluster, broker: int) -> bool:
    hosted = brokers.running[broker].broker._parts.replicas.by_name("t", 0)
    if hosted is None:
        return False
    held = sum(header.count for header in hosted.log.headers())
    return hosted.log.end_offset == BATCHES * IN_BATCH and held < BATCHES * IN_BATCH / 2


async def test_the_last_value_of_each_key_stays_in_every_copy_and_through_restarts() -> None:
    rng = random.Random(3)
    table: dict[bytes, bytes | None] = {}
    offsets: dict[bytes, int] = {}
    async with cluster(log_cleaner_backoff_ms="100") as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3, cleanup_policy="compact", segment_bytes="4096") is NONE
        await brokers.until(lambda: brokers.knows("t"))
        leader = brokers.state("t").leader
        async with brokers.client(leader) as client:
            await brokers.until(lambda: brokers.leads(leader, "t"))
            for number in range(BATCHES):
                keys = [b"k%d" % rng.randrange(KEYS) for _ in range(IN_BATCH)]
                pairs = [(key, None if rng.random() < 0.1 else b"%d" % number + bytes(80)) for key in keys]
                assert await put(client, list(pairs)) is NONE
                table.update(pairs)
                offsets |= {key: number * IN_BATCH + at for at, key in enumerate(keys)}
            assert await put(client, [(b"k", b"v"), (None, b"v")]) is KafkaErrorCode.INVALID_RECORD
            part = DeleteRecordsPartition(partition_index=0, offset=5)
            asked = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(part,)),), timeout_ms=5000)
            (refused,) = (await client.ask(DELETE_RECORDS, 2, asked)).topics
            assert refused.partitions[0].error_code == KafkaErrorCode.POLICY_VIOLATION
        await brokers.until(lambda: all(is_compacted(brokers, each) for each in (1, 2, 3)))

        async def check(broker: int) -> None:
            async with brokers.client(broker) as client:
                await brokers.until(lambda: brokers.leads(broker, "t"))
                found = await read_from(client, 0)
                assert [each.offset for each in found] == sorted({each.offset for each in found})
                assert {each.key: each.value for each in found} == table
                assert {each.key: each.offset for each in found} == offsets
                for offset in range(0, BATCHES * IN_BATCH, 37):  # what is gone is passed over
                    first = next(each.offset for each in found if each.offset >= offset)
                    assert (await read_from(client, offset))[0].offset == first

        await check(leader)
        await brokers.kill(leader)
        await brokers.until(lambda: brokers.state("t").leader not in (leader, NO_LEADER))
        await check(brokers.state("t").leader)
        for broker in list(brokers.running):
            await brokers.kill(broker)
        for broker in (1, 2, 3):
            await brokers.start(broker)
        await brokers.until(lambda: brokers.knows("t") and len(brokers.state("t").isr) == 3)
        await check(brokers.state("t").leader)

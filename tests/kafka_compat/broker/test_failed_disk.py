"""A disk that fails ends the broker, and a full one does not; what is on it afterwards is true."""

import random
from contextlib import suppress
from typing import Any

import attrs
import pytest
import trio

from kafka_compat.broker.broker import Broker, BrokerPlan
from kafka_compat.broker.peers import PeerClient, PeerFailed
from kafka_compat.config import Settings
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.batch_header import HEADER_BYTES, encode_batch_header, read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records
from log.errors import StorageError, StorageFailed
from log.memory_disk import MemoryDisk
from raft.net.running_clock import RunningClock
from raft.process import first_cause
from tests.kafka_compat.broker.cluster import QUICK, Client
from tests.ports import free_addresses

NONE = KafkaErrorCode.NONE


def of_producer(sequence: int) -> bytes:
    """A batch of 40 kB of the idempotent producer 5."""
    plain = encode_records([(None, bytes(40_000))], 1)
    header = attrs.evolve(read_batch_header(plain), producer_id=5, producer_epoch=0, base_sequence=sequence)
    return encode_batch_header(header, plain[HEADER_BYTES:]) + plain[HEADER_BYTES:]


async def produce(client: Client, sequence: int) -> tuple[KafkaErrorCode, int]:
    partition = ProducePartition(index=0, records=of_producer(sequence))
    topics = (ProduceTopic(name="t", partition_data=(partition,)),)
    answer = await client.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics))
    one = answer.responses[0].partition_responses[0]
    return KafkaErrorCode(one.error_code), one.base_offset


async def run(disk: MemoryDisk, work: Any, **settings: str) -> None:
    """Run a cluster of one broker until `work(client)` has ended."""
    assignments = {**QUICK, "default.replication.factor": "1", **settings}
    plan = BrokerPlan(
        cluster_id="c",
        broker_id=1,
        listen=free_addresses(1)[0],
        data="data",
        settings=Settings.from_assignments([f"{name}={value}" for name, value in assignments.items()]),
    )
    with trio.fail_after(20):
        async with Broker.open(plan, disk=disk, rng=random.Random(1)) as broker:
            await broker.serving.wait()
            async with trio.open_nursery() as nursery:
                peer = PeerClient(
                    broker._reactor, broker.address, "client", RunningClock(trio.current_time), random.Random(5)
                )
                nursery.start_soon(peer.run)
                await work(Client(peer))
                nursery.cancel_scope.cancel()


async def ended_by(disk: MemoryDisk, work: Any, **settings: str) -> BaseException:
    """Returns what ended the broker."""
    try:
        await run(disk, work, **settings)
    except BaseExceptionGroup as group:
        return first_cause(group)
    raise AssertionError("the broker did not end")


@pytest.mark.parametrize("flush", ["page-cache", "before-ack"])
async def test_a_batch_that_meets_a_full_disk_is_refused_for_certain_and_fits_later(flush: str) -> None:
    disk = MemoryDisk(random.Random(1))
    confirmed = -1

    async def fill(client: Client) -> None:
        nonlocal confirmed
        assert await client.create("t", 1) is NONE
        disk.capacity_bytes = disk.used_bytes() + 1_000_000
        while (answer := await produce(client, confirmed + 1)) == (NONE, confirmed + 1):
            confirmed += 1
        assert answer == (KafkaErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert confirmed > 10
        assert await produce(client, confirmed + 1) == answer
        assert len(await client.values("t")) == confirmed + 1, "reads go on"
        disk.capacity_bytes = None
        confirmed += 1
        assert await produce(client, confirmed) == (NONE, confirmed), "the number of the batch is free"
        disk.capacity_bytes = disk.used_bytes()

    await run(disk, fill, flush=flush)

    async def go_on(client: Client) -> None:
        assert len(await client.values("t")) == confirmed + 1
        disk.capacity_bytes = None
        assert await produce(client, confirmed + 1) == (NONE, confirmed + 1)

    await run(disk, go_on, flush=flush)


async def test_a_produce_that_wants_no_answer_loses_its_connection_on_a_full_disk() -> None:
    disk = MemoryDisk(random.Random(1))

    async def fill(client: Client) -> None:
        assert await client.create("t", 1) is NONE
        disk.capacity_bytes = disk.used_bytes()
        partition = ProducePartition(index=0, records=of_producer(0))
        topics = (ProduceTopic(name="t", partition_data=(partition,)),)
        request = ProduceRequest(acks=0, timeout_ms=5000, topic_data=topics)
        answer = await client.peer.ask(PRODUCE, 9, request, timeout_s=60)
        assert isinstance(answer, PeerFailed)
        assert not client.peer.is_connected

    await run(disk, fill)


async def test_a_failed_disk_ends_the_broker() -> None:
    disk = MemoryDisk(random.Random(1))

    async def fail(client: Client) -> None:
        assert await client.create("t", 1) is NONE
        disk.failing = True
        with suppress(AssertionError):
            await produce(client, 0)
        await trio.sleep_forever()

    error = await ended_by(disk, fail, flush="before-ack")
    assert isinstance(error, StorageError)
    assert isinstance(error, StorageFailed)

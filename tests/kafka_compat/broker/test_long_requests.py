"""Requests about very many things: answered or refused, while a client next to them is served.

`python -m tests.kafka_compat.broker.test_long_requests` sends the largest ones to three processes and makes 10,000
partitions. It prints for each its duration, the longest produce of a client meanwhile, and the longest turns that the
brokers report.
"""

import itertools
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.turns import WORK_BETWEEN_LOOKS, LongWork
from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS, CreateTopic, CreateTopicsRequest
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from kafka_compat.protocol.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_compat.protocol.apis.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.errors import MalformedMessage
from kafka_compat.protocol.registry import LARGE_REQUEST_BYTES, SMALL_REQUEST_BYTES, require_size
from kafka_compat.records import encode_records
from raft.net.decoder import Buffer
from tests.kafka_compat.broker.cluster import Cluster
from tests.kafka_compat.broker.watched import Watched, watch
from tests.kafka_compat.broker.world import Connection, no_thread, world

LONG_WITHIN_S = 300.0


# -------------------------------------------------------------------- turns


def call_on(connection: Connection) -> ClientCall:
    return ClientCall(RequestHeader(METADATA.key, 9, 1, "test"), None, None, connection)  # type: ignore[arg-type]


def test_a_short_piece_of_work_ends_in_the_turn_that_brings_it() -> None:
    with world() as broker:
        done: list[int] = []

        def steps() -> Iterator[int]:
            for number in range(3):
                done.append(number)
                yield 1

        broker.context.turns.run(call_on(Connection()), steps())
        assert done == [0, 1, 2]
        assert not broker.context.turns.has_more


def test_long_work_goes_on_part_by_part_and_a_closed_connection_ends_it() -> None:
    clock = itertools.count()  # every look at the clock finds a second gone
    turns, done = LongWork(no_thread, lambda: float(next(clock))), dict[str, int]()

    def steps(name: str) -> Iterator[int]:
        for number in range(10 * WORK_BETWEEN_LOOKS):
            done[name] = number + 1
            yield 1

    kept, lost = Connection(), Connection()
    turns.run(call_on(kept), steps("kept"))
    turns.run(call_on(lost), steps("lost"))
    assert done == {"kept": WORK_BETWEEN_LOOKS, "lost": WORK_BETWEEN_LOOKS}
    lost.close("gone")
    rounds = 0
    while turns.has_more:
        turns.pump()
        rounds += 1
    assert done == {"kept": 10 * WORK_BETWEEN_LOOKS, "lost": WORK_BETWEEN_LOOKS}
    assert rounds > 5


# -------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("api", "most"),
    [
        (METADATA, LARGE_REQUEST_BYTES),
        (INCREMENTAL_ALTER_CONFIGS, SMALL_REQUEST_BYTES),
        (PRODUCE, 2 * LARGE_REQUEST_BYTES),
    ],
)
def test_a_request_is_refused_by_its_size_before_it_is_decoded(api: Api[Any, Any], most: int) -> None:
    start = struct.pack(">h", api.key)
    require_size(start.ljust(most, b"\0"))
    if api is not PRODUCE:
        with pytest.raises(MalformedMessage, match="ask in parts"):
            require_size(start.ljust(most + 1, b"\0"))


async def test_ten_thousand_rows_are_answered_by_the_encoder_in_their_order() -> None:
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, 1, {})
        await cluster.start(1)
        await cluster.until(cluster.running[1].broker.serving.is_set)
        resources = tuple(
            DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None) for _ in range(100)
        )
        async with cluster.client(1) as client:
            answer = await client.ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
        assert len(answer.results) == 100
        assert len({result.configs for result in answer.results}) == 1
        assert len(answer.results[0].configs) > 20
        await cluster.kill(1)
        nursery.cancel_scope.cancel()


# -------------------------------------------------------------------- real processes


@attrs.define
class Wire:
    """A plain blocking client of one broker."""

    port: int
    client: socket.socket = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = socket.create_connection(("127.0.0.1", self.port), timeout=LONG_WITHIN_S)

    def close(self) -> None:
        self.client.close()

    def send(self, api: Api[Any, Any], version: int, request: Any) -> None:
        pieces: Sequence[Buffer] = api.encode_request(RequestHeader(api.key, version, 1, "long"), request)
        self.client.sendall(b"".join(pieces))

    def ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        """Returns the response, or None if the broker closed the connection."""
        try:
            self.send(api, version, request)
            (length,) = struct.unpack("!I", self._exactly(4))
            return api.decode_response(self._exactly(length), version)[1]
        except (ConnectionError, EOFError):
            return None

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            chunk = self.client.recv(min(count - len(found), 1 << 20))
            if not chunk:
                raise EOFError
            found += chunk
        return bytes(found)


def leader_of(brokers: Watched, topic: str) -> int:
    """The port of the leader of partition 0, once there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with closing(Wire(brokers.addresses[1])) as wire:
            answer = wire.ask(METADATA, 9, MetadataRequest(topics=(MetadataRequestTopic(name=topic),)))
        (found,) = answer.topics
        if found.error_code == 0 and found.partitions and found.partitions[0].leader_id > 0:
            port: int = brokers.addresses[found.partitions[0].leader_id]
            return port
        time.sleep(0.05)
    raise AssertionError(f"{topic} has no leader")


@contextmanager
def healthy(brokers: Watched) -> Iterator[list[float]]:
    """A client that produces all the time with acks=all: the seconds of each acknowledged produce."""
    took: list[float] = []
    ends = threading.Event()
    batch = encode_records([(b"k", b"v")], 1)
    partition = ProducePartition(index=0, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(ProduceTopic(name="healthy", partition_data=(partition,)),)
    )

    def produce() -> None:
        wire = Wire(leader_of(brokers, "healthy"))
        while not ends.is_set():
            began = time.monotonic()
            answer = wire.ask(PRODUCE, 8, request)
            error = None if answer is None else answer.responses[0].partition_responses[0].error_code
            took.append(time.monotonic() - began)
            if error != 0:
                wire.close()
                wire = Wire(leader_of(brokers, "healthy"))
        wire.close()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield took
    finally:
        ends.set()
        thread.join()


def long_requests() -> list[tuple[str, Api[Any, Any], int, Any]]:
    names = [f"absent-{number:07}" for number in range(60_000)]
    offsets = tuple(ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(55_000))
    everything = tuple(
        DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None) for _ in range(20_000)
    )
    return [
        (
            "Metadata of 60,000 names",
            METADATA,
            9,
            MetadataRequest(
                topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
            ),
        ),
        (
            "ListOffsets of 55,000 partitions",
            LIST_OFFSETS,
            7,
            ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="healthy", partitions=offsets),)),
        ),
        ("DescribeConfigs of 20,000 times a broker", DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=everything)),
        (
            "Metadata of 8 MB",
            METADATA,
            9,
            MetadataRequest(topics=tuple(MetadataRequestTopic(name="x" * 200 + str(n)) for n in range(40_000))),
        ),
    ]


def create(name: str, partitions: int, replicas: int = 3) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=(
            CreateTopic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=(), configs=()),
        ),
        timeout_ms=60_000,
    )


@pytest.mark.campaign
@pytest.mark.cluster
def test_many_partitions_are_made_and_deleted_while_a_client_next_to_them_is_served(tmp_path: Path) -> None:
    with watch(tmp_path) as brokers, closing(Wire(brokers.addresses[1])) as wire:
        assert wire.ask(CREATE_TOPICS, 5, create("healthy", 1)).topics[0].error_code == 0
        with healthy(brokers) as took:
            assert wire.ask(CREATE_TOPICS, 5, create("many", 200)).topics[0].error_code == 0
            leader_of(brokers, "many")
            refused = wire.ask(CREATE_TOPICS, 5, create("more", 10_001))
            assert refused.topics[0].error_code == KafkaErrorCode.POLICY_VIOLATION
            deleted = wire.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=("many",), timeout_ms=60_000))
            assert deleted.responses[0].error_code == 0
        assert len(took) > 1
        assert brokers.fences() == []


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, watch(Path(directory)) as brokers:
        with closing(Wire(brokers.addresses[1])) as wire:
            wire.ask(CREATE_TOPICS, 5, create("healthy", 1))
        with healthy(brokers) as took:
            asked: list[tuple[str, Api[Any, Any], int, Any]] = [
                *long_requests(),
                ("CreateTopics with 10,000 partitions", CREATE_TOPICS, 5, create("many", 10_000)),
                ("CreateTopics with 10,001 partitions", CREATE_TOPICS, 5, create("more", 10_001)),
                ("Metadata of everything", METADATA, 9, MetadataRequest(topics=None)),
                ("DeleteTopics", DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=("many",), timeout_ms=60_000)),
            ]
            for what, api, version, request in asked:
                before, turns = len(took), len(brokers.select("long_turn"))
                began = time.monotonic()
                with closing(Wire(brokers.addresses[1])) as wire:
                    answer = wire.ask(api, version, request)
                seconds = time.monotonic() - began
                if api is CREATE_TOPICS:
                    print_line(f"  {what} was answered after {seconds:.1f} s; 60 s of its work follow")
                    time.sleep(60)
                time.sleep(2)
                longest = max(took[before:], default=0)
                outcome = "refused" if answer is None else "answered"
                print_line(
                    f"{what}: {outcome} in {seconds:.2f} s; longest produce meanwhile {longest:.2f} s, {len(took) - before} of them"
                )
                for turn in brokers.select("long_turn")[turns:]:
                    print_line(f"  {turn}")
        led = [fields for fields in brokers.select("controller") if fields["role"] == "leader"]
        print_line(f"controllers {len(led)}, fences {len(brokers.fences())}")


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

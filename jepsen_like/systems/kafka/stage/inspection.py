"""Looks things up on a stage, as an operator does: where logs lie, who coordinates a group, its positions."""

import collections
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from jepsen_like.cluster.fault_network import FaultNetwork
from jepsen_like.port.port import NotServing
from jepsen_like.systems.kafka.batch_values import records_of, whole_batches
from jepsen_like.systems.kafka.final_log import plain_value
from jepsen_like.systems.kafka.stage.stage import POLL_S, READY_WITHIN_S, Stage
from jepsen_like.systems.kafka.wire import NoAnswer
from kafka_compat.config_keys import BROKER_KEYS
from kafka_compat.coordinator.partitioning import partition_of
from kafka_compat.model import OFFSETS_TOPIC
from kafka_compat.protocol.api import RequestHeader
from kafka_compat.protocol.apis.describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest
from kafka_compat.protocol.apis.fetch import FETCH, FetchRequest
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from kafka_compat.protocol.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from kafka_compat.protocol.apis.offset_fetch import OFFSET_FETCH, OffsetFetchGroup, OffsetFetchRequest, OffsetFetchTopic
from kafka_compat.protocol.apis.partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

OFFSETS: Final = OFFSETS_TOPIC
FIND_VERSION, COMMIT_VERSION, OFFSET_FETCH_VERSION, LOG_DIRS_VERSION, REASSIGN_VERSION = 4, 8, 8, 4, 0
FETCH_VERSION: Final = 17
ONE_ANSWER_S: Final = 1.0


def default_of(setting: str) -> str:
    """Returns the value that a broker's setting has where nothing is given."""
    return str(BROKER_KEYS[setting].default)


def partition_of_group(group: str, partitions: int) -> int:
    """Returns the partition of the offsets topic that a group's name leads to."""
    return partition_of(group, partitions)


async def log_directories(stage: Stage, topic: str) -> Mapping[int, Mapping[int, int]]:
    """Returns by broker and partition the number of log directories in which it lies. Raises `NoAnswer`."""
    found: dict[int, collections.Counter[int]] = {}
    for node in stage.alive:
        answer = await stage.ask(node, DESCRIBE_LOG_DIRS, LOG_DIRS_VERSION, DescribeLogDirsRequest(topics=None))
        found[node] = collections.Counter(
            partition.partition_index
            for result in answer.results
            for each in result.topics
            if each.name == topic
            for partition in each.partitions
        )
    return found


async def log_bytes(stage: Stage, topic: str) -> Mapping[int, int]:
    """Returns the bytes that each broker keeps of a topic. Raises `NoAnswer`."""
    found = {}
    for node in stage.alive:
        answer = await stage.ask(node, DESCRIBE_LOG_DIRS, LOG_DIRS_VERSION, DescribeLogDirsRequest(topics=None))
        found[node] = sum(
            partition.partition_size
            for result in answer.results
            for each in result.topics
            if each.name == topic
            for partition in each.partitions
        )
    return found


def files_of(stage: Stage, node: int, topic: str, partition: int = 0) -> list[Path]:
    """Returns the files of a broker's copy of a partition."""
    directory = stage.cluster.nodes[node].machine.data / "partitions" / "logs" / f"{topic}-{partition}"
    return sorted(path for path in directory.iterdir() if path.is_file())


def bytes_from(stage: Stage, sender: int, receiver: int) -> int:
    """Returns what one broker has sent another on the connections that it dialled."""
    network = stage.cluster.network
    assert isinstance(network, FaultNetwork)
    return network.between[sender, receiver].forward.passed_bytes


def fetch_frame_bytes() -> int:
    """Returns the size of the smallest Fetch request that there is."""
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=())
    return sum(map(len, FETCH.encode_request(RequestHeader(FETCH.key, FETCH_VERSION, 1, ""), request)))


async def values_in(stage: Stage, node: int, topic: str, partition: int = 0) -> list[int]:
    """Returns the values that a consumer reads from a broker, in their order. Raises `NoAnswer`."""
    values: list[int] = []
    offset = 0
    while True:
        answer = await stage.read(node, topic, offset, partition)
        data = answer.records or b""
        data = b"".join(data) if isinstance(data, tuple) else bytes(data)
        before = offset
        for position, header in whole_batches(data):
            values += [plain_value(one) for one in records_of(data, position, header) if one.offset >= offset]
            offset = header.end_offset
        if offset == before:
            return values


async def coordinator(stage: Stage, group: str) -> int:
    """Returns the broker that coordinates a group, -1 while there is none. Asks any broker; the first question makes the offsets topic."""
    request = FindCoordinatorRequest(coordinator_keys=(group,))
    for node in stage.alive:
        try:
            answer = await stage.ask(node, FIND_COORDINATOR, FIND_VERSION, request, within_s=ONE_ANSWER_S)
        except NoAnswer:
            continue
        (found,) = answer.coordinators
        if not found.error_code:
            return int(found.node_id)
    return -1


async def until_coordinated(stage: Stage, group: str, *, within_s: float = READY_WITHIN_S) -> int:
    """Returns the coordinator of a group, once there is one. Raises `NotServing`."""
    deadline = trio.current_time() + within_s
    while (node := await coordinator(stage, group)) < 0:
        if trio.current_time() > deadline:
            raise NotServing(f"group {group} has no coordinator within {within_s:g} s")
        await trio.sleep(POLL_S)
    return node


async def commit(stage: Stage, group: str, topic: str, offset: int) -> bool:
    """Commit a position for a group, as an operator does. Returns True if that was acknowledged."""
    node = await coordinator(stage, group)
    if node not in stage.alive:
        return False
    position = OffsetCommitPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group, member_id="", topics=(OffsetCommitTopic(name=topic, partitions=(position,)),)
    )
    try:
        answer = await stage.ask(node, OFFSET_COMMIT, COMMIT_VERSION, request, within_s=ONE_ANSWER_S)
    except NoAnswer:
        return False
    return all(part.error_code == 0 for each in answer.topics for part in each.partitions)


async def position_of(stage: Stage, group: str, topic: str) -> int | None:
    """Returns a group's position, -1 for none; None without an answer."""
    node = await coordinator(stage, group)
    if node not in stage.alive:
        return None
    wanted = OffsetFetchGroup(group_id=group, topics=(OffsetFetchTopic(name=topic, partition_indexes=(0,)),))
    try:
        answer = await stage.ask(
            node, OFFSET_FETCH, OFFSET_FETCH_VERSION, OffsetFetchRequest(groups=(wanted,)), within_s=ONE_ANSWER_S
        )
    except NoAnswer:
        return None
    found = answer.groups[0]
    if found.error_code or any(part.error_code for each in found.topics for part in each.partitions):
        return None
    return int(found.topics[0].partitions[0].committed_offset)


async def delete_logs(stage: Stage, node: int, topic: str) -> int:
    """Remove a dead broker's logs of a topic, as by hand. Returns how many there were."""
    logs = stage.cluster.nodes[node].machine.data / "partitions" / "logs"
    found = [path for path in logs.iterdir() if path.name.rpartition("-")[0] == topic]
    for path in found:
        shutil.rmtree(path)
    return len(found)


async def reassign(stage: Stage, topic: str, placed: Mapping[int, tuple[int, ...]]) -> int:
    """Move partitions to other brokers, as `quorumlog topics reassign` does. Returns the error code. Raises `NoAnswer`."""
    parts = tuple(
        ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in sorted(placed.items())
    )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=5000, topics=(ReassignableTopic(name=topic, partitions=parts),)
    )
    node = await stage.controller()
    answer = await stage.ask(node, ALTER_PARTITION_REASSIGNMENTS, REASSIGN_VERSION, request, within_s=7.0)
    return int(answer.error_code)

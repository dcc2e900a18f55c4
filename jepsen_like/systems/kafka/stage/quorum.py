"""The controllers' group of a stage, as its operator changes it and as it describes itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

from jepsen_like.port.port import NotServing
from jepsen_like.port.wires import text_of
from jepsen_like.systems.kafka.stage.stage import Stage
from jepsen_like.systems.kafka.wire import NoAnswer
from jepsen_like.systems.secret_of import secret_in
from kafka_compat.protocol.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    METADATA_TOPIC,
    DescribeQuorumRequest,
    QuorumPartition,
    QuorumTopic,
)
from raft.client import Client
from raft.errors import RaftError
from raft.membership import AddLearner, Promote

VERSION: Final = 2
CHANGES_WITHIN_S: Final = 30.0


@attrs.frozen
class Quorum:
    """The word of one broker about the controllers' group."""

    leader: int
    epoch: int
    committed: int
    voters: tuple[int, ...]


async def quorum(stage: Stage, node: int) -> Quorum:
    """Returns a broker's word about the group. Raises `NoAnswer`."""
    asked = QuorumTopic(topic_name=METADATA_TOPIC, partitions=(QuorumPartition(partition_index=0),))
    answer = await stage.ask(node, DESCRIBE_QUORUM, VERSION, DescribeQuorumRequest(topics=(asked,)))
    if answer.error_code or not answer.topics:
        raise NoAnswer(f"broker {node} cannot describe the controllers' group: error {answer.error_code}")
    found = answer.topics[0].partitions[0]
    voters = tuple(each.replica_id for each in found.current_voters)
    return Quorum(found.leader_id, found.leader_epoch, found.high_watermark, voters)


@asynccontextmanager
async def _client(stage: Stage) -> AsyncIterator[Client]:
    """Raises `NotServing` for an error of the group."""
    cluster = stage.cluster
    addresses = [text_of(cluster.direct[node]) for node in stage.alive]
    secret = secret_in(cluster.access.secret)
    try:
        async with Client(addresses, cluster.cluster_id, deadline_s=CHANGES_WITHIN_S, secret=secret) as client:
            yield client
    except RaftError as error:
        raise NotServing(f"the controllers did not change: {error}") from error


async def demote(stage: Stage, *nodes: int) -> None:
    """Make these brokers no controllers: they get the metadata and are not counted."""
    async with _client(stage) as client:
        for node in nodes:
            await client.change_members(AddLearner(node))


async def promote(stage: Stage, *nodes: int) -> None:
    """Make these brokers controllers again."""
    async with _client(stage) as client:
        for node in nodes:
            await client.change_members(Promote(node))


async def hand_over(stage: Stage, node: int) -> None:
    """Have this broker be the controller."""
    async with _client(stage) as client:
        await client.transfer_leadership(node)

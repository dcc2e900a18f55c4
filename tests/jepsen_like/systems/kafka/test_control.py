"""A cluster serves once every broker that answers knows that all are unfenced."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from jepsen_like.history.files import DumpWriter, read_dump
from jepsen_like.port.port import NotServing
from jepsen_like.systems.kafka.control import READS_WITHIN_S, TOPIC, ClusterView, KafkaControl
from jepsen_like.workload.payload import encode_value
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersTopic
from kafka_compat.protocol.apis.fetch import FetchPartitionResponse
from kafka_compat.protocol.apis.metadata import MetadataPartition
from tests.jepsen_like.systems.kafka.test_batch_values import batch


def answer(*unfenced: int, controller: int = 1) -> DescribeClusterResponse:
    brokers = tuple(DescribeClusterBroker(broker_id=each, host="127.0.0.1", port=9092) for each in unfenced)
    return DescribeClusterResponse(error_code=0, cluster_id="c", controller_id=controller, brokers=brokers)


class Asked(KafkaControl):
    """Stands for three brokers that give these answers; one without an answer is silent."""

    def __init__(self, answers: Mapping[int, DescribeClusterResponse]) -> None:
        super().__init__("c", {node: ("127.0.0.1", node) for node in (1, 2, 3)})
        self._answers = answers

    async def _try(self, node: int, *asked: Any, **how: Any) -> Any | None:
        return self._answers.get(node)


WHOLE = answer(1, 2, 3)


@pytest.mark.parametrize(
    ("answers", "serves"),
    [
        pytest.param({1: WHOLE, 2: WHOLE, 3: WHOLE}, True, id="all know that all are unfenced"),
        pytest.param({1: WHOLE, 2: WHOLE, 3: answer(3)}, False, id="one does not know it yet"),
        pytest.param({1: answer(), 2: answer(), 3: answer()}, False, id="all are fenced"),
        pytest.param({1: WHOLE, 2: WHOLE, 3: answer(1, 2, 3, controller=-1)}, False, id="one knows no controller"),
        pytest.param({}, False, id="none answers"),
    ],
)
async def test_a_cluster_serves_once_all_know_that_all_are_unfenced(
    answers: Mapping[int, DescribeClusterResponse], serves: bool
) -> None:
    assert await Asked(answers).is_serving() is serves


async def test_the_first_replicas_of_a_placed_topic_are_elected_where_another_one_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that is fenced for a moment while the topic is made does not lead again by itself."""
    control = KafkaControl("c", {1: ("127.0.0.1", 1), 2: ("127.0.0.1", 2)})
    leader = 2

    async def view() -> ClusterView:
        state = MetadataPartition(
            error_code=0,
            partition_index=0,
            leader_id=leader,
            leader_epoch=1,
            replica_nodes=(1, 2),
            isr_nodes=(1, 2),
            offline_replicas=(),
        )
        return ClusterView(2, {TopicPartition(TOPIC, 0): state}, frozenset({1, 2}))

    async def elect(node: int, api: object, version: int, request: ElectLeadersRequest, *, within_s: float) -> None:
        nonlocal leader
        assert (node, api, request.election_type) == (2, ELECT_LEADERS, 0)
        assert request.topic_partitions == (ElectLeadersTopic(topic=TOPIC, partitions=(0,)),)
        leader = 1

    monkeypatch.setattr(control, "view", view)
    monkeypatch.setattr(control, "_try", elect)
    await control.place([(1, 2)], within_s=5.0)
    assert control.topic == TOPIC


class LateFollower(KafkaControl):
    """Stands for one broker with a log of two records, which shows the second one after some time."""

    def __init__(self, shown_at_s: float) -> None:
        super().__init__("c", {1: ("127.0.0.1", 1)})
        self._shown_at_s = shown_at_s

    async def view(self) -> ClusterView:
        """Of one partition that the broker holds."""
        state = MetadataPartition(
            error_code=0,
            partition_index=0,
            leader_id=2,
            leader_epoch=1,
            replica_nodes=(1, 2),
            isr_nodes=(1, 2),
            offline_replicas=(),
        )
        return ClusterView(2, {TopicPartition(TOPIC, 0): state}, frozenset({1, 2}))

    async def ends(self, node: int, names: list[TopicPartition], what: int = 0) -> dict[TopicPartition, int] | None:
        """Its log begins at 0."""
        return {TopicPartition(TOPIC, 0): 0}

    async def read_own(self, node: int, name: TopicPartition, offset: int) -> FetchPartitionResponse:
        """It shows its first record, and from that time on both."""
        is_shown = offset == 0 or trio.current_time() >= self._shown_at_s
        records = batch(offset, [(None, encode_value(offset + 1, 20))]) if is_shown else b""
        return FetchPartitionResponse(
            partition_index=0, error_code=0, high_watermark=1, aborted_transactions=None, records=records
        )


def test_a_log_is_dumped_once_its_follower_shows_all_of_it(tmp_path: Path) -> None:
    async def dump(shown_at_s: float, directory: Path) -> None:
        with DumpWriter(directory) as writer:
            await LateFollower(shown_at_s).dump({0: 2}, writer)

    trio.run(dump, 3.0, tmp_path / "late", clock=MockClock(autojump_threshold=0))
    assert read_dump(tmp_path / "late").column("a").to_pylist() == [1, 2]
    with pytest.RaisesGroup(pytest.RaisesExc(NotServing, match="has log-0 up to 2 and shows 1")):
        trio.run(dump, 10 * READS_WITHIN_S, tmp_path / "never", clock=MockClock(autojump_threshold=0))

"""A cluster serves once every broker that answers knows that all are unfenced."""

from collections.abc import Mapping
from typing import Any

import pytest

from jepsen_like.systems.kafka.control import TOPIC, ClusterView, KafkaControl
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersTopic
from kafka_compat.protocol.apis.metadata import MetadataPartition


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

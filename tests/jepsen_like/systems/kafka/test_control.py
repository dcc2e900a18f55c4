"""A cluster serves once every broker that answers knows that all are unfenced."""

from collections.abc import Mapping
from typing import Any

import pytest

from jepsen_like.systems.kafka.control import KafkaControl
from kafka_compat.protocol.apis.describe_cluster import DescribeClusterBroker, DescribeClusterResponse


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

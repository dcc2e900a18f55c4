"""DescribeTopicPartitions with cursors that no answer has given."""

from collections.abc import Iterator

import pytest

from kafka_compat.protocol.apis.create_topics import CREATE_TOPICS, CreateTopic, CreateTopicsRequest
from kafka_compat.protocol.apis.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tests.fuzz.kafka import ask, connect, running_broker

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a broker with the topics a and b of four partitions each."""
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        topics = tuple(
            CreateTopic(name=name, num_partitions=4, replication_factor=1, assignments=(), configs=()) for name in "ab"
        )
        with connect(broker.port) as connection:
            ask(connection, CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        yield broker.port


def describe(port: int, index: int) -> DescribeTopicPartitionsResponse:
    cursor = DescribeTopicPartitionsCursor(topic_name="a", partition_index=index)
    request = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=2, cursor=cursor)
    with connect(port) as connection:
        answer: DescribeTopicPartitionsResponse = ask(connection, DESCRIBE_TOPIC_PARTITIONS, 0, request)
    return answer


@pytest.mark.parametrize("index", [4, 5, 2**31 - 1])
def test_a_cursor_after_the_last_partition_makes_no_more_room_than_was_asked_for(port: int, index: int) -> None:
    answer = describe(port, index)
    assert sum(len(each.partitions) for each in answer.topics) == 2
    assert answer.next_cursor == DescribeTopicPartitionsCursor(topic_name="b", partition_index=2)


def test_a_cursor_before_the_first_partition_closes_the_connection(port: int) -> None:
    with pytest.raises(EOFError):
        describe(port, -1)

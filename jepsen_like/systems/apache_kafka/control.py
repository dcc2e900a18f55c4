"""Asks the brokers of a cluster of Apache Kafka; their controller is told by DescribeQuorum alone.

In Metadata a broker of Apache Kafka names any live broker as the controller, since it takes requests for it.
"""

from jepsen_like.port.port import Leadership
from jepsen_like.systems.kafka.control import ClusterView, KafkaControl
from jepsen_like.systems.reports import ask_each
from kafka_compat.protocol.apis.describe_quorum import (
    DESCRIBE_QUORUM,
    METADATA_TOPIC,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumTopic,
)

QUORUM_VERSION = 2


class ApacheControl(KafkaControl):
    """Asks by Kafka's protocol; see `KafkaControl`."""

    async def controller(self, view: ClusterView) -> Leadership | None:
        """The newest leader of the controllers' group that a broker which answers knows."""
        topic = QuorumTopic(topic_name=METADATA_TOPIC, partitions=(QuorumPartition(partition_index=0),))
        request = DescribeQuorumRequest(topics=(topic,))
        answers: dict[int, DescribeQuorumResponse] = await ask_each(
            self._direct, lambda node: self._try(node, DESCRIBE_QUORUM, QUORUM_VERSION, request)
        )
        found = [
            Leadership(partition.leader_id, partition.leader_epoch)
            for answer in answers.values()
            for each in answer.topics
            for partition in each.partitions
            if partition.leader_id >= 0
        ]
        return max(found, key=lambda leader: leader.epoch, default=None)

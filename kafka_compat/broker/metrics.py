"""The figures of a Kafka broker: its place in the cluster, and the sums over its replicas. No partition has one of its own.

`quorumlog topics describe` shows single partitions; a metric for each would be thousands for a broker.
"""

from collections.abc import Mapping
from typing import Final

from kafka_compat.broker.replicas import LocalReplica
from kafka_compat.controller.image import ClusterImage
from kafka_compat.model import NO_LEADER, TopicPartition
from raft.metrics import Figure, Metric

PARTITION_LOGS: Final = "partitions"
"""The logs of partitions among those of a process, which has the metadata's as well."""

CONTROLLER: Final = Metric("quorumlog_kafka_controller", "1 on the broker that is the controller.")
FENCED: Final = Metric("quorumlog_kafka_fenced", "1 while the controller fences this broker, or does not know it.")
BROKER_EPOCH: Final = Metric("quorumlog_kafka_broker_epoch", "The epoch of this broker's registration; -1 without one.")
BROKERS: Final = Metric("quorumlog_kafka_brokers", "The brokers that are registered and not fenced.")
PARTITIONS: Final = Metric("quorumlog_kafka_partitions", "The partitions that this broker has a copy of.")
LEADING: Final = Metric("quorumlog_kafka_leader_partitions", "The partitions that it leads.")
UNDER_REPLICATED: Final = Metric(
    "quorumlog_kafka_under_replicated_partitions",
    "Of those that it leads, the partitions with a copy out of sync, without the copies that a move adds.",
)
REASSIGNING: Final = Metric(
    "quorumlog_kafka_reassigning_partitions", "Of those, the partitions that are moving to other brokers."
)
UNDER_MIN_ISR: Final = Metric(
    "quorumlog_kafka_under_min_isr_partitions", "Of those, the partitions that acks=all cannot write to."
)
LEADERLESS: Final = Metric("quorumlog_kafka_leaderless_partitions", "The partitions of the cluster without a leader.")
ISR_SHRINKS: Final = Metric("quorumlog_kafka_isr_shrinks_total", "Copies that fell out of sync here.", (), True)
ISR_EXPANDS: Final = Metric("quorumlog_kafka_isr_expands_total", "Copies that came back in sync here.", (), True)
LOG_END: Final = Metric("quorumlog_kafka_log_end_offsets", "The sum of the ends of all copies here.")
DURABLE_END: Final = Metric("quorumlog_kafka_durable_end_offsets", "The sum of their durable ends.")
HIGH_WATERMARK: Final = Metric("quorumlog_kafka_high_watermarks", "The sum of their high watermarks.")
UNCOMMITTED: Final = Metric(
    "quorumlog_kafka_uncommitted_records", "Records beyond the high watermarks of led partitions."
)


def broker_figures(broker_id: int, image: ClusterImage, *, is_controller: bool) -> list[Figure]:
    """Returns the figures of a broker's place in the cluster, as it knows it."""
    own = image.brokers.get(broker_id)
    return [
        CONTROLLER(is_controller),
        FENCED(own is None or own.fenced),
        BROKER_EPOCH(-1 if own is None else own.epoch),
        BROKERS(sum(not each.fenced for each in image.brokers.values())),
        LEADERLESS(len(image.leaderless())),
    ]


def replica_figures(hosted: Mapping[TopicPartition, LocalReplica], image: ClusterImage) -> list[Figure]:
    """Returns the sums over a broker's replicas."""
    led = [replica for replica in hosted.values() if replica.leads]
    states = [(replica, image.partition(replica.partition)) for replica in led]
    known = [(replica, state) for replica, state in states if state is not None and state.leader != NO_LEADER]
    return [
        PARTITIONS(len(hosted)),
        LEADING(len(led)),
        UNDER_REPLICATED(sum(len(state.isr) < len(state.original) for _, state in known)),
        REASSIGNING(sum(state.is_moving for _, state in known)),
        UNDER_MIN_ISR(
            sum(len(state.isr) < min(replica.settings.min_insync_replicas, state.factor) for replica, state in known)
        ),
        LOG_END(sum(replica.log.end_offset for replica in hosted.values())),
        DURABLE_END(sum(replica.log.durable_offset for replica in hosted.values())),
        HIGH_WATERMARK(sum(replica.high_watermark for replica in hosted.values())),
        UNCOMMITTED(sum(max(0, replica.log.end_offset - replica.high_watermark) for replica in led)),
    ]

"""The figures of a RocketMQ broker: its role, how far its commit log and its slaves are, and its tables."""

from collections.abc import Mapping
from typing import Final

from raft.metrics import Figure, Metric
from rocketmq_compat.broker.context import Context

COMMIT_LOG: Final = "commit"
"""The commit log among the logs of a process, which may have a raft group's as well."""

MASTER: Final = Metric("quorumlog_rocketmq_master", "1 on a master, 0 on a slave.")
EPOCH: Final = Metric("quorumlog_rocketmq_epoch", "The epoch of the master; the term in a raft group.")
LOG_START: Final = Metric("quorumlog_rocketmq_log_start", "The physical offset at which the commit log begins.")
LOG_END: Final = Metric("quorumlog_rocketmq_log_end", "The physical offset at which the commit log ends.")
DURABLE_END: Final = Metric("quorumlog_rocketmq_durable_end", "The physical offset up to which it is durable.")
CONFIRMED_END: Final = Metric("quorumlog_rocketmq_confirmed_end", "The physical offset up to which it is confirmed.")
DISPATCHED_END: Final = Metric("quorumlog_rocketmq_dispatched_end", "The physical offset up to which consumers see it.")
SLAVES: Final = Metric("quorumlog_rocketmq_slaves", "The slaves that a master has taken.")
HA_LAG: Final = Metric(
    "quorumlog_rocketmq_ha_lag_bytes", "Bytes of the log that a slave lacks, by broker id.", ("slave",)
)
IN_DOUBT: Final = Metric("quorumlog_rocketmq_in_doubt", "1 while the copy may lack messages, and clients are refused.")
TOPICS: Final = Metric("quorumlog_rocketmq_topics", "The topics, those of the system included.")
CONSUMER_GROUPS: Final = Metric("quorumlog_rocketmq_consumer_groups", "The consumer groups with a client online.")


def broker_figures(
    context: Context, *, epoch: int, confirmed: int, slaves: Mapping[int, int], is_in_doubt: bool
) -> list[Figure]:
    """Returns the figures of a broker; `slaves` are the ends that slaves have reported, by broker id."""
    log = context.store.log
    return [
        MASTER(not context.is_slave),
        EPOCH(epoch),
        LOG_START(log.start_offset),
        LOG_END(log.end_offset),
        DURABLE_END(log.durable_offset),
        CONFIRMED_END(confirmed),
        DISPATCHED_END(context.store.derived.dispatched),
        SLAVES(len(slaves)),
        *(HA_LAG(max(0, log.end_offset - end), str(slave)) for slave, end in sorted(slaves.items())),
        IN_DOUBT(is_in_doubt),
        TOPICS(len(context.topics.topics)),
        CONSUMER_GROUPS(len(context.registry.consumer_groups)),
    ]

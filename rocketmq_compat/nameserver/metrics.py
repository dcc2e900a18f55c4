"""The figures of a name server: what it knows."""

from typing import Final

from raft.metrics import Figure, Metric
from rocketmq_compat.nameserver.routes import RouteTable

REGISTERED_BROKERS: Final = Metric("quorumlog_nameserver_brokers", "The brokers that are registered.")
KNOWN_TOPICS: Final = Metric("quorumlog_nameserver_topics", "The topics that have a route.")


def table_figures(table: RouteTable) -> list[Figure]:
    """Returns the figures of a name server's table."""
    return [REGISTERED_BROKERS(table.broker_count), KNOWN_TOPICS(table.topic_count)]

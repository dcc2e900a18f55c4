"""`quorumlog bench kafka`: our Kafka-style brokers and Apache Kafka's under the same client, in one run."""

from typing import Any

import click

from jepsen_like.bench.brokers import broker_options, measure_brokers
from jepsen_like.bench.kafka.answers import TABLES
from jepsen_like.cli import ExitStatus


@click.command()
@broker_options(("throughput", "failover"), seconds=4.0, kills=(5, "Of a partition's leader."), pauses=(3, "Likewise."))
def kafka(**flags: Any) -> ExitStatus:
    """Compare three Kafka-style brokers of ours with three of Apache Kafka: one client process of confluent-kafka,
    acks=all.

    Ends with 0 whatever the figures are; an acknowledged record that is missing in ours is a broken promise.
    """
    from jepsen_like.bench.kafka.cluster import KAFKA_SYSTEMS
    from jepsen_like.bench.kafka.measure import KafkaBench

    return measure_brokers(KafkaBench, KAFKA_SYSTEMS, TABLES, flags)

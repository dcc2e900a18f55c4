"""`quorumlog bench rocketmq`: our RocketMQ-style brokers and Apache RocketMQ's under the same load, in one run."""

from typing import Any

import click

from jepsen_like.bench.brokers import broker_options, measure_brokers
from jepsen_like.bench.command_options import BenchNames
from jepsen_like.bench.rocketmq.answers import TABLES
from jepsen_like.cli import ExitStatus

MODES = ("async", "sync", "page-cache", "durable")


@click.command()
@broker_options(
    ("throughput", "producers", "failover"),
    click.option(
        "--modes",
        type=BenchNames(MODES),
        default=",".join(MODES),
        show_default=True,
        help="Of throughput: how to replicate.",
    ),
    seconds=1.5,
    kills=(3, "Of one of two masters, and of a raft group's."),
    pauses=(2, "Of a raft group's master."),
)
def rocketmq(**flags: Any) -> ExitStatus:
    """Compare RocketMQ-style brokers of ours with those of Apache RocketMQ: pairs and raft groups, one load generator.

    Ends with 0 whatever the figures are; an acknowledged message that is missing in ours is a broken promise.
    """
    from jepsen_like.bench.rocketmq.cluster import ROCKET_SYSTEMS
    from jepsen_like.bench.rocketmq.measure import RocketBench

    return measure_brokers(RocketBench, ROCKET_SYSTEMS, TABLES, flags)

"""`quorumlog bench rocketmq`: our RocketMQ-style brokers and Apache RocketMQ's under the same load, on the same
machine, in one run.
"""

from pathlib import Path

import click

from jepsen_like.bench.command_options import BenchNames, conduct, directory_option, output_option
from jepsen_like.bench.rocketmq.jars import APACHE_ROCKETMQ
from jepsen_like.cli import ExitStatus

SECTIONS = ("throughput", "producers", "failover")
SYSTEMS = ("quorumlog", "apache")
MODES = ("async", "sync", "page-cache", "durable")


@click.command()
@click.option("--fetch-apache", "fetch", is_flag=True, help="Bring Apache RocketMQ's jars from Maven Central, and end.")
@click.option("--only", type=BenchNames(SECTIONS), default=",".join(SECTIONS), show_default=True, help="The sections.")
@click.option(
    "--systems", type=BenchNames(SYSTEMS), default=",".join(SYSTEMS), show_default=True, help="Who takes part."
)
@click.option(
    "--modes",
    type=BenchNames(MODES),
    default=",".join(MODES),
    show_default=True,
    help="Of throughput: how to replicate.",
)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Of throughput.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=1.5, show_default=True, help="Of each load in each repeat."
)
@click.option(
    "--kills",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Of one of two masters, and of a raft group's.",
)
@click.option("--pauses", type=click.IntRange(0), default=2, show_default=True, help="Of a raft group's master.")
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the order and the times of faults.")
@directory_option
@output_option
def rocketmq(
    fetch: bool,
    only: tuple[str, ...],
    systems: tuple[str, ...],
    modes: tuple[str, ...],
    repeats: int,
    seconds: float,
    kills: int,
    pauses: int,
    seed: int,
    directory: Path,
    output: Path | None,
) -> ExitStatus:
    """Compare RocketMQ-style brokers of ours with those of Apache RocketMQ: pairs and raft groups, one load generator.

    Ends with 0 whatever the figures are; an acknowledged message that is missing in ours is a broken promise.
    """
    if fetch:
        home = APACHE_ROCKETMQ.fetch(lambda name: click.echo(name, err=True))
        click.echo(f"Apache RocketMQ is in {home}", err=True)
        return ExitStatus.VALID
    from jepsen_like.bench.rocketmq import answers, loads
    from jepsen_like.bench.rocketmq.cluster import ROCKET_SYSTEMS
    from jepsen_like.bench.rocketmq.measure import RocketBenchPlan, RocketMeasurement

    plan = RocketBenchPlan(
        sections=only,
        systems=tuple(ROCKET_SYSTEMS[key] for key in systems),
        modes=tuple(mode for mode in loads.MODES if mode.key in modes),
        repeats=repeats,
        seconds=seconds,
        kills=kills,
        pauses=pauses,
        seed=seed,
        output=output,
    )
    return conduct(RocketMeasurement, plan, directory, tables=answers.tables, remarks=answers.remarks)

"""`quorumlog bench kafka`: our Kafka-style brokers and Apache Kafka's under the same client, on the same machine, in
one run.
"""

from pathlib import Path

import click

from jepsen_like.bench.command_options import BenchNames, conduct, directory_option, output_option
from jepsen_like.bench.kafka.jars import APACHE_KAFKA
from jepsen_like.cli import ExitStatus

SECTIONS = ("throughput", "failover")
SYSTEMS = ("quorumlog", "apache")


@click.command()
@click.option("--fetch-apache", "fetch", is_flag=True, help="Bring Apache Kafka's jars from Maven Central, and end.")
@click.option("--only", type=BenchNames(SECTIONS), default=",".join(SECTIONS), show_default=True, help="The sections.")
@click.option(
    "--systems", type=BenchNames(SYSTEMS), default=",".join(SYSTEMS), show_default=True, help="Who takes part."
)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Of throughput.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=4.0, show_default=True, help="Of each load in each repeat."
)
@click.option("--kills", type=click.IntRange(0), default=5, show_default=True, help="Of a partition's leader.")
@click.option("--pauses", type=click.IntRange(0), default=3, show_default=True, help="Likewise.")
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the order and the times of faults.")
@directory_option
@output_option
def kafka(
    fetch: bool,
    only: tuple[str, ...],
    systems: tuple[str, ...],
    repeats: int,
    seconds: float,
    kills: int,
    pauses: int,
    seed: int,
    directory: Path,
    output: Path | None,
) -> ExitStatus:
    """Compare three Kafka-style brokers of ours with three of Apache Kafka: one client process of confluent-kafka,
    acks=all.

    Ends with 0 whatever the figures are; an acknowledged record that is missing in ours is a broken promise.
    """
    if fetch:
        home = APACHE_KAFKA.fetch(lambda name: click.echo(name, err=True))
        click.echo(f"Apache Kafka is in {home}", err=True)
        return ExitStatus.VALID
    from jepsen_like.bench.kafka import answers
    from jepsen_like.bench.kafka.cluster import KAFKA_SYSTEMS
    from jepsen_like.bench.kafka.measure import KafkaBenchPlan, KafkaMeasurement

    plan = KafkaBenchPlan(
        sections=only,
        systems=tuple(KAFKA_SYSTEMS[key] for key in systems),
        repeats=repeats,
        seconds=seconds,
        kills=kills,
        pauses=pauses,
        seed=seed,
        output=output,
    )
    return conduct(KafkaMeasurement, plan, directory, tables=answers.tables, remarks=answers.remarks)

"""`quorumlog bench raft`: measures the replicated log, its peers and the limits of the machine in one run.

Nothing is installed and nothing is left behind: a peer that is not here becomes a line with the command that brings it,
and data lies in a directory of its own, on the disk that is measured, until its system has stopped, also when it is
asked to end.
"""

from pathlib import Path

import click

from jepsen_like.bench import answers
from jepsen_like.bench.command_options import BenchNames, conduct, directory_option, output_option
from jepsen_like.bench.figures import SECTIONS
from jepsen_like.bench.kafka.command import kafka
from jepsen_like.bench.rocketmq.command import rocketmq
from jepsen_like.bench.sections import SYSTEMS, BenchPlan, RaftMeasurement
from jepsen_like.cli import ExitStatus


@click.group()
def bench() -> None:
    """Measure throughput, latency and failover of a system, of comparable systems and of this machine's disk and
    network.
    """


@bench.command()
@click.option(
    "--only", type=BenchNames(SECTIONS), default=",".join(SECTIONS), show_default=True, help="The sections to measure."
)
@click.option(
    "--systems", type=BenchNames(tuple(SYSTEMS)), default=",".join(SYSTEMS), show_default=True, help="Who takes part."
)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Of throughput and of restarts.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Of each load in each repeat."
)
@click.option(
    "--kills",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Of our leader; a third of it of each peer's.",
)
@click.option("--pauses", type=click.IntRange(0), default=20, show_default=True, help="Likewise.")
@click.option(
    "--minutes", type=click.FloatRange(0.05), default=10.0, show_default=True, help="Of full load beside other work."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the times between faults.")
@directory_option
@output_option
def raft(
    only: tuple[str, ...],
    systems: tuple[str, ...],
    repeats: int,
    seconds: float,
    kills: int,
    pauses: int,
    minutes: float,
    seed: int,
    directory: Path,
    output: Path | None,
) -> ExitStatus:
    """Compare three nodes of the replicated log with PySyncObj, etcd, ZooKeeper and NATS JetStream, with their own
    defaults.

    Ends with 0 whatever the figures are: aims that are missed are said, and are no broken promise. An acknowledged
    record that is missing is one.
    """
    plan = BenchPlan(
        sections=only,
        systems=tuple(SYSTEMS[key] for key in systems),
        repeats=repeats,
        seconds=seconds,
        kills=kills,
        pauses=pauses,
        minutes=minutes,
        seed=seed,
        output=output,
    )
    return conduct(RaftMeasurement, plan, directory, tables=answers.tables, remarks=answers.remarks)


bench.add_command(kafka)
bench.add_command(rocketmq)

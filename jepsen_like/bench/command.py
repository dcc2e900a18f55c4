"""`quorumlog bench raft`: measures the replicated log and the limits of the machine in one run.

Nothing is installed and nothing is left behind: a system that is not here becomes a line with the command that brings it,
and data lies in a directory of its own, on the disk that is measured, until its system has stopped, also when it is
asked to end.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from jepsen_like.bench import answers
from jepsen_like.bench.command_options import (
    BenchNames,
    CommandT,
    conduct,
    decorator_of,
    directory_option,
    output_option,
)
from jepsen_like.bench.figures import SECTIONS
from jepsen_like.bench.kafka.command import kafka
from jepsen_like.bench.own_cluster import OWN_SYSTEMS
from jepsen_like.bench.rocketmq.command import rocketmq
from jepsen_like.bench.sections import BenchPlan, RaftMeasurement
from jepsen_like.bench.security.command import security
from jepsen_like.bench.systems import BenchSystem
from jepsen_like.cli import ExitStatus


@click.group()
def bench() -> None:
    """Measure throughput, latency and failover of a system, of comparable systems and of this machine's disk and
    network.
    """


def raft_options(systems: Mapping[str, BenchSystem]) -> Callable[[CommandT], CommandT]:
    """Returns a decorator with the flags of a command that measures these systems."""
    option = partial(click.option, show_default=True)
    options: Sequence[Callable[[Any], Any]] = (
        option("--only", type=BenchNames(SECTIONS), default=",".join(SECTIONS), help="The sections to measure."),
        option("--systems", type=BenchNames(tuple(systems)), default=",".join(systems), help="Who takes part."),
        option("--repeats", type=click.IntRange(1), default=3, help="Of throughput and of restarts."),
        option("--seconds", type=click.FloatRange(0.1), default=2.0, help="Of each load in each repeat."),
        option("--kills", type=click.IntRange(0), default=50, help="Of our leader; a third of it of each peer's."),
        option("--pauses", type=click.IntRange(0), default=20, help="Likewise."),
        option("--minutes", type=click.FloatRange(0.05), default=10.0, help="Of full load beside other work."),
        option("--seed", type=int, default=1, help="Draws the times between faults."),
        directory_option,
        output_option,
    )
    return decorator_of(options)


def measure_raft(systems: Mapping[str, BenchSystem], flags: Mapping[str, Any]) -> ExitStatus:
    """Measure as the flags of `raft_options` say. Returns the status of the command."""
    plan = BenchPlan(
        sections=flags["only"],
        systems=[systems[key] for key in flags["systems"]],
        **{name: flags[name] for name in ("repeats", "seconds", "kills", "pauses", "minutes", "seed", "output")},
    )
    return conduct(RaftMeasurement, plan, flags["directory"], tables=answers.tables, remarks=answers.remarks)


@bench.command()
@raft_options(OWN_SYSTEMS)
def raft(**flags: Any) -> ExitStatus:
    """Compare three nodes of the replicated log, in three settings, with the limits of this machine.

    Ends with 0 whatever the figures are: aims that are missed are said, and are no broken promise. An acknowledged
    record that is missing is one.
    """
    return measure_raft(OWN_SYSTEMS, flags)


bench.add_command(kafka)
bench.add_command(rocketmq)
bench.add_command(security)

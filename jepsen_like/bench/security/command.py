"""`quorumlog bench security`: our systems plain, with a secret and with TLS, in one run."""

import importlib.util
import sys
from pathlib import Path

import click

from jepsen_like.bench.command_options import BenchNames, conduct, directory_option, output_option
from jepsen_like.bench.security.answers import remarks, tables
from jepsen_like.bench.security.loads import SYSTEMS
from jepsen_like.cli import EnvironmentMissing, ExitStatus

NEEDED = {"confluent_kafka": "kafka", "cryptography": "tls"}
"""Modules, and the extras that bring them."""


@click.command()
@click.option(
    "--systems", type=BenchNames(SYSTEMS), default=",".join(SYSTEMS), show_default=True, help="What takes part."
)
@click.option(
    "--before",
    type=click.Path(exists=True, dir_okay=False),
    help="The Python of another installation of quorumlog, whose plain clusters take part.",
)
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Of everything.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Of each load in each repeat."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the order.")
@directory_option
@output_option
def security(
    systems: tuple[str, ...],
    before: str | None,
    repeats: int,
    seconds: float,
    seed: int,
    directory: Path,
    output: Path | None,
) -> ExitStatus:
    """Compare the log, our Kafka-style and our RocketMQ-style brokers without protection, with a secret, and with TLS.

    Ends with 0 whatever the figures are; an acknowledged record that is missing is a broken promise.
    """
    for module, extra in NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise EnvironmentMissing(f"run: {sys.executable} -m pip install 'quorumlog[{extra}]'")
    from jepsen_like.bench.security.measure import SecurityBench, SecurityPlan

    plan = SecurityPlan(systems=systems, before=before, repeats=repeats, seconds=seconds, seed=seed, output=output)
    return conduct(SecurityBench, plan, directory, tables=tables, remarks=remarks)

"""Runs kcat, Kafka's console tools and a Java program against three brokers, and prints the outcome of each.

`python -m tests.kafka_compat.foreign` tests ours; `--kafka apache` runs the same commands against Apache Kafka, and
`--bootstrap` names running brokers. Needs kcat, a JDK, and the jars of `quorumlog fetch apache-kafka`.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jepsen_like.bench.kafka.cluster import KAFKA_SYSTEMS
from jepsen_like.cli import EnvironmentMissing
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA
from tests.kafka_compat.foreign.steps import ForeignPlan, ForeignStep, steps

WITHIN_S = 90.0
SHOWN = 1500
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


def run(step: ForeignStep) -> tuple[bool, str]:
    """Returns True if the step showed the expected output, and its output."""
    try:
        done = subprocess.run(
            step.command, input=step.given, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        shown = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        return False, f"not done within {WITHIN_S:g} s\n{shown}"
    output = done.stdout + done.stderr
    return step.is_kept(done.returncode, output), output


@click.command()
@click.option("--kafka", type=click.Choice(tuple(KAFKA_SYSTEMS)), default="quorumlog", show_default=True)
@click.option("--bootstrap", help="Brokers that run already, instead.")
@click.option("--only", default="", help="A part of the names of the steps to run.")
def main(kafka: str, bootstrap: str | None, only: str) -> None:
    """Clients in other languages against three brokers."""
    if not shutil.which("kcat"):
        raise EnvironmentMissing("kcat is not on this machine; get it with: apt-get install kcat")
    jars = APACHE_KAFKA.classpath()
    table = Table("command", "must show", "result", "s")
    broken = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foreign-")))
        if bootstrap is None:
            bootstrap = stack.enter_context(KAFKA_SYSTEMS[kafka].cluster(home / "cluster", SETTINGS)).bootstrap
        plan = ForeignPlan(bootstrap, f"foreign-{time.time_ns() // 10**6}", jars, home)
        for step in steps(plan):
            if only not in step.name:
                continue
            began = time.monotonic()
            kept, output = run(step)
            table.add_row(step.name, step.shows, "pass" if kept else "FAIL", f"{time.monotonic() - began:.1f}")
            if not kept:
                broken.append(step.name)
                sys.stderr.write(f"--- {step.name}: {' '.join(step.command[-8:])}\n{output[-SHOWN:]}\n")
    console = Console(highlight=False)
    console.width = max(console.width, 110)
    console.print(table)
    console.print(f"{table.row_count - len(broken)} of {table.row_count} pass")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

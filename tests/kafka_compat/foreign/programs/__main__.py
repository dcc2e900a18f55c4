"""Runs programs that were not written here against three brokers, kills the brokers, and prints the outcome of each.

`python -m tests.kafka_compat.foreign.programs`; `--only` names a part of them, and `--kafka apache` runs them against
Apache Kafka. Maven, npm, pip and Go bring missing programs into the user's cache. An unavailable one is skipped, and the
table names the reason.
"""

import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jepsen_like.bench.kafka.cluster import KAFKA_SYSTEMS
from jepsen_like.bench.processes import DidNotAnswer
from tests.brought import ClientMissing
from tests.kafka_compat.foreign.programs import connect, examples, golang, node, spark, streams
from tests.kafka_compat.foreign.programs.plan import ForeignProgram, NotKept

PROGRAMS = (*streams.PROGRAMS, *connect.PROGRAMS, *spark.PROGRAMS, *node.PROGRAMS, *golang.PROGRAMS, *examples.PROGRAMS)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
SHOWN = 2000


def run(program: ForeignProgram, kafka: str, home: Path) -> tuple[str, str]:
    """Returns the result in one word, and the figures or the reason."""
    try:
        with KAFKA_SYSTEMS[kafka].cluster(home / "cluster", {**SETTINGS, **program.settings}) as cluster:
            (home / "program").mkdir()
            return "pass", program.prove(cluster, home / "program")
    except ClientMissing as missing:
        return "skip", f"{missing}"
    except (NotKept, DidNotAnswer) as broken:
        return "FAIL", f"{broken}"


@click.command()
@click.option("--kafka", type=click.Choice(tuple(KAFKA_SYSTEMS)), default="quorumlog", show_default=True)
@click.option("--only", default="", help="A part of the names of the programs to run.")
def main(kafka: str, only: str) -> None:
    """Programs in other languages against three brokers; status 1 if one does not keep its promise."""
    table = Table("program", "version", "must show", "result", "figures", "s")
    results = []
    for program in PROGRAMS:
        if only.lower() not in program.name.lower():
            continue
        with tempfile.TemporaryDirectory(prefix="foreign-") as home:
            began = time.monotonic()
            result, figures = run(program, kafka, Path(home))
            results.append(result)
            taken = f"{time.monotonic() - began:.1f}"
            table.add_row(program.name, program.version, program.shows, result, figures[-SHOWN:], taken)
            if result == "FAIL":
                for log in sorted(Path(home).glob("program/*/output.log")):
                    sys.stderr.write(f"--- {program.name}: {log.name}\n{log.read_text(errors='replace')[-SHOWN:]}\n")
    console = Console(highlight=False)
    console.width = max(console.width, 150)
    console.print(table)
    console.print(f"{results.count('pass')} passed, {results.count('FAIL')} failed, {results.count('skip')} skipped")
    sys.exit(1 if "FAIL" in results else 0)


if __name__ == "__main__":
    main()

"""Runs foreign clients against our brokers, and prints the outcome of each.

They are Apache RocketMQ's client and console tool for Java, and the client `ali-ons` for JavaScript. `python -m
tests.rocketmq_compat.foreign` needs a JDK with Maven, and Node.js with npm, which bring missing clients into the user's
cache. An unavailable client is skipped, and the table names the reason.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.brought import ClientMissing
from tests.rocketmq_compat.foreign.clients import java_classpath, javascript_modules
from tests.rocketmq_compat.foreign.cluster import MessageCluster, broker_group, broker_pairs, guarded_broker
from tests.rocketmq_compat.foreign.steps import ForeignPlan, ForeignStep, group_steps, guarded_steps, pair_steps

WITHIN_S = 180.0
SHOWN = 2500
NOW = "now"
"""The line of a program when it is time to kill a master."""
Opens = Callable[[Path], AbstractContextManager[MessageCluster]]
PARTS: dict[str, tuple[Opens, Callable[[ForeignPlan], Iterator[ForeignStep]]]] = {
    "pairs": (broker_pairs, pair_steps),
    "raft": (broker_group, group_steps),
    "users": (guarded_broker, guarded_steps),
}


def run(step: ForeignStep, cluster: MessageCluster, modules: str) -> tuple[bool, str]:
    """Returns True if the step showed the expected output, and its output.

    A master that it killed runs again afterwards.
    """
    process = subprocess.Popen(
        step.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NODE_PATH": modules},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(WITHIN_S, process.kill)
    timer.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if step.kills and line.strip() == NOW:
            process.stdin.write(f"{cluster.kill_master(step.kills)}\n")
            process.stdin.flush()
    status = process.wait()
    timer.cancel()
    cluster.restart()
    return step.is_kept(status, "".join(lines)), "".join(lines)


@click.command()
@click.option("--part", type=click.Choice(tuple(PARTS)), help="Only this kind of cluster.")
@click.option("--only", default="", help="A part of the names of the steps to run.")
def main(part: str | None, only: str) -> None:
    """Clients in other languages against pairs of a master and a slave, and against a raft group."""
    try:
        classpath = java_classpath()
    except ClientMissing as missing:
        raise click.ClickException(f"the Java client and its tool are not there: {missing}") from None
    modules, without_javascript = "", ""
    try:
        modules = javascript_modules()
    except ClientMissing as missing:
        without_javascript = f"not run: {missing}"
    table = Table("cluster", "command", "must show", "result", "s")
    broken = []
    for name, (opens, steps_of) in PARTS.items():
        if part not in (None, name):
            continue
        with tempfile.TemporaryDirectory(prefix="foreign-") as home, opens(Path(home)) as cluster:
            topic = f"foreign-{time.time_ns() // 10**6}"
            for step in steps_of(ForeignPlan(cluster.names, topic, classpath, Path(home))):
                if only not in step.name:
                    continue
                if without_javascript and step.needs_node:
                    table.add_row(name, step.name, step.shows, without_javascript, "")
                    continue
                began = time.monotonic()
                kept, output = run(step, cluster, modules)
                table.add_row(
                    name, step.name, step.shows, "pass" if kept else "FAIL", f"{time.monotonic() - began:.1f}"
                )
                for line in output.splitlines():
                    if line.startswith("master "):
                        sys.stderr.write(f"{step.name}: {line}\n")
                if not kept:
                    broken.append(step.name)
                    sys.stderr.write(f"--- {step.name}: {' '.join(step.command[-8:])}\n{output[-SHOWN:]}\n")
    console = Console(highlight=False)
    console.width = max(console.width, 130)
    console.print(table)
    console.print(f"{len(broken)} of {table.row_count} fail")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

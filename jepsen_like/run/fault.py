"""`quorumlog fault`: break the cluster that `quorumlog up` keeps running, look at it, or heal it."""

from pathlib import Path
from typing import Any

import click

from jepsen_like.cli import EnvironmentMissing, ExitStatus
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.fault_desk import ask
from jepsen_like.run.options import directory_option, suggest
from jepsen_like.run.up import DATA, description_of

HEAL, STATUS = "heal", "status"


@click.command()
@click.argument("what", metavar=f"KIND|{HEAL}|{STATUS}")
@click.option(
    "--target",
    type=click.Choice([each.value for each in Target]),
    default=None,
    help="What it hits.  [default: leader]",
)
@click.option("--node", "nodes", multiple=True, type=int, metavar="N", help="Hit this node; may be repeated.")
@click.option("--scope", default="", metavar="NAME", help="Whose leader is meant: a partition, controller; see status.")
@click.option(
    "--hold",
    "hold_s",
    type=click.FloatRange(0, min_open=True),
    default=None,
    metavar="S",
    help="Heal it by itself after so many seconds.  [default: when told to heal]",
)
@directory_option("--data", DATA, "Directory of the cluster: --data of quorumlog up.")
def fault(
    *, what: str, target: str | None, nodes: tuple[int, ...], scope: str, hold_s: float | None, data: Path
) -> ExitStatus:
    """Break the cluster of quorumlog up by a KIND of fault, heal all faults, or tell how it is.

    Exit status 0 if it was done, 3 if it was refused, 4 if no cluster is up.
    """
    if what not in (HEAL, STATUS, *KINDS):
        raise click.UsageError(f"no fault {what!r}; {suggest(what)}")
    request: dict[str, Any] = {"do": what}
    if what in KINDS:
        if nodes and target:
            raise click.UsageError("--node and --target: give one of them")
        request = {"do": "fault", "kind": what, "target": target, "nodes": nodes, "scope": scope, "hold_s": hold_s}
    try:
        answer = ask(data, request)
    except OSError as error:
        known = description_of(data) or {}
        option = f" --data {data}" if data != DATA else ""
        system = f" --system {known['system']} --nodes {known['nodes']}" if known else ""
        raise EnvironmentMissing(f"no cluster is up in {data}; run: quorumlog up{system}{option}") from error
    if "error" in answer:
        click.echo(f"quorumlog fault: {answer['error']}", err=True)
        return ExitStatus.UNKNOWN
    for line in answer["told"]:
        click.echo(line)
    return ExitStatus.VALID

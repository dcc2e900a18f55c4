"""`quorumlog fault`: break the cluster that `quorumlog up` keeps running, look at it, or heal it; or choose its answers."""

from pathlib import Path
from typing import Any

import click

from jepsen_like.cli import EnvironmentMissing, ExitStatus
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.fault_desk import ask
from jepsen_like.run.options import directory_option, suggest
from jepsen_like.run.up import DATA, description_of

HEAL, STATUS, ANSWER, UNDO, CHECK = "heal", "status", "answer", "undo", "check"
OTHERS = (HEAL, STATUS, ANSWER, UNDO, CHECK)


@click.command()
@click.argument("what", metavar="|".join(("KIND", *OTHERS)))
@click.argument("api", default="", metavar="[API]")
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
@click.option("--error", metavar="NAME", help="answer: with this error.")
@click.option("--delay", type=float, metavar="S", help="answer: so many seconds late.")
@click.option(
    "--disconnect",
    type=click.Choice(["before", "after"]),
    help="answer: end the connection before or after it is served.",
)
@click.option(
    "--times", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="answer: so many requests."
)
@click.option("--always", is_flag=True, help="answer: all requests.")
@click.option(
    "--call",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="answer: from the N-th request on.",
)
@click.option("--client-id", metavar="NAME", help="answer: only this client's requests.")
@click.option("--topic", metavar="NAME", help="answer: only requests that name this topic.")
@directory_option("--data", DATA, "Directory of the cluster: --data of quorumlog up, or of quorumlog proxy.")
def fault(
    *,
    what: str,
    api: str,
    target: str | None,
    nodes: tuple[int, ...],
    scope: str,
    hold_s: float | None,
    data: Path,
    times: int,
    always: bool,
    **words: Any,
) -> ExitStatus:
    """Break the cluster of quorumlog up by a KIND of fault, heal all faults, or tell how it is.

    With answer, requests of this API of Kafka get an error, a late answer or none; undo ends that. With check, the
    cluster is healed, all its copies are compared, and what clients reported as acknowledged is looked for.

    Exit status 0 if it was done, 1 if a check found a broken promise, 3 if it was refused, 4 if no cluster is up.
    """
    if what not in (*OTHERS, *KINDS):
        raise click.UsageError(f"no fault {what!r}; {suggest(what)}")
    if (what == ANSWER) != bool(api):
        raise click.UsageError("answer names an API of Kafka, and nothing else does: quorumlog fault answer EndTxn ...")
    request: dict[str, Any] = {"do": what}
    if what == ANSWER:
        given = {name: value for name, value in words.items() if value is not None}
        request["words"] = {"api": api, "times": None if always else times, **given}
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
    if "usage" in answer:
        raise click.UsageError(answer["error"])
    if "error" in answer:
        click.echo(f"quorumlog fault: {answer['error']}", err=True)
        return ExitStatus.UNKNOWN
    for line in answer["told"]:
        click.echo(line)
    if not answer.get("valid", True):
        for line in answer["broken"]:
            click.echo(line, err=True)
        return ExitStatus.VIOLATION
    return ExitStatus.VALID

"""`quorumlog topics`: list, describe, create and delete topics of a Kafka or RocketMQ cluster."""

from collections.abc import Sequence

import click

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.administration import TopicPlan, open_administration
from jepsen_like.operate.options import (
    BROKERS,
    Printer,
    certificates_of,
    cluster_option,
    json_option,
    run,
    tls_options,
    within_option,
)
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address
from raft.net.certificates import Certificates, TlsFiles

LIST, DESCRIBE, CREATE, DELETE = "list", "describe", "create", "delete"


@click.command()
@click.argument("action", type=click.Choice([LIST, DESCRIBE, CREATE, DELETE]), default=LIST)
@click.argument("name", required=False)
@cluster_option(BROKERS)
@tls_options
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="create: partitions; queues in RocketMQ.")
@click.option("--replication-factor", "replicas", type=click.IntRange(1), metavar="N", help="create: copies (Kafka).")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="create: a setting of the topic.")
@within_option
@json_option
def topics(
    *,
    action: str,
    name: str | None,
    cluster: tuple[Address, ...],
    tls: TlsFiles | None,
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    within_s: float,
    as_json: bool,
) -> ExitStatus:
    """List the topics, or describe, create or delete the topic NAME.

    Exit status 0 if it was done, 5 if it certainly was not, 3 if it is unknown.
    """
    if (name is None) != (action == LIST):
        raise click.UsageError(f"{action} takes {'no name' if action == LIST else 'the NAME of a topic'}")
    if action != CREATE and (partitions or replicas or settings):
        raise click.UsageError("--partitions, --replication-factor and --set are for create")
    plan = TopicPlan(name or "", partitions, replicas, dict(map(_setting, settings)))
    printer = Printer(as_json)
    rows = run(_topics, cluster, certificates_of(tls), within_s, action, plan)
    printer.rows(rows)
    if not rows:
        printer.nothing("there are no topics")
    return ExitStatus.VALID


def _setting(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set: {word!r} is not of the form NAME=VALUE")
    return name.strip(), value.strip()


async def _topics(
    cluster: tuple[Address, ...], tls: Certificates | None, within_s: float, action: str, plan: TopicPlan
) -> Sequence[Row]:
    administration = await open_administration(cluster, within_s, tls)
    match action:
        case "describe":
            rows = await administration.topic(plan.name)
        case "create":
            rows = await administration.create_topic(plan)
        case "delete":
            rows = await administration.delete_topic(plan.name)
        case _:
            rows = await administration.topics()
    for note in administration.notes:
        click.echo(f"quorumlog topics: {note}", err=True)
    return rows

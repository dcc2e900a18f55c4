"""`quorumlog groups`: the consumer groups of a Kafka or RocketMQ cluster, and how far they lag."""

from collections.abc import Sequence

import click

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.access import BrokerAccess
from jepsen_like.operate.administration import open_administration
from jepsen_like.operate.options import (
    BROKERS,
    Printer,
    access_options,
    cluster_option,
    json_option,
    run,
    within_option,
)
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address


@click.command()
@click.argument("name", required=False)
@cluster_option(BROKERS)
@access_options
@within_option
@json_option
def groups(
    *, name: str | None, cluster: tuple[Address, ...], access: BrokerAccess, within_s: float, as_json: bool
) -> ExitStatus:
    """Show the consumer groups with their lag, or where the group NAME is in each partition or queue.

    Exit status 0 if it is shown, 5 if not.
    """
    printer = Printer(as_json)
    rows = run(_groups, cluster, access, within_s, name)
    printer.rows(rows)
    if not rows:
        printer.nothing("there are no groups" if name is None else f"the group {name} has committed no position")
    return ExitStatus.VALID


async def _groups(
    cluster: tuple[Address, ...], access: BrokerAccess, within_s: float, name: str | None
) -> Sequence[Row]:
    administration = await open_administration(cluster, within_s, access)
    rows = await (administration.groups() if name is None else administration.group(name))
    for note in administration.notes:
        click.echo(f"quorumlog groups: {note}", err=True)
    return rows

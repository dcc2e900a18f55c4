"""`quorumlog brokers`: the brokers of a Kafka or RocketMQ cluster, their roles, and how far their copies are."""

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
@cluster_option(BROKERS)
@access_options
@within_option
@json_option
def brokers(*, cluster: tuple[Address, ...], access: BrokerAccess, within_s: float, as_json: bool) -> ExitStatus:
    """Show the brokers: role, epoch, the end of the log, and which copies are in sync.

    Exit status 0 if they are shown, 5 if not.
    """
    printer = Printer(as_json)
    rows = run(_brokers, cluster, access, within_s)
    printer.rows(rows)
    if not rows:
        printer.nothing("no broker is registered")
    return ExitStatus.VALID


async def _brokers(cluster: tuple[Address, ...], access: BrokerAccess, within_s: float) -> Sequence[Row]:
    administration = await open_administration(cluster, within_s, access)
    rows = await administration.brokers()
    for note in administration.notes:
        click.echo(f"quorumlog brokers: {note}", err=True)
    return rows

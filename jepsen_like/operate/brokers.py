"""`quorumlog brokers`: the brokers of a Kafka or RocketMQ cluster, their roles, and how far their copies are."""

import ssl
from collections.abc import Sequence

import click

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.administration import open_administration
from jepsen_like.operate.options import (
    BROKERS,
    Printer,
    cluster_option,
    context_of,
    json_option,
    run,
    tls_options,
    within_option,
)
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address
from raft.net.certificates import TlsFiles


@click.command()
@cluster_option(BROKERS)
@tls_options
@within_option
@json_option
def brokers(*, cluster: tuple[Address, ...], tls: TlsFiles | None, within_s: float, as_json: bool) -> ExitStatus:
    """Show the brokers: role, epoch, the end of the log, and which copies are in sync.

    Exit status 0 if they are shown, 5 if not.
    """
    printer = Printer(as_json)
    rows = run(_brokers, cluster, context_of(tls), within_s)
    printer.rows(rows)
    if not rows:
        printer.nothing("no broker is registered")
    return ExitStatus.VALID


async def _brokers(cluster: tuple[Address, ...], tls: ssl.SSLContext | None, within_s: float) -> Sequence[Row]:
    return await (await open_administration(cluster, within_s, tls)).brokers()

"""`quorumlog brokers`: the brokers of a Kafka or RocketMQ cluster, their roles, and how far their copies are."""

from collections.abc import Sequence

import click

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.administration import open_administration
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
    rows = run(_brokers, cluster, certificates_of(tls), within_s)
    printer.rows(rows)
    if not rows:
        printer.nothing("no broker is registered")
    return ExitStatus.VALID


async def _brokers(cluster: tuple[Address, ...], tls: Certificates | None, within_s: float) -> Sequence[Row]:
    return await (await open_administration(cluster, within_s, tls)).brokers()

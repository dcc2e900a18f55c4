"""`quorumlog ca`: a throw-away certificate authority, and certificates for nodes and clients of a cluster."""

from pathlib import Path

import click

from jepsen_like.cli import ExitStatus
from jepsen_like.cluster.authority import DAYS, Authority, UnusableAuthority


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="A certificate for this server; may be repeated.")
@click.option("--client", "clients", multiple=True, metavar="NAME", help="One for this client; may be repeated.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A name or address by which the servers are dialled, besides localhost; may be repeated.",
)
@click.option(
    "--days",
    type=click.FloatRange(0, 3650, min_open=True),
    default=DAYS,
    show_default=True,
    help="How long they are valid.",
)
def ca(
    directory: Path, nodes: tuple[str, ...], clients: tuple[str, ...], hosts: tuple[str, ...], days: float
) -> ExitStatus:
    """Make certificates in DIRECTORY, and the authority that signs them if it has none.

    A certificate that is there is replaced; running servers use the new one for new connections.
    """
    try:
        authority = Authority.at(directory)
        issued = [authority.issue_node(name, hosts, days=days) for name in nodes]
        issued += [authority.issue_client(name, days=days) for name in clients]
    except UnusableAuthority as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"authority   {authority.certificate}")
    for files in issued:
        click.echo(f"certificate {files.certificate}   key {files.key}")
    return ExitStatus.VALID

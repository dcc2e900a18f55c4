"""Options that the operator's commands share, and how they print."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click
import trio

from jepsen_like.operate.access import UnusableAccess, access_of
from jepsen_like.operate.addresses import AddressesType
from jepsen_like.operate.tables import Row, json_line, table_lines
from raft.net.certificates import TlsFiles, UnusableFiles

WITHIN_S: Final = 10.0
BROKERS: Final = "Brokers of a Kafka cluster or name servers of a RocketMQ one; one that is up will do."
T = TypeVar("T")
Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""The decorator that `click.option` returns."""


def cluster_option(help_text: str) -> Option:
    """`--cluster`, the addresses to begin with."""
    return click.option("--cluster", type=AddressesType(), required=True, help=help_text)


json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
within_option: Final = click.option(
    "--within",
    "within_s",
    type=click.FloatRange(0, min_open=True),
    default=WITHIN_S,
    show_default=True,
    metavar="S",
    help="Give up after so many seconds.",
)


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the flags of TLS as the parameter `tls`: the files of a client, or None without any."""

    def with_tls(
        tls: bool, tls_authority: str | None, tls_certificate: str | None, tls_key: str | None, **others: Any
    ) -> Any:
        named = (tls_authority, tls_certificate, tls_key)
        files = TlsFiles(authority=tls_authority, certificate=tls_certificate, key=tls_key)
        return command(tls=files if tls or any(named) else None, **others)

    functools.update_wrapper(with_tls, command)
    readable = click.Path(exists=True, dir_okay=False)
    for flag in (
        click.option("--tls-key", type=readable, help="The key of the certificate, if it is not in the same file."),
        click.option("--tls-certificate", type=readable, help="A certificate to show, where servers want one (PEM)."),
        click.option("--tls-authority", type=readable, help="The authorities of servers (PEM), if not the system's."),
        click.option("--tls", is_flag=True, help="Speak TLS; each of the flags of TLS means it, too."),
    ):
        with_tls = flag(with_tls)
    return with_tls


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the parameter `access`, from the flags of TLS and `--command-config`."""

    def with_access(tls: TlsFiles | None, command_config: Path | None, **others: Any) -> Any:
        try:
            access = access_of(tls, command_config)
        except UnusableFiles as error:
            raise click.UsageError(f"--tls: {error}") from None
        except UnusableAccess as error:
            raise click.UsageError(f"--command-config: {error}") from None
        return command(access=access, **others)

    functools.update_wrapper(with_access, command)
    return click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file of client properties: Kafka's sasl.* and ssl.*, or RocketMQ's accessKey and secretKey.",
    )(tls_options(with_access))


@attrs.define
class Printer:
    """Prints rows as they come: a table with one heading, or JSON. The columns are those of the first rows."""

    as_json: bool
    columns: Sequence[str] | None = None
    """The columns of the table, where the JSON has more."""
    _has_heading: bool = attrs.field(default=False, init=False)

    def rows(self, rows: Sequence[Row]) -> None:
        """Print rows, at once."""
        if self.as_json:
            for row in rows:
                click.echo(json_line(row))
            return
        if rows:
            for line in table_lines(rows, self.columns, heading=not self._has_heading):
                click.echo(line)
            self._has_heading = True

    def nothing(self, line: str) -> None:
        """Print a line in the place of a table without rows; a program gets no object."""
        if not self.as_json:
            click.echo(line)


def run(work: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Returns the result of work in Trio; raises its error bare, as the command line reports it."""
    try:
        return trio.run(work, *arguments)
    except BaseExceptionGroup as group:
        _, rest = group.split(click.ClickException)
        if rest is not None:
            raise
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None

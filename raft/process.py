"""The common parts of processes that serve one node: flags, JSON lines on stdout, garbage collection, the end.

Used by `raft.node`, and by the processes of other systems, whose harness then reads them in the same way.
"""

import gc
import importlib.util
import io
import json
import os
import select
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NoReturn

import attrs
import click
import trio

from log.errors import DirectoryLocked, NoSpace, StorageFailed
from raft import descriptors
from raft.addresses import Address, is_loopback
from raft.client_codec import CLUSTER_ID_LENGTH_MAX, NODE_ID_MAX
from raft.metrics import EVENTS, REFUSED, Figure, MetricsUnavailable, Observed
from raft.net.certificates import Certificates, ClientCertificates, TlsFiles, UnusableFiles
from raft.notices import Notice, event_of
from raft.secret_file import UnusableSecret, read_secret, require_members
from raft.trust import SecretSource

EXIT_UNEXPECTED = 1
"""Python's own, for an exception that nothing caught."""
EXIT_BROKEN_INVARIANT = 1
EXIT_ENVIRONMENT = 4


class EventWriter:
    """Writes events as lines to stdout, each at once. The node never waits for their reader."""

    def __init__(self) -> None:
        self._dropped = 0
        self.counts: Counter[str] = Counter()
        """The events so far, by name, those included that were dropped."""

    def __call__(self, event: str, **fields: object) -> None:
        """Write one line.

        It is dropped if the pipe is full, and the next line then contains the number of dropped ones.
        """
        self.counts[event] += 1
        try:
            if not self._has_room():
                self._dropped += 1
                return
            dropped = {"dropped": self._dropped} if self._dropped else {}
            line = json.dumps({"t_ns": time.monotonic_ns(), "time": _utc(), "event": event, **fields, **dropped})
            self._dropped = 0
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has closed the pipe. The node goes on, and all later output is discarded, the interpreter's
            # last flush included.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError:
            # Stdout may be a file on the very disk that is full, which is no reason to end. What is left in the buffer
            # goes out with a later line.
            return

    def notice(self, notice: Notice) -> None:
        """Write one line for a notice."""
        event, fields = event_of(notice)
        self(event, **fields)

    @staticmethod
    def _has_room() -> bool:
        """Returns True if a line fits without waiting: a writable pipe has room for 4 KiB."""
        try:
            return bool(select.select((), (sys.stdout.fileno(),), (), 0)[1])
        except io.UnsupportedOperation:
            return True  # not a file of the system: it is replaced within this process


def _utc() -> str:
    """Returns the time of the wall clock in ISO 8601, to the millisecond: `2026-01-31T12:00:00.000Z`."""
    return f"{datetime.now(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


class AddressType(click.ParamType[Address]):
    """`HOST:PORT`."""

    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """See `click.ParamType`."""
        host, colon, port = str(value).rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not of the form HOST:PORT", param, ctx)
        return host.strip("[]"), int(port)


class MetricsAddressType(click.ParamType[Address]):
    """`[HOST:]PORT`, on loopback without a host."""

    name = "[HOST:]PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """See `click.ParamType`."""
        text = str(value).removeprefix(":")
        return AddressType().convert(text if ":" in text else f"127.0.0.1:{text}", param, ctx)


def metrics_flag(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the flag `--metrics`, which needs a package of its own."""
    return click.option(
        "--metrics",
        type=MetricsAddressType(),
        callback=_require_prometheus,
        help="Serve metrics, health and readiness over HTTP; on loopback without a HOST. [default: off]",
    )(command)


def _require_prometheus(context: click.Context, parameter: click.Parameter, value: Address | None) -> Address | None:
    if value is not None and importlib.util.find_spec("prometheus_client") is None:
        raise click.UsageError(
            "--metrics needs the package prometheus-client, which cannot be imported here; "
            f"run: {sys.executable} -m pip install 'quorumlog[prometheus]'"
        )
    return value


class NodeAddressType(click.ParamType[tuple[int, Address]]):
    """`ID=HOST:PORT`."""

    name = "ID=HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, Address]:
        """See `click.ParamType`."""
        node, equals, address = str(value).partition("=")
        if not equals or not node.isdecimal() or not 1 <= int(node) <= NODE_ID_MAX:
            self.fail(f"{value!r} is not of the form ID=HOST:PORT", param, ctx)
        return int(node), AddressType().convert(address, param, ctx)


def checked_cluster_id(cluster_id: str) -> str:
    """Returns the same. Raises `click.UsageError` for one that is too long or empty."""
    if not 1 <= len(cluster_id) <= CLUSTER_ID_LENGTH_MAX:
        raise click.UsageError(f"--cluster-id has 1 to {CLUSTER_ID_LENGTH_MAX} characters")
    return cluster_id


def trust_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the flags `--secret-file` and `--insecure`; see `secret_for`."""
    for flag in (
        click.option(
            "--insecure", is_flag=True, help="Listen beyond loopback without a secret: all that connect are believed."
        ),
        click.option(
            "--secret-file",
            type=click.Path(dir_okay=False),
            help="The secret by which members know each other; made by `quorumlog secret`.",
        ),
    ):
        command = flag(command)
    return command


def secret_for(*listen: Address, secret_file: str | None, insecure: bool) -> SecretSource | None:
    """Returns the secret of a process that listens at these addresses; None for one that believes all.

    Raises `click.UsageError` without a secret beyond loopback, and for a file that cannot be used.
    """
    if secret_file is not None:
        try:
            secret = read_secret(secret_file)
            require_members(secret)
            return secret
        except UnusableSecret as error:
            raise click.UsageError(f"--secret-file: {error}") from None
    reached = [host for host, port in listen if not is_loopback((host, port))]
    if reached and not insecure:
        raise click.UsageError(
            f"{reached[0]} can be reached from outside, and there is no secret by which members know each other. Run: "
            "quorumlog secret FILE, copy FILE to every member, and start each with --secret-file FILE (or with --insecure)"
        )
    return None


def tls_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the flags of TLS; see `tls_for`."""
    for flag in (
        click.option(
            "--tls-clients",
            type=click.Choice([each.value for each in ClientCertificates]),
            default=ClientCertificates.NONE.value,
            show_default=True,
            help="Whether those who connect must have a certificate, too.",
        ),
        click.option("--tls-authority", help="The authorities of others' certificates, as PEM; without, the system's."),
        click.option("--tls-key", help="The key of the certificate; without, it is in the same file."),
        click.option(
            "--tls-certificate", help="Speak TLS with this certificate (PEM), for example one of `quorumlog ca`."
        ),
    ):
        command = flag(command)
    return command


def tls_for(certificate: str | None, key: str | None, authority: str | None, clients: str) -> Certificates | None:
    """Returns the certificates that the flags name; None without any. Raises `click.UsageError`."""
    if certificate is None:
        if key is not None or authority is not None:
            raise click.UsageError("--tls-key and --tls-authority go with --tls-certificate")
        return None
    files = TlsFiles(certificate=certificate, key=key, authority=authority, clients=ClientCertificates(clients))
    try:
        return Certificates(files)
    except UnusableFiles as error:
        raise click.UsageError(f"--tls-certificate, --tls-key, --tls-authority: {error}") from None


def unique_addresses(
    flag: str, addresses: tuple[tuple[int, Address], ...], *, forbidden: int | None = None
) -> dict[int, Address]:
    """Returns the addresses by node. Raises `click.UsageError` for a node that is named twice or `forbidden`."""
    unique: dict[int, Address] = {}
    for member, address in addresses:
        if member == forbidden:
            raise click.UsageError(f"{flag} names node {member}, which is this node itself")
        if member in unique:
            raise click.UsageError(f"{flag} names node {member} twice")
        unique[member] = address
    return unique


def members_apart(members: dict[int, Address]) -> dict[int, Address]:
    """Returns the same. Raises `click.UsageError` if two nodes have one address."""
    at: dict[Address, int] = {}
    for member, address in members.items():
        if address in at:
            host, port = address
            raise click.UsageError(f"--peer names {host}:{port} for node {member}, where node {at[address]} is")
        at[address] = member
    return members


def tame_garbage_collection() -> None:
    """Exclude long-lived objects from garbage collection.

    A full collection walks every entry in the cache: 0.2 s and more for 400,000 small ones, during which a leader is
    silent. What this program drops it drops by reference counts (no connection leaves a cycle), so the young do.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 10_000)


def leaves_of(error: BaseException) -> list[BaseException]:
    """Returns the exceptions that an exception group holds, at any depth; of any other exception itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves_of(each)]
    return [error]


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns what ended a nursery.

    Several tasks may fall at once; an exception that is not just a consequence of shutting down comes first.
    """
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return first_cause(error)
        return error
    return group


@attrs.define(kw_only=True)
class ServerProcess:
    """One process that serves: it runs to its end, and what ends it badly is told in one line and by a status.

    The line is the event `failed` with `reason` and `status`, and what follows `quorumlog NAME:` on stderr.
    """

    name: str
    """As the command is called: `node`, `broker`."""
    listen: Address
    directory: str
    """As `--data` gives it."""
    tell: EventWriter
    started: bool = False
    """True once the port and the directory are open: a later failure has other reasons. The caller sets it."""
    metrics: Address | None = None
    """As `--metrics` gives it."""
    observed: Observed | None = None
    """The server while it runs. The caller sets it."""

    def figures(self) -> list[Figure]:
        """See `Observed`: those of the process, and of the server while it runs."""
        counts = self.tell.counts
        own = [EVENTS(count, event) for event, count in sorted(counts.items())]
        return [
            *own,
            REFUSED(counts["connection_refused"]),
            *(() if self.observed is None else self.observed.figures()),
        ]

    def obstacle(self) -> str | None:
        """See `Observed`."""
        return f"the {self.name} has not started" if self.observed is None else self.observed.obstacle()

    async def _serve(self, serve: Callable[[], Awaitable[None]]) -> None:
        """Run `serve`, and serve metrics meanwhile if they are asked for. Raises `MetricsUnavailable`."""
        if self.metrics is None:
            await serve()
            return
        from raft.metrics_server import metrics_served  # its package is an extra

        async with metrics_served(self.metrics, self) as (host, port):
            self.tell("metrics", address=f"{host}:{port}")
            await serve()

    def run(self, serve: Callable[[], Awaitable[None]], explain: Callable[[BaseException], str | None]) -> None:
        """Run `serve` in Trio until it returns.

        An error that has its reason outside of this program ends the process with `EXIT_ENVIRONMENT` and one line about
        it, with its correction: `explain` knows those of the system, this class those of directory, disk and port. A
        broken invariant ends it with `EXIT_BROKEN_INVARIANT`; any other error is told and raised.
        """
        descriptors.raise_limit()
        tame_garbage_collection()
        try:
            trio.run(self._serve, serve, strict_exception_groups=True)
        except BaseExceptionGroup as group:
            self._end_for(first_cause(group), explain)
        except Exception as error:  # noqa: BLE001 - the top of the process: told apart and re-raised below
            self._end_for(error, explain)

    def _end_for(self, error: BaseException, explain: Callable[[BaseException], str | None]) -> NoReturn:
        line = explain(error) or self._explain(error)
        if line is not None:
            self._end(EXIT_ENVIRONMENT, line)
        if isinstance(error, AssertionError):
            traceback.print_exception(error)
            self._end(EXIT_BROKEN_INVARIANT, f"broken invariant: {error}")
        self.tell("failed", reason=f"{type(error).__name__}: {error}", status=EXIT_UNEXPECTED)
        raise error

    def _explain(self, error: BaseException) -> str | None:
        """Returns one line about an error of the directory, the disk or the port; None for any other one."""
        host, port = self.listen
        match error:
            case MetricsUnavailable():
                return f"{error}; choose another --metrics"
            case DirectoryLocked(by_this_process=True):
                return f"{error}; choose another --data"
            case DirectoryLocked():
                return f"{error}; stop that process or choose another --data"
            case NoSpace():
                return f"{error}; free some space"
            case StorageFailed() if not self.started:
                return f"cannot use --data {self.directory}: {error}; choose a directory that this user can write"
            case StorageFailed():
                return f"{error}; the {self.name} stops, since what the disk holds is not known. Check --data {self.directory} and the disk"
            case OSError() if not self.started:
                return f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --listen or stop what holds it"
            case _:
                return None

    def _end(self, status: int, line: str) -> NoReturn:
        self.tell("failed", reason=line, status=status)
        sys.stderr.write(f"quorumlog {self.name}: {line}\n")
        sys.exit(status)

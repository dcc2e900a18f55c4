"""`quorumlog append`, `read`, `tail` and `status`: the log of a raft group, and the state of its nodes.

All but `status` go through `raft.Client`, which finds the leader. Reads are linearizable. An append ends with one of three
statuses: committed (0), certainly not appended (5), unknown (3). What was committed before a failure has been printed.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import attrs
import click
import trio

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.addresses import text_of_cluster
from jepsen_like.operate.options import Printer, cluster_option, json_option, run, tls_options, within_option
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.operate.tables import Row, record_fields
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.reports import ask_each
from raft.client import Client, Connection, Unreachable
from raft.errors import NotAdmitted, NotLeader, ProtocolError, RaftError, RecordsTrimmed
from raft.net.certificates import Certificates, TlsFiles, UnusableFiles
from raft.secret_file import UnusableSecret, read_secret
from raft.trust import SecretSource

CLUSTER_ID: Final = "quorumlog"
BATCH_RECORDS_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
LINES: Final = 10
FOLLOW_EVERY_S: Final = 0.2
STATUS_WITHIN_S: Final = 2.0
LEADER: Final = "leader"
STATUS_COLUMNS: Final = (
    "node", "address", "role", "term", "leader", "start", "committed", "end", "applied_index", "durable_index",
    "last_index", "longest_turn_ms", "note",
)  # fmt: skip


@attrs.frozen
class GroupAccess:
    """The addresses of a raft group, and the name that its nodes ask for."""

    addresses: tuple[Address, ...]
    cluster_id: str
    within_s: float
    secret_file: str | None = None
    secret: SecretSource | None = None
    tls: Certificates | None = None

    @property
    def flags(self) -> str:
        """As another command takes it; the flags of TLS are left to its user."""
        named = f" --cluster-id {self.cluster_id}" if self.cluster_id != CLUSTER_ID else ""
        proved = f" --secret-file {self.secret_file}" if self.secret_file is not None else ""
        return f"--cluster {text_of_cluster(self.addresses)}{named}{proved}"

    def client(self) -> Client:
        """Returns a client that looks for the leader from these addresses."""
        addresses = list(map(text_of, self.addresses))
        return Client(addresses, self.cluster_id, deadline_s=self.within_s, secret=self.secret, tls=self.tls)

    def connection(self, address: Address) -> AbstractAsyncContextManager[Connection]:
        """Returns a connection to one node, closed at the end of the block."""
        return Connection.open(*address, self.cluster_id, secret=self.secret, tls=self.tls)

    def failure(self, error: RaftError, before: str = "") -> click.ClickException:
        """Returns the end of a command for an error of the group; `before`: what happened before it."""
        advice = ""
        match error:
            case RecordsTrimmed(start_offset=start):
                advice = f"run: quorumlog read --from {start} {self.flags}"
            case NotAdmitted():
                advice = "give --secret-file the file that its nodes were started with"
            case ProtocolError():
                advice = "name the cluster with --cluster-id, as its nodes were started"
            case Unreachable() | NotLeader():
                advice = f"look at its nodes: quorumlog status {self.flags}"
            case _:
                advice = "" if error.definite else f"see what is there: quorumlog tail {self.flags}"
        text = "; ".join(filter(None, (before, f"{error}".rstrip("."), advice)))
        return NotDone(text) if error.definite else PerhapsDone(text)


def group_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the parameter `access`, from all that reaches and convinces a group, and `--json` as `as_json`."""

    def with_access(
        cluster: tuple[Address, ...],
        cluster_id: str,
        within_s: float,
        secret_file: str | None,
        tls: TlsFiles | None,
        **others: Any,
    ) -> Any:
        try:
            secret = None if secret_file is None else read_secret(secret_file)
            certificates = None if tls is None else Certificates(tls)
        except (UnusableSecret, UnusableFiles) as error:
            raise click.UsageError(f"{error}") from None
        access = GroupAccess(cluster, cluster_id, within_s, secret_file, secret, certificates)
        return command(access=access, **others)

    functools.update_wrapper(with_access, command)
    proved = click.option("--secret-file", metavar="FILE", help="The secret of the cluster, or of a role that reaches.")
    named = click.option(
        "--cluster-id", default=CLUSTER_ID, show_default=True, metavar="ID", help="As the nodes were started."
    )
    return cluster_option("The nodes of the group; one that is up will do.")(
        named(proved(tls_options(within_option(json_option(with_access)))))
    )


# -------------------------------------------------------------------- append


@click.command()
@click.argument("records", nargs=-1)
@group_options
def append(*, access: GroupAccess, as_json: bool, records: tuple[str, ...]) -> ExitStatus:
    """Append RECORDS to the log of a raft group, or without any the lines of standard input.

    Exit status 0 if all are committed, 5 if certainly no more were appended than the table shows, 3 if it is unknown.
    """
    given: Iterable[bytes] = (
        (record.encode(errors="surrogateescape") for record in records)
        if records
        else (line.rstrip(b"\n") for line in sys.stdin.buffer)
    )
    run(_append, access, given, Printer(as_json))
    return ExitStatus.VALID


async def _append(access: GroupAccess, given: Iterable[bytes], printer: Printer) -> None:
    committed = 0
    async with access.client() as client:
        for batch in batches_of(given):
            try:
                appended = await client.append(batch)
            except RaftError as error:
                before = f"{committed} records are committed; of the next {len(batch)}" if committed else ""
                raise access.failure(error, before) from error
            committed += appended.count
            printer.rows([{"offset": appended.base_offset, "records": appended.count, "term": appended.epoch}])
    if not committed:
        raise click.UsageError("there is nothing to append: name records, or give lines on standard input")


def batches_of(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yields the records in batches, each within bounds of count and bytes, and at least one."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if batch and (len(batch) == BATCH_RECORDS_MAX or size + len(record) > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record)
    if batch:
        yield batch


# -------------------------------------------------------------------- read


@click.command()
@click.option(
    "--from", "start", type=click.IntRange(0), default=None, metavar="OFFSET", help="[default: the start of the log]"
)
@click.option("--count", type=click.IntRange(1), default=None, metavar="N", help="[default: to the committed end]")
@group_options
def read(*, access: GroupAccess, as_json: bool, start: int | None, count: int | None) -> ExitStatus:
    """Read committed records of a raft group.

    Exit status 0 if all of them are printed, 5 if not.
    """
    run(_read, access, start, count, Printer(as_json))
    return ExitStatus.VALID


async def _read(access: GroupAccess, start: int | None, count: int | None, printer: Printer) -> None:
    try:
        async with access.client() as client:
            end = (await client.tail()).committed_end
            if not await _print_records(client, printer, start or 0, end, begins=start is None, count=count):
                printer.nothing(f"there is no record from offset {start or 0} on; the log ends at {end}")
    except RaftError as error:
        raise access.failure(error) from error


async def _print_records(
    client: Client, printer: Printer, offset: int, end: int, *, begins: bool, count: int | None = None
) -> int:
    """Print the records from `offset` to `end`, `count` at most; with `begins`, from the start of the log if it is later.

    Returns how many were printed.
    """
    printed = 0
    while offset < end and printed != count:
        try:
            batches = (await client.read(offset, READ_BYTES)).batches
        except RecordsTrimmed as error:
            if not begins or error.start_offset <= offset:
                raise
            offset = error.start_offset
            continue
        rows: list[Row] = [
            {"offset": at, "term": batch.epoch, **record_fields(record, as_json=printer.as_json)}
            for batch in batches
            for at, record in enumerate(batch.records(), batch.base_offset)
            if offset <= at < end
        ]
        if count is not None:
            del rows[count - printed :]
        if not rows:
            break
        printer.rows(rows)
        printed += len(rows)
        offset = rows[-1]["offset"] + 1
    return printed


# -------------------------------------------------------------------- tail


@click.command()
@click.option("--lines", type=click.IntRange(0), default=LINES, show_default=True, metavar="N", help="Records to show.")
@click.option("--follow", is_flag=True, help="Show what is committed from now on, until Ctrl-C.")
@group_options
def tail(*, access: GroupAccess, as_json: bool, lines: int, follow: bool) -> ExitStatus:
    """Show the last records of a raft group, and follow it.

    Exit status 0 if all of them are printed, 5 if not.
    """
    run(_tail, access, lines, follow, Printer(as_json))
    return ExitStatus.VALID


async def _tail(access: GroupAccess, lines: int, follow: bool, printer: Printer) -> None:
    try:
        async with access.client() as client:
            end = (await client.tail()).committed_end
            offset = max(0, end - lines)
            if offset == end and not follow:
                printer.nothing(f"the log ends at {end}")
            while True:
                await _print_records(client, printer, offset, end, begins=True)
                if not follow:
                    return
                sys.stdout.flush()
                offset = end
                await trio.sleep(FOLLOW_EVERY_S)
                end = max(end, (await client.tail()).committed_end)
    except RaftError as error:
        raise access.failure(error) from error


# -------------------------------------------------------------------- status


@click.command()
@group_options
def status(*, access: GroupAccess, as_json: bool) -> ExitStatus:
    """Show each node of a raft group: its role and term, and how far its log is committed, applied and durable.

    Exit status 0 if one of the nodes leads, 5 if none does.
    """
    rows = run(statuses, access)
    if as_json:
        Printer(as_json=True).rows(rows)
    else:
        Printer(as_json=False, columns=STATUS_COLUMNS).rows([status_row(row) for row in rows])
    if not any(row.get("role") == LEADER for row in rows):
        raise NotDone(no_leader(rows))
    return ExitStatus.VALID


async def statuses(access: GroupAccess) -> list[Row]:
    """Returns a row for each address: the status of its node, or why there is none."""

    async def ask(at: int) -> Row:
        host, port = access.addresses[at]
        address = text_of((host, port))
        try:
            with trio.fail_after(min(STATUS_WITHIN_S, access.within_s)):
                async with access.connection((host, port)) as connection:
                    return {"address": address, **await connection.status()}
        except trio.TooSlowError:
            return {"address": address, "error": f"no answer within {STATUS_WITHIN_S:g} s"}
        except RaftError as error:
            return {"address": address, "error": str(error)}

    return list((await ask_each(range(len(access.addresses)), ask)).values())


def status_row(status: Row) -> Row:
    """Returns a node's status, as it reports it, as a row of the table. Offsets have other names than indexes."""
    return {
        **status,
        "role": status.get("role", "silent"),
        "start": status.get("start_offset"),
        "committed": status.get("committed_end"),
        "end": status.get("end_offset"),
        "note": status.get("error") or "; ".join(_notes(status)) or None,
    }


def _notes(status: Row) -> Iterator[str]:
    if unheard := status.get("unheard"):
        yield f"has forgotten, and waits for {', '.join(f'node {node}' for node in unheard)}"
    if (floor := status.get("floor_index") or 0) > (status.get("last_index") or 0):
        yield f"fetches its log up to {floor}"


def no_leader(rows: Sequence[Row]) -> str:
    """Returns the reason why a group does nothing, and what to do."""
    answered = [row for row in rows if "error" not in row]
    if not answered:
        return "no node answers: check --cluster and --cluster-id, or start the nodes"
    voters = next((row["voters"] for row in answered if row.get("voters")), ())
    majority = len(voters) // 2 + 1
    if len(answered) < majority:
        return f"no node leads: {len(answered)} of {len(voters)} answer, and it takes {majority}; start the others"
    waiting = sorted({node for row in answered for node in row.get("unheard") or ()})
    if waiting:
        return f"no node leads: a node that has forgotten waits for {', '.join(f'node {each}' for each in waiting)}; start it"
    return "no node leads: an election may be under way; ask again in a few seconds"

"""The node process: one `RaftGroup` behind a command with flags, which reports what it does in JSON lines.

Every line on stdout is one object with `t_ns` (monotonic clock), `time` (UTC, ISO 8601) and `event`: `started` (the port is
open), `role`, `members` (another configuration is in force, or is `committed` now), `link_up`, `link_down`, `link_refused`, `connection_closed`, `connection_refused` (each with its reason),
`storage_full`, `disk_stalled`, `trimmed` (where the log begins now), `snapshot_installed` (it was reset to the leader's
snapshot), `snapshot_too_large` (nothing leaves the log), `frame_too_large` (a peer takes smaller ones), `set_aside`
(its log is damaged or missing, and it learns from the others what it must not go back behind), `standing_learned` (it
has), `long_turn` (for how long its loop served no one, and because of which work), `stopping`, `stopped`, and before a
bad end `broken_invariant` (with the node's state) and `failed`. SIGTERM and SIGINT stop it cleanly. A reader of stdout
that is slow or has closed its end does not stop it: lines without room are dropped, and the next line counts them as
`dropped`.

Exit status: 0 stopped when asked; 1 a broken invariant, with the node's state in the event before the last; 2 wrong
usage; 4 the environment does not allow it: the port is taken, the directory cannot be used, belongs to another node, is
locked or damaged, or the disk failed.
"""

import signal
from collections.abc import Mapping
from functools import partial

import attrs
import click
import trio

from log.errors import CorruptLog, ForeignLog
from raft.addresses import Address
from raft.client_codec import NODE_ID_MAX
from raft.directory import IncompleteDirectory, WrongDirectory, WrongMembers
from raft.errors import SnapshotDiverged, StateMachineFailed, WrongStateMachine
from raft.group import RaftGroup
from raft.net.certificates import Certificates
from raft.process import (
    AddressType,
    EventWriter,
    NodeAddressType,
    ServerProcess,
    checked_cluster_id,
    members_apart,
    metrics_flag,
    secret_for,
    tls_flags,
    tls_for,
    trust_flags,
    unique_addresses,
)
from raft.register import RegisterMachine
from raft.settings import NodeSettings, WrongSetting, known_settings, parse_settings
from raft.state_machine import StateMachine
from raft.trust import SecretSource

STATE_MACHINES: Mapping[str, type[StateMachine]] = {"register": RegisterMachine}


tell = EventWriter()


@attrs.frozen(kw_only=True)
class _NodePlan:
    """The checked flags."""

    node_id: int
    cluster_id: str
    listen: Address
    directory: str
    members: dict[int, Address]
    advertised: dict[int, str]
    state_machine: type[StateMachine]
    settings: NodeSettings
    secret: SecretSource | None
    insecure: bool
    tls: Certificates | None
    skipped: tuple[int, ...]
    joins: bool


@click.command(
    "node", short_help="Run one node of a replicated log.", epilog=f"Settings for --set: {', '.join(known_settings())}."
)
@click.option("--id", "node_id", type=click.IntRange(1, NODE_ID_MAX), required=True, help="This node's id.")
@click.option("--cluster-id", required=True, help="Connections that name another cluster are refused.")
@click.option("--listen", type=AddressType(), required=True, help="Where this node listens.")
@click.option(
    "--data", "directory", type=click.Path(file_okay=False), required=True, help="The log's directory; made if missing."
)
@click.option(
    "--peer", "peers", type=NodeAddressType(), multiple=True, help="Where this node dials another; once for each."
)
@click.option(
    "--advertise", type=NodeAddressType(), multiple=True, help="Where clients reach a node, if not where it is dialled."
)
@metrics_flag
@click.option(
    "--skip-command",
    "skipped",
    type=click.IntRange(1),
    multiple=True,
    metavar="INDEX",
    help="A command that has no effect, on all nodes alike: the way on when none can apply it; may be repeated.",
)
@click.option(
    "--joins", is_flag=True, help="The group is there without this node; each --peer is a present member of it."
)
@click.option("--state-machine", type=click.Choice(sorted(STATE_MACHINES)), default="register", show_default=True)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A setting; see below.")
@trust_flags
@tls_flags
def node(
    node_id: int,
    cluster_id: str,
    listen: Address,
    directory: str,
    metrics: Address | None,
    skipped: tuple[int, ...],
    peers: tuple[tuple[int, Address], ...],
    advertise: tuple[tuple[int, Address], ...],
    joins: bool,
    state_machine: str,
    assignments: tuple[str, ...],
    secret_file: str | None,
    insecure: bool,
    tls_certificate: str | None,
    tls_key: str | None,
    tls_authority: str | None,
    tls_clients: str,
) -> None:
    """Run one node until SIGTERM; prints one JSON object a line."""
    try:
        settings = parse_settings(assignments)
    except WrongSetting as error:
        raise click.UsageError(f"--set: {error}") from None
    plan = _NodePlan(
        node_id=node_id,
        cluster_id=checked_cluster_id(cluster_id),
        listen=listen,
        directory=directory,
        members=members_apart({node_id: listen, **unique_addresses("--peer", peers, forbidden=node_id)}),
        advertised={
            member: f"{host}:{port}" for member, (host, port) in unique_addresses("--advertise", advertise).items()
        },
        state_machine=STATE_MACHINES[state_machine],
        settings=settings,
        secret=secret_for(listen, secret_file=secret_file, insecure=insecure),
        insecure=insecure,
        tls=tls_for(tls_certificate, tls_key, tls_authority, tls_clients),
        skipped=skipped,
        joins=joins,
    )
    unknown = sorted(plan.advertised.keys() - plan.members.keys())
    if unknown:
        raise click.UsageError(f"--advertise names node {unknown[0]}, for which there is no --peer")
    process = ServerProcess(name="node", listen=listen, directory=directory, tell=tell, metrics=metrics)
    process.run(partial(_serve, plan, process), lambda error: _explain(error, started=process.started))


# -------------------------------------------------------------------- running


async def _serve(plan: _NodePlan, process: ServerProcess) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with RaftGroup.open(
            node_id=plan.node_id,
            members=plan.members,
            directory=plan.directory,
            cluster_id=plan.cluster_id,
            listen=plan.listen,
            advertised=plan.advertised,
            joins=plan.joins,
            state_machine=plan.state_machine(),
            settings=plan.settings,
            skip_commands=plan.skipped,
            notify=tell.notice,
            owns_thread=True,
            secret=plan.secret,
            insecure=plan.insecure,
            tls=plan.tls,
        ) as group:
            host, port = group.address
            process.started, process.observed = True, group
            recovery = attrs.asdict(group.recovery)
            tell("started", node=plan.node_id, address=f"{host}:{port}", recovery=recovery, **_place(group))
            async for number in signals:
                tell("stopping", signal=signal.Signals(number).name)
                break
    tell("stopped")


def _place(group: RaftGroup) -> dict[str, object]:
    status = group.status()
    return {name: status[name] for name in ("term", "last_index", "end_offset")}


def _explain(error: BaseException, *, started: bool) -> str | None:
    """Returns one line about an error of the group's directory, with its correction; None for any other error."""
    match error:
        case WrongDirectory() | IncompleteDirectory():
            return f"{error} (--data)"
        case ForeignLog():
            return (
                f"{error}; nothing was changed. Start it with the version that wrote it, or give it a --data of its own"
            )
        case WrongStateMachine():
            return f"{error}, or start it with the --state-machine it had"
        case StateMachineFailed(index=index):
            return (
                f"{error}. Or, if no member has got beyond {index}, start them all with --skip-command {index}: the "
                "command then has no effect"
            )
        case SnapshotDiverged():
            return f"{error}; the node stops. With all other nodes up, start it with an empty --data: it fetches the log from them"
        case WrongMembers():
            return f"{error}; name them with --peer, whatever their addresses are now"
        case CorruptLog() if started:
            return (
                f"{error}; the node stops. Start it again: it cuts off what is damaged and fetches it from the others"
            )
        case CorruptLog():
            return f"{error}; nothing was changed, and no other node has a copy: restore --data from one of yours"
        case _:
            return None


if __name__ == "__main__":
    node()

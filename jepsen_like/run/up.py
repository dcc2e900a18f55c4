"""`quorumlog up`: a cluster for clients of one's own, running until Ctrl-C, that `quorumlog fault` breaks from another terminal.

Standard output is one line, what clients need to reach it. Clients and nodes go through the same fault network as in a run. The data
stays in `--data`: up again goes on with it. With `--http` programs break it, too (`desk_http`). Only `--bind` opens either to other
machines: clients of Kafka and RocketMQ need no secret there, the HTTP API needs a token.
"""

import ipaddress
import json
import os
import re
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import click
import trio

from jepsen_like.cli import EnvironmentMissing, ExitStatus, first_cause
from jepsen_like.cluster import namespaces
from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.location import ANY_HOST, ON_LOOPBACK, ClientDoors
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.ports import LOOPBACK, CannotListen, listen_at
from jepsen_like.cluster.preload import NoLibrary
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.cluster.volumes import NoVolumes
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.table import kinds_named
from jepsen_like.port.port import Mode, NotServing, System, WrongMode
from jepsen_like.port.wires import Address, Network
from jepsen_like.port.zones import ZonePlan
from jepsen_like.run.desk_http import HttpDesk
from jepsen_like.run.fault_desk import FaultDesk, ask, desk_open
from jepsen_like.run.options import (
    choose,
    directory_option,
    network_option,
    nodes_option,
    one_of,
    parse_nemesis,
    system_option,
    tls_option,
    unless_given,
    zone_options,
    zones_fit,
)

DATA: Final = Path("runs/up")
TOKEN: Final = "QUORUMLOG_HTTP_TOKEN"
TOKEN_LENGTH_MIN: Final = 16
TOKEN_CHARACTERS: Final = re.compile(rf"[A-Za-z0-9\-._~+/=]{{{TOKEN_LENGTH_MIN},}}")
BACKLOG: Final = 64
PORT_MAX: Final = 65535
SERVES_WITHIN_S: Final = 30.0
POLL_S: Final = 0.1
LOOK_EVERY_S: Final = 0.5
DESCRIPTION: Final = "up.json"
NODES_DIRECTORY: Final = "nodes"
COULD_NOT_START: Final = (NodeDidNotStart, NotServing, NoVolumes, NoLibrary, CannotListen, namespaces.NoNamespaces)


@attrs.frozen(kw_only=True)
class UpPlan:
    """A cluster to keep up."""

    data: Path
    system: System
    mode: Mode
    nodes: int
    cluster_id: str
    needs: frozenset[Need]
    network: Network
    wait_s: float
    tls: bool
    zones: ZonePlan
    doors: ClientDoors
    http: socket.socket | None
    """The socket of the HTTP API."""
    token: str | None
    """The token that its requests need."""


def parse_door(context: click.Context, parameter: click.Parameter, value: str) -> Address:
    """Returns the host and the port in `HOST[:PORT]`, 0 without one. Raises `BadParameter`."""
    host, colon, port = value.partition(":")
    if bool(host) != bool(value) or (colon and not (port.isdecimal() and 0 < int(port) <= PORT_MAX)):
        raise click.BadParameter(
            f"{value!r} is not HOST or HOST:PORT; an IPv6 address is not taken", context, parameter
        )
    return host, int(port or 0)


@click.command()
@system_option("What to start")
@click.option(
    "--replication", default=None, metavar="NAME", help="Replication protocol.  [default: the system's first]"
)
@nodes_option
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of every node; may be repeated."
)
@directory_option("--data", DATA, "Directory of the nodes' data; what is there is gone on with.")
@click.option(
    "--faults",
    "kinds",
    default="none",
    callback=parse_nemesis,
    metavar="A,B,C",
    help="Be ready for faults that need more than a plain directory: power, clock-jump, disk-slow and others; or all.",
)
@network_option("How nodes are connected; as of quorumlog run.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, min_open=True),
    default=SERVES_WITHIN_S,
    show_default=True,
    metavar="S",
    help="How long the nodes may take to serve; a busy machine needs more.",
)
@tls_option
@zone_options
@click.option(
    "--bind",
    default=LOOPBACK,
    show_default=True,
    metavar="HOST[:PORT]",
    callback=parse_door,
    help="Where clients connect; node N at PORT + N - 1, or any free port.",
)
@click.option(
    "--advertise",
    default="",
    metavar="HOST[:PORT]",
    callback=parse_door,
    help="What clients are given as the nodes' addresses, counted alike.  [default: --bind]",
)
@click.option(
    "--http",
    "http_port",
    type=click.IntRange(0, PORT_MAX),
    default=None,
    metavar="PORT",
    help=f"Serve the HTTP API, at the host of --bind; 0 is any port. ${TOKEN} holds a token that requests need.",
)
def up(
    *,
    system: System,
    replication: str | None,
    nodes: int,
    settings: tuple[str, ...],
    data: Path,
    kinds: tuple[str, ...],
    network: str,
    wait_s: float,
    tls: bool,
    zones: ZonePlan,
    bind: Address,
    advertise: Address,
    http_port: int | None,
) -> ExitStatus:
    """Start a cluster and keep it running until Ctrl-C; print one line: what clients need to reach it.

    Exit status 0 after Ctrl-C, 4 if the cluster could not be started.
    """
    if (lack := system.lacking()) is not None:
        raise EnvironmentMissing(lack)
    here = Here(nodes, Network(network), zones.count)
    doors = doors_of(bind, advertise, here.network, len(system.members_in_zones(nodes, zones.count)))
    token = None if http_port is None else token_for(doors.host, os.environ.get(TOKEN))
    needs = frozenset[Need]().union(*(kind.needs for kind in kinds_named(choose(kinds, here, system.refused))))
    try:
        words = (*unless_given(system.standing_settings, settings), *settings)
        mode = system.configure(words, one_of("--replication", replication, system.replications)).on(nodes)
    except WrongMode as error:
        raise click.UsageError(str(error)) from error
    zones_fit(zones, system, mode, nodes)
    cluster_id = claim(data, system, nodes, zones.text if zones.count else "")
    try:
        http = None if http_port is None else listen_at(doors.host, http_port, backlog=BACKLOG)
    except CannotListen as error:
        raise EnvironmentMissing(f"the HTTP API {error}; choose another port with --http") from error
    plan = UpPlan(
        data=data,
        system=system,
        mode=mode,
        nodes=nodes,
        cluster_id=cluster_id,
        needs=needs,
        network=here.network,
        wait_s=wait_s,
        tls=tls,
        zones=zones,
        doors=doors,
        http=http,
        token=token,
    )
    try:
        trio.run(keep_up, plan)
    except BaseExceptionGroup as group:
        expected, rest = group.split(COULD_NOT_START)
        if expected is None or rest is not None:
            raise
        raise EnvironmentMissing(f"{first_cause(expected)}; see {data / NODES_DIRECTORY}") from group
    return ExitStatus.VALID


def doors_of(bind: Address, advertise: Address, network: Network, members: int) -> ClientDoors:
    """Returns the doors that the options describe. Raises `UsageError`."""
    doors = ClientDoors(*bind, *advertise)
    if network is not Network.PROXIES and doors != ON_LOOPBACK:
        raise click.UsageError(f"--bind and --advertise need --network {Network.PROXIES}")
    if doors.host == ANY_HOST and not doors.advertised_host:
        raise click.UsageError(f"no client can connect to {ANY_HOST}: name an address that leads here with --advertise")
    for port in (doors.port, doors.advertised_port):
        if port + members - 1 > PORT_MAX:
            raise click.UsageError(f"{members} ports from {port} on are too many; the last one is {PORT_MAX}")
    return doors


def token_for(host: str, token: str | None) -> str | None:
    """Returns the token that the HTTP API at this host asks for; None for none. Raises `UsageError` if it needs one."""
    if token:
        if not TOKEN_CHARACTERS.fullmatch(token):
            raise click.UsageError(
                f"${TOKEN} is no token: it takes {TOKEN_LENGTH_MIN} or more of A-Z a-z 0-9 - . _ ~ + /"
            )
        return token
    if is_loopback(host):
        return None
    raise click.UsageError(f"at {host} others reach the HTTP API: set ${TOKEN} to a token that they do not know")


def is_loopback(host: str) -> bool:
    """Returns True if only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def claim(data: Path, system: System, nodes: int, zones: str = "") -> str:
    """Make or accept a directory. Returns the cluster's id. Raises `EnvironmentMissing` if another's or in use."""
    description = data / DESCRIPTION
    try:
        data.mkdir(parents=True, exist_ok=True)
        found = json.loads(description.read_text()) if description.exists() else None
    except (OSError, ValueError) as error:
        raise EnvironmentMissing(f"cannot use {data}: {error}; choose another directory with --data") from error
    if found is None:
        if any(data.iterdir()):
            raise EnvironmentMissing(f"{data} holds something else; choose another directory with --data")
        found = {"system": system.name, "nodes": nodes, "cluster_id": f"up-{system.name}", "zones": zones}
        description.write_text(json.dumps(found) + "\n")
    if (found.get("system"), found.get("nodes")) != (system.name, nodes):
        raise EnvironmentMissing(
            f"{data} is of {found.get('nodes')} nodes of {found.get('system')}; remove it, or choose another directory with --data"
        )
    if found.get("zones", "") != zones:
        raise EnvironmentMissing(
            f"{data} is of a cluster with --zones {found.get('zones') or 'unset'}; give the same, remove it, or choose another directory with --data"
        )
    if is_up(data):
        raise EnvironmentMissing(f"a cluster is up in {data} already; choose another directory with --data")
    return str(found["cluster_id"])


def is_up(data: Path) -> bool:
    """Returns True if a cluster answers in this directory."""
    try:
        ask(data, {"do": "nothing"})
    except OSError:
        return False
    return True


async def keep_up(plan: UpPlan) -> None:
    """Run the cluster until SIGINT or SIGTERM, then let the nodes end; a second signal ends them. Raises, in a group, what `open_cluster` raises, and `NotServing`."""
    everything, serving = trio.CancelScope(), trio.CancelScope()

    async def until_told(*, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                (everything if serving.cancel_called or not is_open else serving).cancel()

    is_open = False
    async with trio.open_nursery() as nursery:
        await nursery.start(until_told)
        http = _open_http(plan, nursery)
        with everything:
            async with open_cluster(
                plan.data / NODES_DIRECTORY,
                plan.system,
                plan.mode,
                nodes=plan.nodes,
                cluster_id=plan.cluster_id,
                needs=plan.needs,
                network=plan.network,
                tls=plan.tls,
                zones=plan.zones,
                doors=plan.doors,
            ) as cluster:
                is_open = True
                with serving:
                    await _serve(plan, cluster, http)
                http.desk = None
                for node in cluster.nodes.values():
                    node.resume()
        nursery.cancel_scope.cancel()


def _open_http(plan: UpPlan, nursery: trio.Nursery) -> HttpDesk:
    """Returns what serves HTTP, if that is wanted: from now on, though the cluster comes later."""
    http = HttpDesk(plan.token)
    if plan.http is not None:
        plan.http.setblocking(False)
        nursery.start_soon(http.serve, [trio.SocketListener(trio.socket.from_stdlib_socket(plan.http))])
        host, port = plan.http.getsockname()[:2]
        _news(f"HTTP API at http://{host}:{port}" + (f", with the token of ${TOKEN}" if plan.token else ""))
    return http


async def _serve(plan: UpPlan, cluster: Cluster, http: HttpDesk) -> None:
    """Until cancelled."""
    with trio.move_on_after(plan.wait_s) as patience:
        while not await cluster.control.is_serving():  # noqa: ASYNC110 - only the nodes know
            await trio.sleep(POLL_S)
    if patience.cancelled_caught:
        raise NotServing(f"the nodes did not serve within {plan.wait_s:g} s of the start; --wait gives them longer")
    data = plan.data
    async with trio.open_nursery() as nursery:
        desk = http.desk = FaultDesk(cluster, nursery, plan.needs, _news)
        async with desk_open(data, desk):
            click.echo(cluster.system.address_line(cluster.entrances))
            _news(f"{len(cluster.members)} nodes of {cluster.system.name} serve; Ctrl-C ends them")
            for zone in cluster.zones.names:
                _news(f"zone {zone}: {', '.join(f'n{node}' for node in cluster.zones.members(zone)) or 'no node'}")
            if (papers := cluster.access.tls) is not None:
                _news(
                    f"clients speak TLS; authority {papers.authority}, a client's certificate and key {papers.keystore}"
                )
            if cluster.system.clients_need_secret:
                _news(f"clients of cluster {cluster.cluster_id} need the secret in {cluster.access.secret}")
            option = f" --data {data}" if data != DATA else ""
            _news(
                f"break them: quorumlog fault kill{option}; heal: quorumlog fault heal{option}; faults: {', '.join(desk.kinds())}"
            )
            told = 0
            while True:
                await trio.sleep(LOOK_EVERY_S)
                ends = cluster.unasked_ends
                for line in ends[told:]:
                    _news(line)
                told = len(ends)


def _news(line: str) -> None:
    click.echo(line, err=True)


def description_of(data: Path) -> Mapping[str, Any] | None:
    """Returns what is known of the cluster of a directory; None if there never was one."""
    try:
        found = json.loads((data / DESCRIPTION).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None

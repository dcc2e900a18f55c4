"""`quorumlog up`: a cluster for clients of one's own, running until Ctrl-C, that `quorumlog fault` breaks from another terminal.

Standard output is one line, what clients need to reach it. Clients and nodes go through the same fault network as in a run. The data
stays in `--data`: up again goes on with it.
"""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import trio

from jepsen_like.cli import EnvironmentMissing, ExitStatus, first_cause
from jepsen_like.cluster import namespaces
from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.preload import NoLibrary
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.cluster.volumes import NoVolumes
from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.table import kinds_named
from jepsen_like.port.port import Mode, NotServing, System, WrongMode
from jepsen_like.port.wires import Network
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
)

DATA: Final = Path("runs/up")
SERVES_WITHIN_S: Final = 30.0
POLL_S: Final = 0.1
LOOK_EVERY_S: Final = 0.5
DESCRIPTION: Final = "up.json"
NODES_DIRECTORY: Final = "nodes"


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
) -> ExitStatus:
    """Start a cluster and keep it running until Ctrl-C; print one line: what clients need to reach it.

    Exit status 0 after Ctrl-C, 4 if the cluster could not be started.
    """
    if (lack := system.lacking()) is not None:
        raise EnvironmentMissing(lack)
    here = Here(nodes, Network(network))
    needs = frozenset[Need]().union(*(kind.needs for kind in kinds_named(choose(kinds, here, system.refused))))
    try:
        words = (*unless_given(system.standing_settings, settings), *settings)
        mode = system.configure(words, one_of("--replication", replication, system.replications)).on(nodes)
    except WrongMode as error:
        raise click.UsageError(str(error)) from error
    cluster_id = claim(data, system, nodes)
    try:
        trio.run(keep_up, data, system, mode, nodes, cluster_id, needs, here.network, wait_s, tls)
    except BaseExceptionGroup as group:
        expected, rest = group.split((NodeDidNotStart, NotServing, NoVolumes, NoLibrary, namespaces.NoNamespaces))
        if expected is None or rest is not None:
            raise
        raise EnvironmentMissing(f"{first_cause(expected)}; see {data / NODES_DIRECTORY}") from group
    return ExitStatus.VALID


def claim(data: Path, system: System, nodes: int) -> str:
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
        found = {"system": system.name, "nodes": nodes, "cluster_id": f"up-{system.name}"}
        description.write_text(json.dumps(found) + "\n")
    if (found.get("system"), found.get("nodes")) != (system.name, nodes):
        raise EnvironmentMissing(
            f"{data} is of {found.get('nodes')} nodes of {found.get('system')}; remove it, or choose another directory with --data"
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


async def keep_up(
    data: Path,
    system: System,
    mode: Mode,
    nodes: int,
    cluster_id: str,
    needs: frozenset[Need],
    network: Network = Network.PROXIES,
    wait_s: float = SERVES_WITHIN_S,
    tls: bool = False,
) -> None:
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
        with everything:
            async with open_cluster(
                data / NODES_DIRECTORY,
                system,
                mode,
                nodes=nodes,
                cluster_id=cluster_id,
                needs=needs,
                network=network,
                tls=tls,
            ) as cluster:
                is_open = True
                with serving:
                    await _serve(data, cluster, needs, wait_s)
                for node in cluster.nodes.values():
                    node.resume()
        nursery.cancel_scope.cancel()


async def _serve(data: Path, cluster: Cluster, needs: frozenset[Need], wait_s: float) -> None:
    """Until cancelled."""
    with trio.move_on_after(wait_s) as patience:
        while not await cluster.control.is_serving():  # noqa: ASYNC110 - only the nodes know
            await trio.sleep(POLL_S)
    if patience.cancelled_caught:
        raise NotServing(f"the nodes did not serve within {wait_s:g} s of the start; --wait gives them longer")
    async with trio.open_nursery() as nursery:
        desk = FaultDesk(cluster, nursery, needs, _news)
        async with desk_open(data, desk):
            click.echo(cluster.system.address_line(cluster.client_addresses))
            _news(f"{len(cluster.members)} nodes of {cluster.system.name} serve; Ctrl-C ends them")
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

"""A cluster that others run, as the harness holds it: addresses, and what is seen over the network.

No process of it is ours, and nothing lies between it and its clients. So faults are its owner's (`nemesis.hooks`), and
roles are those that the control sees when it asks.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.keys import Keys
from jepsen_like.cluster.location import Site
from jepsen_like.cluster.process import NodeProcess
from jepsen_like.port.observations import LEADER, Reports, RoleSeen
from jepsen_like.port.port import Access, Leadership, Member, Mode, NotServing, RunningCluster, Scope, System
from jepsen_like.port.wires import Address, Condition, Evidence, Pair, Route

LOOK_EVERY_S: Final = 0.1
CLEARED_WITHIN_S: Final = 30.0


class RemoteNode(NodeProcess):
    """A process elsewhere: it is never started, stopped or read here."""

    @property
    def is_running(self) -> bool:
        """It is its owner's to run: while a fault holds it, questions go unanswered."""
        return True

    @property
    def is_ready(self) -> bool:
        """See `is_running`."""
        return True

    def observe(self) -> str:
        """It is out of sight."""
        return f"n{self.node} runs elsewhere"


class NoWires:
    """The network of a cluster elsewhere, on which nothing can be imposed."""

    def lay(self, routes: Iterable[Route]) -> None:
        """No line leads through here."""

    def impose(self, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> None:
        """No kind of fault for such a cluster asks for it."""
        raise AssertionError("the network of another machine is not ours to break")

    def reset(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> int:
        """See `impose`."""
        raise AssertionError("the network of another machine is not ours to break")

    def heal(self) -> None:
        """It is as it was."""

    def evidence(self) -> list[Evidence]:
        """There is none."""
        return []


@asynccontextmanager
async def open_target(
    directory: Path,
    system: System,
    mode: Mode,
    target: RunningCluster,
    *,
    cluster_id: str,
    report: Callable[[str], None],
) -> AsyncIterator[Cluster]:
    """Look at a cluster that runs; in the end remove what the run made there. Raises `NotServing`.

    `directory`/<id>/events.jsonl gets what is seen of each process; `report` is told what stays there.
    """
    found = await system.find_members(target)
    members = [Member(node, system.member_role) for node in sorted(found)]
    reports = Reports()
    nodes = {node: RemoteNode(node, (), directory / str(node), system, lambda *seen: None) for node in sorted(found)}
    async with trio.open_nursery() as nursery:
        cluster = Cluster(
            Access(cluster_id, target=target),
            system,
            mode,
            members,
            nodes,
            {},
            _site(found),
            nursery,
            reports,
            Keys(None, None, None),
        )
        nursery.start_soon(_look, cluster, directory)
        try:
            yield cluster
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLEARED_WITHIN_S):
                try:
                    if left := await cluster.control.clear():
                        report(left)
                except NotServing as error:
                    report(str(error))
            nursery.cancel_scope.cancel()


def _site(addresses: Mapping[int, Address]) -> Site:
    return Site(
        wires=NoWires(),
        listen=addresses,
        peers={},
        clients=addresses,
        advertised=addresses,
        direct=addresses,
        through={},
    )


async def _look(cluster: Cluster, directory: Path) -> None:
    """Write down each change of a leader, as processes of ours report it themselves."""
    known: dict[Scope, Leadership] = {}
    for node in cluster.nodes:
        (directory / str(node)).mkdir(parents=True, exist_ok=True)
    while True:
        t_ns = time.monotonic_ns()
        for scope, leader in (await cluster.control.leaders()).items():
            if known.get(scope) == leader:
                continue
            known[scope] = leader
            cluster.reports.roles.append(RoleSeen(leader.node, t_ns, LEADER, leader.epoch, scope))
            in_sync = await cluster.control.in_sync(scope)
            event = {"t_ns": t_ns, "event": "leads", "scope": scope, "epoch": leader.epoch, "in_sync": in_sync}
            with (directory / str(leader.node) / "events.jsonl").open("a") as kept:
                kept.write(json.dumps(event) + "\n")
        await trio.sleep(LOOK_EVERY_S)

"""Faults of processes: killed, stopped, asked to end; and the one after which the disk is a new one."""

import random
from collections.abc import Collection, Sequence
from typing import ClassVar, Final

import attrs

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import DrawnAs, MachineKind, Reach, Seen, Withheld, look_at
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.port.file_damage import empty_disk
from jepsen_like.port.port import Scope

CAUGHT_UP_WITHIN_S: Final = 20.0
ENTRANCES: Final = (Target.ENTRANCE, Target.ENTRANCES)


class ProcessKind(MachineKind):
    """A fault of whole processes."""

    targets: ClassVar[tuple[Target, ...]] = (Target.ONE, Target.MINORITY, Target.MAJORITY, Target.ALL)
    takes_zones: ClassVar[bool] = True
    takes_down: ClassVar[bool] = True
    drawn_as: ClassVar[DrawnAs | None] = "down"

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """Those that hold no data are asked of the cluster later."""
        if target in ENTRANCES:
            return ResolvedTarget((), seed=rng.getrandbits(32), entrance=target)
        return super().select(rng, target, nodes, leader)

    async def locate(self, cluster: Cluster, scope: Scope, hit: ResolvedTarget) -> ResolvedTarget:
        """One or all of those that hold no data, where they are meant."""
        if hit.entrance is None:
            return await super().locate(cluster, scope, hit)
        found = sorted(member.id for member in cluster.members.values() if not member.holds_data)
        if not found:
            raise Withheld("every process of this cluster holds data")
        chosen = found if hit.entrance is Target.ENTRANCES else [random.Random(hit.seed).choice(found)]
        return attrs.evolve(hit, nodes=tuple(chosen))

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Start what does not run."""
        await cluster.restart(hit.nodes)
        return look_at(cluster, hit.nodes)


class Kill(ProcessKind):
    """SIGKILL, then started again with its disk."""

    name: ClassVar[str] = "kill"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All together."""
        await cluster.kill(hit.nodes)
        return look_at(cluster, hit.nodes)


class Restart(ProcessKind):
    """SIGTERM, a clean end, then started again."""

    name: ClassVar[str] = "restart"
    targets: ClassVar[tuple[Target, ...]] = (Target.ONE, Target.ALL)

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All together."""
        await cluster.stop(hit.nodes)
        return look_at(cluster, hit.nodes)


class Pause(ProcessKind):
    """SIGSTOP, then SIGCONT: it resumes with old beliefs."""

    name: ClassVar[str] = "pause"
    drawn_as: ClassVar[DrawnAs | None] = "paused"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All together."""
        await cluster.pause(hit.nodes)
        return look_at(cluster, hit.nodes)

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Let them go on."""
        for node in hit.nodes:
            cluster.nodes[node].resume()
        return look_at(cluster, hit.nodes)


class DiskLost(ProcessKind):
    """A fault after which a disk is a new one."""

    serves_within_s: ClassVar[float] = 20.0
    """All that another node holds is copied to the node."""
    reach: ClassVar[Reach] = Reach.DISK
    takes_zones: ClassVar[bool] = False
    damages: ClassVar[bool] = True


class MasterLost(DiskLost):
    """One of the leader, in systems whose roles are given; in others nodes elect."""

    targets: ClassVar[tuple[Target, ...]] = ()
    nodes_min: ClassVar[int] = 2


def empty(cluster: Cluster, node: int) -> int:
    """Take away the data of a node that is down. Returns how many bytes that were."""
    return empty_disk(cluster.nodes[node].machine.data, cluster.system.kept_by_wipe)


async def await_copies(cluster: Cluster, hit: Collection[int]) -> None:
    """Wait until all other nodes hold everything. Raises `Withheld` if that takes too long."""
    others = [node for node in cluster.targets if node not in hit]
    if not await cluster.wait_until_caught_up(others, within_s=CAUGHT_UP_WITHIN_S):
        raise Withheld(f"the other nodes did not hold everything within {CAUGHT_UP_WITHIN_S:g} s")


class Wipe(DiskLost):
    """SIGKILL, the data directory emptied while the process is down, then started again with nothing.

    Where the mode survives that, it waits until the other nodes hold everything: without another copy any system loses.
    """

    name: ClassVar[str] = "wipe"
    targets: ClassVar[tuple[Target, ...]] = (Target.ONE, Target.MINORITY)
    nodes_min: ClassVar[int] = 3

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Killed together, then emptied one by one."""
        if cluster.mode.survives(self.name):
            await await_copies(cluster, hit.nodes)
        await cluster.kill(hit.nodes)
        seen = look_at(cluster, hit.nodes)
        for node in hit.nodes:
            removed = empty(cluster, node)
            seen[str(node)] += f"; {removed:,} bytes removed"
        return seen


class PromoteByHand(MasterLost):
    """The leader dies for good; an operator lets the fullest node lead, and the old one follow on an empty disk."""

    name: ClassVar[str] = "promote-by-hand"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Killed and emptied; then the others are started again with another leader."""
        (old,) = hit.nodes
        await cluster.kill(hit.nodes)
        seen = look_at(cluster, hit.nodes)
        removed = empty(cluster, old)
        successor = await cluster.control.successor(old)
        if successor is None:
            return {**seen, "successor": "none answers"}
        await cluster.promote(successor)
        return {**seen, "successor": f"n{successor} leads, {removed:,} bytes of n{old} removed"}


class WipeMaster(MasterLost):
    """The leader loses its disk, and is started again at once, empty and in its old role, as an automatic restart does.

    In the end an operator lets the node lead that holds the most, and starts the old one, emptied, as its follower.
    """

    name: ClassVar[str] = "wipe-master"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Killed, emptied and started."""
        (old,) = hit.nodes
        await cluster.kill(hit.nodes)
        dead = cluster.nodes[old].observe()
        removed = empty(cluster, old)
        await cluster.restart(hit.nodes)
        return {str(old): f"{dead}; {removed:,} bytes removed; started again, {cluster.nodes[old].observe()}"}

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Promote another one, without which the old one goes on."""
        (old,) = hit.nodes
        successor = await cluster.control.successor(old)
        if successor is None:
            return {**await super().undo(cluster, hit), "successor": "none answers"}
        await cluster.kill(hit.nodes)
        empty(cluster, old)
        await cluster.promote(successor)
        return {**await super().undo(cluster, hit), "successor": f"n{successor} leads"}

"""Faults of what lies on disks, met at a start: flipped bits, and files, copies and whole disks that are gone.

All nodes that are hit are stopped and started, in an order that is drawn; the disks of some of them are touched while
they are down. Of a fault that stops everything only one disk is touched: the others hold all that was acknowledged, and
the order of stops and starts is what could make a system forget that.
"""

import random
from collections.abc import Sequence
from typing import ClassVar, Final

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.process import NodeProcess
from jepsen_like.nemesis.kind import DrawnAs, MachineKind, Reach, Seen, Withheld, look_at
from jepsen_like.nemesis.processes import await_copies
from jepsen_like.nemesis.stops import Order, Stops
from jepsen_like.nemesis.targets import ResolvedTarget, Target, processes
from jepsen_like.port.file_damage import Damage, damage, differences, is_damageable, list_files, vanish, vanishable

LAST_CHANCE: Final = 0.5
"""The probability that the disk of the node stopped last is the one that is touched, when all are stopped."""
TOUCHED: Final = "disk of"
"""Begins the name of what was seen of a disk."""


class ContentKind(MachineKind):
    """Stop, touch, start."""

    targets: ClassVar[tuple[Target, ...]] = (Target.ALL, Target.ONE, Target.MINORITY)
    serves_within_s: ClassVar[float] = 20.0
    """A start that mends its disk reads all that the node holds, or copies it from others."""
    takes_down: ClassVar[bool] = True
    drawn_as: ClassVar[DrawnAs | None] = "down"
    damages: ClassVar[bool] = True
    nodes_min: ClassVar[int] = 2

    def finds(self, cluster: Cluster, process: NodeProcess) -> bool:
        """Returns True if a node has something that it could be done to."""
        raise NotImplementedError

    def touch(self, cluster: Cluster, process: NodeProcess, rng: random.Random) -> str | None:
        """Do it to the disk of a node that is down. Returns what was done, or None if there was nothing to harm."""
        raise NotImplementedError

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """So many nodes; of a minority or less every disk, of all one."""
        hit, seed = processes(rng, target, nodes, leader), rng.getrandbits(32)
        if target is not Target.ALL:
            return ResolvedTarget(hit, seed=seed)
        last = Stops.draw(hit, seed).nodes[-1]
        return ResolvedTarget(hit, seed=seed, harmed=(last if rng.random() < LAST_CHANCE else rng.choice(hit),))

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Complete when those that stay down are down, and every disk is touched."""
        if bare := [node for node in hit.damaged if not self.finds(cluster, cluster.nodes[node])]:
            raise Withheld(f"n{bare[0]} had nothing yet that it could be done to")
        if cluster.mode.may_hold_alone:  # else nothing could be promised
            await await_copies(cluster, hit.damaged)
        stops, rng = Stops.draw(hit.nodes, hit.seed), random.Random(hit.seed)
        seen: Seen = {"order": str(stops)}
        for number, group in enumerate(stops.groups, 1):
            await stops.stop(cluster, group)
            for node in group:
                seen |= self._touch_and_observe(cluster, node, rng, is_harmed=node in hit.damaged)
            if stops.order is Order.ROLLING and number < len(stops.groups):
                await cluster.restart(group)
        return seen

    def _touch_and_observe(self, cluster: Cluster, node: int, rng: random.Random, *, is_harmed: bool) -> Seen:
        """Touch the disk of one node, and look at it before and after. Returns what is seen of process and disk."""
        process = cluster.nodes[node]
        state = process.observe()
        if not is_harmed:
            return {str(node): state}
        data = process.machine.data
        before = list_files(data)
        done = self.touch(cluster, process, rng)
        seen = differences(before, list_files(data))
        return {
            str(node): f"{state}; {done or 'there was nothing to do it to'}",
            f"{TOUCHED} {node}": f"n{node} seen from outside: {seen or 'as before'}",
        }

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Start them, and read what they have: damage that a start does not meet is met then."""
        found_before = {node: cluster.nodes[node].ends_of_damage for node in hit.nodes}
        await Stops.draw(hit.nodes, hit.seed).start(cluster)
        async with trio.open_nursery() as nursery:
            for node in hit.damaged:
                nursery.start_soon(cluster.control.read_through, node)
        seen = look_at(cluster, hit.nodes)
        for node in hit.nodes:
            if cluster.nodes[node].ends_of_damage > found_before[node]:
                seen[str(node)] += ", met the damage when it was read, ended itself and was started again"
        return seen


class DamagedFiles(ContentKind):
    """A bit of a node's files flips, or an index is gone. Started again, it must mend itself."""

    name: ClassVar[str] = "damage"
    reach: ClassVar[Reach] = Reach.UNFLUSHED
    """Damage of what was never flushed has no witness on that disk: it looks like a torn write, and is cut as one."""

    def finds(self, cluster: Cluster, process: NodeProcess) -> bool:
        """Any segment."""
        return is_damageable(process.machine.data, cluster.system.files)

    def touch(self, cluster: Cluster, process: NodeProcess, rng: random.Random) -> str | None:
        """The first kind of damage, in an order that is drawn, that there is something for."""
        data, files = process.machine.data, cluster.system.files
        for kind in rng.sample(list(Damage), len(Damage)):
            if done := damage(data, files, kind, rng):
                process.unmet_damages += files.damage_status is not None
                return f"{kind}: {done}"
        return None


class Vanished(ContentKind):
    """A file, a copy's directory or all of the disk is gone; the node must not start as if it were new."""

    name: ClassVar[str] = "vanish"
    reach: ClassVar[Reach] = Reach.DISK

    def finds(self, cluster: Cluster, process: NodeProcess) -> bool:
        """Anything that this system allows to be gone."""
        data, system = process.machine.data, cluster.system
        return any(vanishable(data, system.files, kind, ()) for kind in system.files.absences)

    def touch(self, cluster: Cluster, process: NodeProcess, rng: random.Random) -> str | None:
        """The first kind of absence that this system allows, in an order that is drawn, that there is something for.

        Nothing lies on another disk: what a node knows of its cluster, and its vote, may be gone as well.
        """
        data, system = process.machine.data, cluster.system
        for kind in rng.sample(system.files.absences, len(system.files.absences)):
            if done := vanish(data, system.files, kind, (), rng):
                process.unmet_damages += system.files.damage_status is not None
                return f"{kind}: {done}"
        return None


CONTENT_KINDS: Final = (DamagedFiles.name, Vanished.name)

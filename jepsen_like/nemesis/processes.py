"""Faults of processes: killed, stopped, asked to end. A disk keeps what was written to it."""

import random
from collections.abc import Sequence
from typing import ClassVar

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import DrawnAs, NemesisKind, Seen, look_at
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target, processes


class ProcessKind(NemesisKind):
    """What is done to whole processes."""

    lane: ClassVar[Lane] = Lane.MACHINE
    targets: ClassVar[tuple[Target, ...]] = (Target.ONE, Target.MINORITY, Target.MAJORITY, Target.ALL)
    takes_down: ClassVar[bool] = True
    drawn_as: ClassVar[DrawnAs | None] = "down"

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """So many nodes."""
        return ResolvedTarget(processes(rng, target, nodes, leader), seed=rng.getrandbits(32))

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

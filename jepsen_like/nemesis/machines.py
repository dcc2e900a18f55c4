"""Faults of what a process runs on: its power, its clocks. Disks are in `disks`."""

import math
import random
from collections.abc import Sequence
from typing import ClassVar, Final

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.preload import SECOND_NS, FaultPage, Word
from jepsen_like.nemesis.kind import DrawnAs, NemesisKind, Reach, Seen, look_at
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target, processes

JUMPS_S: Final = (60, -60, 3600, -3600)
STROBE_PERIODS_S: Final = (0.002, 0.05, 0.5)
STROBE_CHANCE: Final = 0.25
RATES: Final = (0.5, 0.8, 1.25, 2.0)
TOLD_WITHIN_S: Final = 1.0
"""A process asks a healed clock for the time within this time."""
TOLD_FOR_S: Final = 0.1
"""Over which time the rate of a healed clock is measured."""
POLL_S: Final = 0.02


class MachineKind(NemesisKind):
    """A fault of whole machines."""

    lane: ClassVar[Lane] = Lane.MACHINE
    targets: ClassVar[tuple[Target, ...]] = (Target.ALL, Target.ONE, Target.MINORITY, Target.MAJORITY)

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """So many nodes."""
        return ResolvedTarget(processes(rng, target, nodes, leader), seed=rng.getrandbits(32))


class Power(MachineKind):
    """A power cut: what no flush has secured is lost, with the process; then the power comes back."""

    name: ClassVar[str] = "power"
    serves_within_s: ClassVar[float] = 15.0
    reach: ClassVar[Reach] = Reach.UNFLUSHED
    takes_down: ClassVar[bool] = True
    drawn_as: ClassVar[DrawnAs | None] = "down"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.POWER})

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All at once."""
        written = {node: cluster.nodes[node].machine.written_bytes() for node in hit.nodes}
        await cluster.cut_power(hit.nodes)
        return {
            node: f"{state}, its files held {written[int(node)]:,} bytes"
            for node, state in look_at(cluster, hit.nodes).items()
        }

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Mount what was unmounted, see what is left, and start."""
        found = {}
        for node in hit.nodes:
            machine = cluster.nodes[node].machine
            if not cluster.nodes[node].is_running:
                machine.boot()
            found[str(node)] = f"{machine.written_bytes():,} bytes were left"
        await cluster.restart(hit.nodes)
        return {node: f"{state}, {found[node]}" for node, state in look_at(cluster, hit.nodes).items()}


class ClockKind(MachineKind):
    """A fault of a process's clock, by the library in it."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.LIBRARY})

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Right clocks; a monotonic one that was off goes on from where it is."""
        for page in pages(cluster, hit).values():
            page.heal_clocks()
        told: Seen = {}
        async with trio.open_nursery() as nursery:
            for node, page in pages(cluster, hit).items():
                nursery.start_soon(_await_right_clock, node, page, told)
        return look_at(cluster, hit.nodes) | told


async def _await_right_clock(node: int, page: FaultPage, told: Seen) -> None:
    """Put into `told` what the process has read from both clocks since now; "did not ask" where it read neither."""
    wall_before, real_before_ns = page[Word.WALL_READS], page[Word.MONOTONIC_REAL_NS]
    await trio.sleep(POLL_S)  # a reading that was under way is over, and the next ones are of the healed clock
    own_ns, real_ns = page[Word.MONOTONIC_OWN_NS], page[Word.MONOTONIC_REAL_NS]
    with trio.move_on_after(TOLD_WITHIN_S):
        while True:
            await trio.sleep(POLL_S)
            measured_s = (page[Word.MONOTONIC_REAL_NS] - real_ns) / SECOND_NS
            if page[Word.WALL_READS] >= wall_before + 2 and measured_s >= TOLD_FOR_S:
                break
    parts = []
    if page[Word.WALL_READS] >= wall_before + 2:
        off_s = (page[Word.WALL_OWN_NS] - page[Word.WALL_REAL_NS]) / SECOND_NS
        parts.append(f"told the wall time {off_s:+.3f} s off")
    if real_ns > real_before_ns and page[Word.MONOTONIC_REAL_NS] > real_ns:
        rate = (page[Word.MONOTONIC_OWN_NS] - own_ns) / (page[Word.MONOTONIC_REAL_NS] - real_ns)
        parts.append(f"told a time {rate:.2f} times as fast")
    told[f"clock of {node}"] = f"n{node} healed: {', '.join(parts) or 'did not ask the time'}"


class ClockJump(ClockKind):
    """The wall clock jumps by a minute or an hour, there or back, or to and fro many times a second."""

    name: ClassVar[str] = "clock-jump"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Each node has a time of its own."""
        rng = random.Random(hit.seed)
        seen = {}
        for node, page in pages(cluster, hit).items():
            jump_s = rng.choice(JUMPS_S)
            if rng.random() < STROBE_CHANCE:
                period_s = rng.choice(STROBE_PERIODS_S)
                page.strobe_wall(jump_s * SECOND_NS, round(period_s * SECOND_NS))
                seen[str(node)] = f"to and fro by {jump_s:+} s every {period_s * 1e3:g} ms"
            else:
                page.jump_wall(jump_s * SECOND_NS)
                seen[str(node)] = f"a jump of {jump_s:+} s"
        return seen

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """Hold the fault. Returns the times that the processes read meanwhile."""
        before = {node: page[Word.WALL_READS] for node, page in pages(cluster, hit).items()}
        await trio.sleep(hold_s)
        return {
            f"clock of {node}": f"n{node} {_told_wall(page, before[node])}"
            for node, page in pages(cluster, hit).items()
        }


class ClockDrift(ClockKind):
    """The monotonic clock runs at half the speed to twice the speed, without a jump."""

    name: ClassVar[str] = "clock-drift"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Each node has a rate of its own."""
        rng = random.Random(hit.seed)
        seen = {}
        for node, page in pages(cluster, hit).items():
            rate = rng.choice(RATES)
            page.drift(rate)
            seen[str(node)] = f"its clock runs {rate:g} times as fast"
        return seen

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """Hold the fault. Returns the clocks' rates, by the times that the processes read."""
        before = {
            node: (page[Word.MONOTONIC_OWN_NS], page[Word.MONOTONIC_REAL_NS])
            for node, page in pages(cluster, hit).items()
        }
        await trio.sleep(hold_s)
        return {
            f"clock of {node}": f"n{node} {_told_rate(page, *before[node])}"
            for node, page in pages(cluster, hit).items()
        }


def pages(cluster: Cluster, hit: ResolvedTarget) -> dict[int, FaultPage]:
    """The pages of the nodes that are hit."""
    found = {node: cluster.nodes[node].machine.page for node in hit.nodes}
    return {node: page for node, page in found.items() if page is not None}


def _told_wall(page: FaultPage, reads_before: int) -> str:
    off_s = (page[Word.WALL_OWN_NS] - page[Word.WALL_REAL_NS]) / SECOND_NS
    return f"asked the time {page[Word.WALL_READS] - reads_before:,} times, last told it {off_s:+.3f} s off"


def _told_rate(page: FaultPage, own_before_ns: int, real_before_ns: int) -> str:
    own_s = (page[Word.MONOTONIC_OWN_NS] - own_before_ns) / SECOND_NS
    real_s = (page[Word.MONOTONIC_REAL_NS] - real_before_ns) / SECOND_NS
    rate = own_s / real_s if real_s > 0 else math.nan
    return f"was told that {own_s:.3f} s passed in {real_s:.3f} s: {rate:.2f} times as fast"

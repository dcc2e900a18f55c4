"""Faults of what a process runs on: its power, its clocks. Disks are in `disks`."""

import abc
import math
import random
from typing import ClassVar, Final

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.preload import SECOND_NS, FaultPage, Word
from jepsen_like.nemesis.kind import DrawnAs, MachineKind, Reach, Seen, look_at
from jepsen_like.nemesis.targets import ResolvedTarget

JUMPS_S: Final = (60, -60, 3600, -3600)
STROBE_PERIODS_S: Final = (0.002, 0.05, 0.5)
STROBE_CHANCE: Final = 0.25
RATES: Final = (0.5, 0.8, 1.25, 2.0)
FIRST_WITHIN_S: Final = 3.0
"""A process gets the processor within this time, and reads the healed clock."""
TOLD_WITHIN_S: Final = 1.0
"""From then on it asks both clocks for the time within this time."""
TOLD_FOR_S: Final = 0.1
"""Over which time the rate of a healed clock is measured."""
POLL_S: Final = 0.02


class Power(MachineKind):
    """A power cut: what no flush has secured is lost, with the process; then the power comes back."""

    name: ClassVar[str] = "power"
    serves_within_s: ClassVar[float] = 15.0
    reach: ClassVar[Reach] = Reach.UNFLUSHED
    takes_zones: ClassVar[bool] = True
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


class PageKind(MachineKind, abc.ABC):
    """A fault by the library in the process, whose page shows what comes of it."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.LIBRARY})
    part: ClassVar[str]
    """The part of the machine that it is about, in a word."""

    def begin(self, page: FaultPage, rng: random.Random) -> str:
        """Begin the fault on one node. Returns what is done, in words."""
        raise NotImplementedError

    @abc.abstractmethod
    def mark(self, page: FaultPage) -> tuple[int, ...]:
        """Returns the counters of a page to compare with later."""

    @abc.abstractmethod
    def tell(self, page: FaultPage, *before: int) -> str:
        """Returns what the process has met since `mark` gave these counters, in words."""

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """To all together, each in its own way."""
        rng = random.Random(hit.seed)
        return {str(node): self.begin(page, rng) for node, page in pages(cluster, hit).items()}

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """Hold the fault. Returns what the process on each node met meanwhile."""
        before = {node: self.mark(page) for node, page in pages(cluster, hit).items()}
        await trio.sleep(hold_s)
        return {
            f"{self.part} of {node}": f"n{node} {self.tell(page, *before[node])}"
            for node, page in pages(cluster, hit).items()
        }


class ClockKind(PageKind, abc.ABC):
    """A fault of a process's clock."""

    part: ClassVar[str] = "clock"

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
    with trio.move_on_after(FIRST_WITHIN_S):
        while page[Word.MONOTONIC_REAL_NS] == real_before_ns:  # noqa: ASYNC110 - the process knows nothing of this one
            await trio.sleep(POLL_S)
    has_read = page[Word.MONOTONIC_REAL_NS] != real_before_ns
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
    if has_read and page[Word.MONOTONIC_REAL_NS] > real_ns:
        rate = (page[Word.MONOTONIC_OWN_NS] - own_ns) / (page[Word.MONOTONIC_REAL_NS] - real_ns)
        parts.append(f"told a time {rate:.2f} times as fast")
    told[f"clock of {node}"] = f"n{node} healed: {', '.join(parts) or 'did not ask the time'}"


class ClockJump(ClockKind):
    """The wall clock jumps by a minute or an hour, there or back, or to and fro many times a second."""

    name: ClassVar[str] = "clock-jump"

    def begin(self, page: FaultPage, rng: random.Random) -> str:
        """A time of its own."""
        jump_s = rng.choice(JUMPS_S)
        if rng.random() < STROBE_CHANCE:
            period_s = rng.choice(STROBE_PERIODS_S)
            page.strobe_wall(jump_s * SECOND_NS, round(period_s * SECOND_NS))
            return f"to and fro by {jump_s:+} s every {period_s * 1e3:g} ms"
        page.jump_wall(jump_s * SECOND_NS)
        return f"a jump of {jump_s:+} s"

    def mark(self, page: FaultPage) -> tuple[int, ...]:
        """Returns how often the process read the wall clock."""
        return (page[Word.WALL_READS],)

    def tell(self, page: FaultPage, *before: int) -> str:
        """The times that it read."""
        off_s = (page[Word.WALL_OWN_NS] - page[Word.WALL_REAL_NS]) / SECOND_NS
        return f"asked the time {page[Word.WALL_READS] - before[0]:,} times, last told it {off_s:+.3f} s off"


class ClockDrift(ClockKind):
    """The monotonic clock runs at half the speed to twice the speed, without a jump."""

    name: ClassVar[str] = "clock-drift"

    def begin(self, page: FaultPage, rng: random.Random) -> str:
        """A rate of its own."""
        rate = rng.choice(RATES)
        page.drift(rate)
        return f"its clock runs {rate:g} times as fast"

    def mark(self, page: FaultPage) -> tuple[int, ...]:
        """The times that the process read last, its own and the real one."""
        return page[Word.MONOTONIC_OWN_NS], page[Word.MONOTONIC_REAL_NS]

    def tell(self, page: FaultPage, *before: int) -> str:
        """The rate of the clock, by the times that it read."""
        own_s, real_s = ((now - then) / SECOND_NS for now, then in zip(self.mark(page), before, strict=True))
        rate = own_s / real_s if real_s > 0 else math.nan
        return f"was told that {own_s:.3f} s passed in {real_s:.3f} s: {rate:.2f} times as fast"


def pages(cluster: Cluster, hit: ResolvedTarget) -> dict[int, FaultPage]:
    """The pages of the nodes that are hit."""
    found = {node: cluster.nodes[node].machine.page for node in hit.nodes}
    return {node: page for node, page in found.items() if page is not None}

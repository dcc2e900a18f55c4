"""Faults of disks: slow, full, failing, short writes, by the library in the process. Their content is in `contents`."""

import errno
import random
from typing import ClassVar, Final

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.preload import SECOND_NS, Call, FaultPage, Word
from jepsen_like.nemesis.kind import Seen, look_at
from jepsen_like.nemesis.machines import PageKind, pages
from jepsen_like.nemesis.targets import ResolvedTarget

SLOW_SYNCS_S: Final = (0.01, 0.05, 0.2, 0.5, 2.0)
FAILS_AFTER_MAX: Final = 20
"""At most this many calls pass before one fails."""
ENDS_WITHIN_S: Final = 5.0
"""A node ends within this time after its disk has failed."""
HEALED_FOR_S: Final = 0.05
"""A healed disk is watched for this long: nothing that the fault did may be counted meanwhile."""
DISK_FAILED: Final = "status 4"
"""The status with which a node ends that reports a failure outside of itself."""
SHORT_WRITES: Final = 1_000_000
"""More than happen while a fault holds."""


class DiskKind(PageKind):
    """A fault in the calls of a process on its files."""

    part: ClassVar[str] = "disk"
    counts: ClassVar[Word]
    """The library's counter of its effects."""
    counted: ClassVar[str]
    """In words, before a number."""

    def mark(self, page: FaultPage) -> tuple[int, ...]:
        """Returns how often it took effect."""
        return (page[self.counts],)

    def tell(self, page: FaultPage, *before: int) -> str:
        """Returns how often it took effect since."""
        return f"{self.counted}: {page[self.counts] - before[0]:,}"

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Disks that work, nodes that run."""
        for page in pages(cluster, hit).values():
            page.heal_disk()
        await cluster.restart(hit.nodes)
        await trio.sleep(HEALED_FOR_S)  # calls that were under way are counted by now
        before = {node: self.mark(page) for node, page in pages(cluster, hit).items()}
        await trio.sleep(HEALED_FOR_S)
        return look_at(cluster, hit.nodes) | {
            f"disk of {node}": f"n{node} healed: {self.tell(page, *before[node])}"
            for node, page in pages(cluster, hit).items()
        }


class DiskSlow(DiskKind):
    """Every flush takes 10 ms to 2 s longer."""

    name: ClassVar[str] = "disk-slow"
    serves_within_s: ClassVar[float] = 15.0
    counts: ClassVar[Word] = Word.DELAYED
    counted: ClassVar[str] = "flushes delayed"

    def begin(self, page: FaultPage, rng: random.Random) -> str:
        """A delay for this node."""
        delay_s = rng.choice(SLOW_SYNCS_S)
        page.delay_syncs(round(delay_s * SECOND_NS))
        return f"every flush takes {delay_s * 1e3:g} ms longer"


class DiskShort(DiskKind):
    """Writes take half of what they are given, and say so."""

    name: ClassVar[str] = "disk-short"
    counts: ClassVar[Word] = Word.SHORTENED
    counted: ClassVar[str] = "writes cut short"

    def begin(self, page: FaultPage, rng: random.Random) -> str:
        """All writes of this node."""
        page.shorten_writes(SHORT_WRITES)
        return "every write takes half of what it is given"


class DiskFull(DiskKind):
    """No room is left: nothing can be reserved, no file made."""

    name: ClassVar[str] = "disk-full"
    counts: ClassVar[Word] = Word.FAILED
    counted: ClassVar[str] = "calls that found no room"

    def begin(self, page: FaultPage, rng: random.Random) -> str:
        """From now on."""
        page.fail(Call.RESERVE | Call.NAME, errno.ENOSPC)
        return "no room is left"


class DiskError(DiskKind):
    """One write or flush fails with EIO. The node must end itself; then it is started again."""

    name: ClassVar[str] = "disk-error"
    takes_down: ClassVar[bool] = True
    counts: ClassVar[Word] = Word.FAILED
    counted: ClassVar[str] = "calls that failed"

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """There is nothing more to see."""
        await trio.sleep(hold_s)
        return {}

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Complete when all have ended, or have had their time to."""
        rng = random.Random(hit.seed)
        said = {}
        failed_before = {node: page[Word.FAILED] for node, page in pages(cluster, hit).items()}
        for node, page in pages(cluster, hit).items():
            call, after = rng.choice((Call.WRITE, Call.SYNC)), rng.randrange(FAILS_AFTER_MAX)
            cluster.nodes[node].expect_end()
            page.fail(call, errno.EIO, after=after, count=1)
            said[node] = f"{str(call.name).lower()} number {after + 1} was to fail"
        with trio.move_on_after(ENDS_WITHIN_S):
            for node in said:
                await cluster.nodes[node].ends(within_s=ENDS_WITHIN_S)
        return {
            str(node): f"{what}: {self._outcome(cluster, node, failed_before[node])}" for node, what in said.items()
        }

    @staticmethod
    def _outcome(cluster: Cluster, node: int, failed_before: int) -> str:
        process = cluster.nodes[node]
        page = process.machine.page
        assert page is not None
        has_failed = page[Word.FAILED] > failed_before
        if not process.is_running:
            if process.ending != DISK_FAILED:
                process.unasked_ends.append(f"node {node} ended with {process.ending}: {process.stderr_tail()}")
            return f"{process.observe()}, it ended itself with {process.ending}" if has_failed else "it ended before"
        if has_failed:
            process.unasked_ends.append(f"node {node} went on for {ENDS_WITHIN_S:g} s after its disk had failed")
        page.heal_disk()
        process.expect_end(False)
        return "it went on" if has_failed else "it did not come to so many calls"

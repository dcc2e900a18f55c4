"""The group flusher on an imagined disk, with power cuts: what may be acknowledged before it is durable, and what never."""

import random
from collections.abc import Callable

import trio

from log.flusher import GroupFlusher
from log.memory_disk import MemoryDisk
from log.segmented_log import LogConfig, SegmentedLog
from tests.log.frames import frame, open_log

CALLERS = 4
APPENDS = 12


class Broken(Exception):
    """A power cut could take what was acknowledged."""


async def play(seed: int) -> None:
    """Callers append, wait and look at what a power cut would leave. `Broken` if their frame is not in it."""
    rng = random.Random(f"flusher {seed}")
    disk = MemoryDisk(random.Random(seed))
    config = LogConfig(segment_bytes_max=rng.choice((4096, 1 << 20)))
    log = open_log(disk, config)

    def must_survive(index: int) -> None:
        """Tried on a disk after the power cut that loses the most."""
        last = open_log(disk.durable_copy(), config).last_index
        if last < index:
            raise Broken(f"frame {index} is acknowledged, a power cut leaves {last}")

    flusher = GroupFlusher(log, on_acknowledged=lambda end: must_survive(log.last_index) if end == log.end else None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        async with trio.open_nursery() as callers:
            for _ in range(CALLERS):
                callers.start_soon(_append, log, flusher, must_survive, random.Random(rng.getrandbits(64)))
        nursery.cancel_scope.cancel()


async def _append(
    log: SegmentedLog, flusher: GroupFlusher, must_survive: Callable[[int], None], rng: random.Random
) -> None:
    for _ in range(APPENDS):
        index = log.last_index + 1
        end = log.append([frame(index, payload=b"x" * rng.choice((10, 300, 1500)))])
        flusher.appended()
        await flusher.wait(end)
        must_survive(index)
        for _ in range(rng.randrange(3)):
            await trio.lowlevel.checkpoint()

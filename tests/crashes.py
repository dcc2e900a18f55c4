"""Each function makes the disk that a process leaves, from a `MemoryDisk`: as a kill, a power cut or the worst one leaves it."""

import random
from collections.abc import Callable
from typing import Final

from log.memory_disk import MemoryDisk, PowerLoss
from tests.examples import TIMES

Fate = Callable[[MemoryDisk, int], MemoryDisk]
"""Takes a disk and a seed; returns another disk."""


def kill(disk: MemoryDisk, seed: int = 1) -> MemoryDisk:
    """Returns the disk with everything that was written; the kernel outlives the process."""
    return disk.after_kill(random.Random(seed))


def cut_power(disk: MemoryDisk, seed: int) -> MemoryDisk:
    """Returns the disk with everything that was synced, and at random some of what was not."""
    return disk.after_crash(random.Random(seed))


def lose_unsynced(disk: MemoryDisk, seed: int) -> MemoryDisk:
    """Returns the disk with no more than what was synced."""
    return disk.after_crash(random.Random(seed), loss=PowerLoss.LOSE_ALL)


FATES: list[Fate] = [kill, cut_power, lose_unsynced]
TURNS: Final = len(FATES) if TIMES == 1 else 1
"""Of so many calls to the disk the tests of one fate fail one."""


def calls_before(fate: Fate) -> range:
    """Returns which calls to the disk to fail before this fate: in the campaign all of them.

    The quick tests of all fates together fail each call once, since each fate takes its turn.
    """
    return range(1 + FATES.index(fate) % TURNS, 1_000, TURNS)

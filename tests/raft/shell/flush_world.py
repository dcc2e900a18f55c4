"""One real node on an imagined slow disk: what is acknowledged is on it.

The node's own flush thread works here, as in a process; a sync lasts as long as a slow disk's. At each acknowledgement the test reads
the disk at once, with code of its own.
"""

import random
import threading

import trio

from jepsen_like.simulation.raft.durable import DurableLog
from log.memory_disk import MemoryDisk
from raft.group import RaftGroup
from raft.settings import NodeSettings
from tests.ports import free_ports
from tests.raft.shell.nodes import FAST, until

SYNC_S = 0.002
APPENDS = 20
CALLERS = 3


class Broken(Exception):
    """Something was acknowledged that a power cut could take."""


class SlowDisk(MemoryDisk):
    """Its syncs last."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._never = threading.Event()
        self.before_call = self._wait

    def _wait(self, operation: str, path: str) -> None:
        if operation == "sync":
            self._never.wait(SYNC_S)


async def play(seed: int) -> None:
    """Append with several callers, and look at the disk after every answer. `Broken` if it lacks one."""
    disk = SlowDisk(random.Random(seed))
    (port,) = free_ports(1)
    settings = NodeSettings(raft=FAST)
    async with RaftGroup.open(
        node_id=1, members={1: ("127.0.0.1", port)}, directory="node", settings=settings, disk=disk
    ) as group:
        await until(lambda: group.status()["role"] == "leader")
        async with trio.open_nursery() as nursery:
            for name in range(CALLERS):
                nursery.start_soon(_append, group, disk, name)


async def _append(group: RaftGroup, disk: MemoryDisk, name: int) -> None:
    for turn in range(APPENDS):
        appended = await group.append([f"{name}.{turn}".encode()])
        held = _records_on(disk)
        if appended.base_offset >= held:
            raise Broken(f"offset {appended.base_offset} is acknowledged; the disk holds {held} records")


def _records_on(disk: MemoryDisk) -> int:
    """Returns the number of records that every power cut leaves."""
    first = next(path for path in disk.paths() if path.endswith(f"{0:020d}.log"))
    durable = DurableLog(first.rpartition("/")[0])
    durable.refresh(disk)
    return durable.entries[-1].end_offset if durable.entries else 0

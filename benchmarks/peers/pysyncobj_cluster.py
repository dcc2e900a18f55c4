"""Three PySyncObj processes with a TCP front each (see `pysyncobj_node`), at the two settings that were best; all in
memory.
"""

import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from jepsen_like.bench.conversation import BATCHES, FULL, LARGE, LOADS, LoadShape
from jepsen_like.bench.own_wire import EchoConversation
from jepsen_like.bench.processes import LoadWorker
from jepsen_like.bench.systems import NODES, BenchCluster, BenchSystem
from jepsen_like.cluster.ports import LOOPBACK

NODE = Path(__file__).with_name("pysyncobj_node.py").absolute()


class PySyncObjCluster(BenchCluster):
    """Three nodes that are asked over their standard streams."""

    def __init__(self, ports: Sequence[int], workers: Sequence[LoadWorker]) -> None:
        super().__init__(ports, workers)
        self._workers = workers

    def converse(self, load: LoadShape, lane: int) -> EchoConversation:
        """See `BenchCluster`."""
        return EchoConversation(load)

    def leader(self) -> int | None:
        """Returns the node that reports to lead; None if none does."""
        return next(
            (place for place, worker in enumerate(self._workers) if worker.ask({"ask": "leads"})["leads"]), None
        )

    def count_written(self) -> int:
        """Returns the count of the leader's copy."""
        return int(self._workers[self.led_by()].ask({"ask": "count"})["count"])

    def ready(self) -> bool:
        """All have counted the same."""
        return len({worker.ask({"ask": "count"})["count"] for worker in self._workers}) == 1


def pysyncobj(directory: Path, ports: Sequence[int], setting: str) -> PySyncObjCluster:
    """Three nodes, not started yet."""
    clients, peers = ports[:NODES], [f"{LOOPBACK}:{port}" for port in ports[NODES:]]
    workers = []
    for number, (client, own) in enumerate(zip(clients, peers, strict=True)):
        others = [other for other in peers if other != own]
        workers.append(LoadWorker(NODE, directory / f"node-{number}", setting, str(client), own, *others))
    return PySyncObjCluster(clients, workers)


def missing() -> str:
    """See `BenchSystem`."""
    found = importlib.util.find_spec("pysyncobj") is not None
    return "" if found else f"{sys.executable} -m pip install pysyncobj"


def version() -> str:
    """Of the installed distribution."""
    return importlib.metadata.version("pysyncobj")


def system(key: str, title: str, setting: str, loads: Sequence[LoadShape]) -> BenchSystem:
    """PySyncObj at one of its settings."""
    return BenchSystem(
        key=key,
        title=title,
        promise="in the memory of a majority",
        start=functools.partial(pysyncobj, setting=setting),
        missing=missing,
        version=version,
        ports=2 * NODES,
        loads=loads,
    )


AT_ONCE = system("pysyncobj", "PySyncObj", "at-once", [load for load in LOADS if load != LARGE])
IN_BATCHES = system("pysyncobj-batches", "PySyncObj, batching", "batches", (FULL, LoadShape(64, 1024), BATCHES))
"""Not given all loads: calls that take seconds each, and a second setting."""

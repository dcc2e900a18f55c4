"""Three PySyncObj processes at the best settings that were found (see `pysyncobj_node`); nothing of it is on disk."""

import contextlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from jepsen_like.bench.conversation import Load
from jepsen_like.bench.generator import Sample
from jepsen_like.bench.processes import Worker
from jepsen_like.bench.systems import NODES, Cluster, Driver, System
from jepsen_like.cluster.ports import LOOPBACK


@attrs.frozen
class Calls:
    """Calls made inside the leader's process."""

    worker: Worker
    load: Load

    def run(self, seconds: float) -> Sample:
        """See `Driver`."""
        answer = self.worker.ask({"ask": "load", "seconds": seconds, **attrs.asdict(self.load)})
        return Sample(answer["latencies_ns"], answer["lasted_s"], answer["client_cpu_s"])


class PySyncObjCluster(Cluster):
    """Three nodes that are asked over their standard streams."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.members = workers
        self._workers = workers

    def leader(self) -> int | None:
        """The node that says so."""
        return next(
            (place for place, worker in enumerate(self._workers) if worker.ask({"ask": "leads"})["leads"]), None
        )

    @contextlib.contextmanager
    def driving(self, load: Load) -> Iterator[Driver]:
        """See `Cluster`."""
        yield Calls(self._workers[self.led_by()], load)

    def written(self) -> int:
        """What the leader's copy has counted."""
        return int(self._workers[self.led_by()].ask({"ask": "count"})["count"])

    def ready(self) -> bool:
        """All have counted the same."""
        return len({worker.ask({"ask": "count"})["count"] for worker in self._workers}) == 1


def pysyncobj(directory: Path, ports: Sequence[int]) -> PySyncObjCluster:
    """Three nodes, not started yet."""
    addresses = [f"{LOOPBACK}:{port}" for port in ports]
    return PySyncObjCluster(
        [
            Worker("pysyncobj_node", directory / f"node-{number}", own, *(other for other in addresses if other != own))
            for number, own in enumerate(addresses)
        ]
    )


def missing() -> str:
    """See `System`."""
    found = importlib.util.find_spec("pysyncobj") is not None
    return "" if found else f"{sys.executable} -m pip install 'quorumlog[bench]'"


def version() -> str:
    """Of the installed distribution."""
    return importlib.metadata.version("pysyncobj")


PYSYNCOBJ = System(
    key="pysyncobj",
    title="PySyncObj",
    promise="in the memory of a majority; called inside its leader",
    start=pysyncobj,
    missing=missing,
    version=version,
    ports=NODES,
)

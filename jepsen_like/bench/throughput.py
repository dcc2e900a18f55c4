"""The same loads on every system and on the machine's own limits, interleaved, so that a slow minute hits all alike.

In each repeat every system is started afresh, warmed up, given every load in turn and asked at the end how many records
it holds: an acknowledgement without its record would be the end of the comparison, and of more than that.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jepsen_like.bench.conversation import FULL, LARGE, LoadShape
from jepsen_like.bench.figures import Throughput, quantile_ms
from jepsen_like.bench.generator import LoadFailed, Sample
from jepsen_like.bench.processes import kernel_cpu_s, kernel_ticks
from jepsen_like.bench.systems import BenchCluster, BenchSystem

ONE = LoadShape(1, 100)
BATCHES = LoadShape(64, 100, 16)
LOADS = (ONE, LoadShape(8, 100), FULL, LoadShape(1, 1024), LoadShape(8, 1024), LoadShape(64, 1024), BATCHES, LARGE)
SOME_LOADS = {
    "page-cache": (ONE, FULL, LoadShape(64, 1024), BATCHES),
    "trimmed": (FULL, LARGE),
    "pysyncobj": tuple(one for one in LOADS if one != LARGE),
    "pysyncobj-batches": (FULL, LoadShape(64, 1024), BATCHES),
}
"""The loads of systems that are not given all: further settings of a system, and calls that take seconds each."""
WARM_UP_S = 0.3
TRIES = 3


def loads_of(system: BenchSystem) -> Sequence[LoadShape]:
    """Returns the loads of a system."""
    return SOME_LOADS.get(system.key, LOADS)


def measured(
    system: BenchSystem, home: Path, seconds: float, loads: Sequence[LoadShape], told: Callable[[str], None]
) -> Iterator[Callable[[int, str], Throughput]]:
    """One cluster, every load.

    Yields figures that lack only their repeat and run. Raises `RecordsMissing` if a record is missing.
    """
    with system.cluster(home) as cluster:
        told(f"{system.title}: warming up")
        before = cluster.written()
        acknowledged, _ = under(cluster, system.key, system.warm_up, system.warm_up_s)
        for load in loads:
            told(f"{system.title}: {load.title}")
            records, figure = under(cluster, system.key, load, seconds)
            acknowledged += records
            yield figure
        cluster.check_holds(before + acknowledged)


def under(
    cluster: BenchCluster, key: str, load: LoadShape, seconds: float
) -> tuple[int, Callable[[int, str], Throughput]]:
    """One load: the records acknowledged in it, and the figure. It starts again if the leader changes."""
    for left in reversed(range(TRIES)):
        try:
            with cluster.driving(load) as driver:
                warm = driver.run(WARM_UP_S)
                leader = cluster.members[cluster.led_by()]
                cpu = [member.cpu_s() for member in cluster.members]
                kernel = kernel_ticks()
                sample = driver.run(seconds)
                used = [member.cpu_s() - start for member, start in zip(cluster.members, cpu, strict=True)]
                kernel_s = kernel_cpu_s(kernel)
                of_leader = used[list(cluster.members).index(leader)]
        except LoadFailed:
            if not left:
                raise
            continue
        records = load.batch * (len(warm.latencies_ns) + len(sample.latencies_ns))
        return records, figure_of(key, load, sample, sum(used) + kernel_s, of_leader)
    raise AssertionError("the last try ends in a figure or raises")


def figure_of(
    key: str, load: LoadShape, sample: Sample, system_s: float | None = None, leader_s: float | None = None
) -> Callable[[int, str], Throughput]:
    """The figure of a sample, but for its repeat and run."""
    count = len(sample.latencies_ns)
    rate = count / sample.lasted_s

    def each(seconds: float | None) -> float | None:
        return None if seconds is None else seconds / count * 1e6

    def complete(repeat: int, run: str) -> Throughput:
        return Throughput(
            system=key,
            load=load.key,
            repeat=repeat,
            run=run,
            requests_s=rate,
            records_s=rate * load.batch,
            bytes_s=rate * load.batch * load.record_bytes,
            p50_ms=quantile_ms(sample.latencies_ns, 0.5),
            p99_ms=quantile_ms(sample.latencies_ns, 0.99),
            system_us=each(system_s),
            leader_us=each(leader_s),
            client_us=each(sample.client_cpu_s or None),
        )

    return complete

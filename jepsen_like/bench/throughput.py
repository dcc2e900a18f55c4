"""The same loads on every system and on the machine's own limits, interleaved, so that a slow minute hits all alike.

In each repeat every system is started afresh, warmed up, given every load in turn and asked at the end how many records
it holds: an acknowledgement without its record would be the end of the comparison, and of more than that.
"""

from collections.abc import Callable
from pathlib import Path

import attrs

from jepsen_like.bench.conversation import LoadShape
from jepsen_like.bench.figures import Figures, Throughput, quantile_ms
from jepsen_like.bench.generator import LoadFailed, Sample
from jepsen_like.bench.processes import kernel_cpu_s, kernel_ticks
from jepsen_like.bench.systems import BenchCluster, BenchSystem

WARM_UP_S = 0.3
TRIES = 3


def measure_loads(system: BenchSystem, home: Path, seconds: float, told: Callable[[str], None]) -> Figures:
    """One cluster, every load. Raises `RecordsMissing` if a record is missing."""
    with system.cluster(home) as cluster:
        told(f"{system.title}: warming up")
        before = cluster.count_written()
        acknowledged, _ = under(cluster, system.key, system.warm_up, system.warm_up_s)
        for load in system.loads:
            told(f"{system.title}: {load.title}")
            records, figure = under(cluster, system.key, load, seconds)
            acknowledged += records
            yield figure
        cluster.check_holds(before + acknowledged)


def under(cluster: BenchCluster, key: str, load: LoadShape, seconds: float) -> tuple[int, Throughput]:
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
        return records, figure_of_load(key, load, sample, sum(used) + kernel_s, of_leader)
    raise AssertionError("the last try ends in a figure or raises")


def figure_of_load(
    key: str, load: LoadShape, sample: Sample, system_s: float | None = None, leader_s: float | None = None
) -> Throughput:
    """Returns the figure of a sample in which every request has been measured; CPU time is that of a request."""
    count = len(sample.latencies_ns)
    records = count * load.batch
    figure = figure_of(load.key, sample, records, load.record_bytes, requests=count, each_of=count, system_s=system_s)
    leader_us = None if leader_s is None else leader_s / count * 1e6
    return attrs.evolve(figure, system=key, leader_us=leader_us)


def figure_of(
    load: str,
    sample: Sample,
    records: int,
    record_bytes: int,
    *,
    requests: int,
    each_of: int,
    system_s: float | None = None,
) -> Throughput:
    """Returns the figure of a sample, without its system, repeat and run. CPU time is divided by `each_of`."""
    return Throughput(
        system="",
        load=load,
        repeat=0,
        run="",
        requests_s=requests / sample.lasted_s,
        records_s=records / sample.lasted_s,
        bytes_s=records * record_bytes / sample.lasted_s,
        p50_ms=quantile_ms(sample.latencies_ns, 0.5),
        p99_ms=quantile_ms(sample.latencies_ns, 0.99),
        system_us=None if system_s is None else system_s / each_of * 1e6,
        client_us=sample.client_cpu_s / each_of * 1e6 if sample.client_cpu_s else None,
    )

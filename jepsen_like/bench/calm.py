"""Full load for minutes while the machine does other work: how many elections there were, of which none is needed."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from jepsen_like.bench.conversation import FULL
from jepsen_like.bench.figures import Calm, quantile_ms
from jepsen_like.bench.generator import LoadFailed
from jepsen_like.bench.own_cluster import QuorumlogCluster, number
from jepsen_like.bench.processes import LoadWorker, running
from jepsen_like.bench.throughput import TRIES

SLICE_S = 10.0


def calm(
    cluster: QuorumlogCluster, key: str, run: str, home: Path, seconds: float, told: Callable[[str], None]
) -> Calm:
    """Drive the load in slices until the time is over. Raises `LoadFailed` if several slices in a row fail."""
    others = [LoadWorker("workers", home / part, part) for part in ("cpu", "writer")]
    try:
        with running(others):
            return run_load(cluster, key, run, seconds, told)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run_load(cluster: QuorumlogCluster, key: str, run: str, seconds: float, told: Callable[[str], None]) -> Calm:
    """The load itself."""
    term = highest_term(cluster)
    began = time.monotonic()
    count, interruptions, failed_in_a_row, worst = 0, 0, 0, 0.0
    while (left := began + seconds - time.monotonic()) > 0:
        try:
            with cluster.driving(FULL) as driver:
                while (left := began + seconds - time.monotonic()) > 0:
                    sample = driver.run(min(left, SLICE_S))
                    failed_in_a_row = 0
                    count += len(sample.latencies_ns)
                    worst = max(worst, quantile_ms(sample.latencies_ns, 0.99))
                    elections = highest_term(cluster) - term
                    told(f"calm: {elections} elections, {count:,} appends, {left:.0f} s left")
        except LoadFailed:
            interruptions += 1
            failed_in_a_row += 1
            if failed_in_a_row == TRIES:
                raise
    lasted = time.monotonic() - began
    return Calm(
        system=key,
        run=run,
        minutes=lasted / 60,
        elections=highest_term(cluster) - term,
        interruptions=interruptions,
        requests_s=count / lasted,
        p99_ms_worst=worst,
    )


def highest_term(cluster: QuorumlogCluster) -> int:
    """Every election raises it."""
    return max(number(status, "term") for status in cluster.statuses())

"""A log that has grown large: what its nodes hold in memory, and how soon one that was killed is back.

The log is filled over the wire, by 64 connections in batches of 16 records of 100 B.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jepsen_like.bench.conversation import BATCHES
from jepsen_like.bench.figures import Memory, RestartFigure
from jepsen_like.bench.own_cluster import QuorumlogCluster, number
from jepsen_like.bench.processes import until

SLICE_S = 1.0
POLL_S = 0.005
RESTART_WITHIN_S = 300.0


def measure_grown(
    cluster: QuorumlogCluster,
    key: str,
    run: str,
    *,
    appends: int,
    log_bytes: int,
    restarts: int,
    told: Callable[[str], None],
) -> Iterator[Memory | RestartFigure]:
    """Memory after `appends` records (0: not asked), then restarts with a log of `log_bytes` (0: not asked)."""
    if appends:
        before = resident(cluster)
        began = cluster.count_written()
        fill(cluster, lambda: cluster.count_written() - began >= appends, told)
        yield Memory(key, run, cluster.count_written() - began, before, resident(cluster))
    if log_bytes:
        fill(cluster, lambda: bytes_of(cluster) >= log_bytes, told)
        yield measure_restarts(cluster, key, run, restarts, told)


def fill(cluster: QuorumlogCluster, is_enough: Callable[[], bool], told: Callable[[str], None]) -> None:
    """Append until it is enough."""
    with cluster.driving(BATCHES) as driver:
        while not is_enough():
            driver.run(SLICE_S)
            told(f"filling: {cluster.count_written():,} records, {bytes_of(cluster) / 2**20:,.0f} MiB")


def resident(cluster: QuorumlogCluster) -> tuple[int, ...]:
    """Of each node, the leader first."""
    leader = cluster.led_by()
    order = sorted(range(len(cluster.members)), key=lambda member: member != leader)
    return tuple(cluster.members[member].resident_bytes() for member in order)


def bytes_of(cluster: QuorumlogCluster) -> int:
    """The files of the smallest log."""
    return min(tree_bytes(member.directory / "data") for member in cluster.members)


def tree_bytes(directory: Path) -> int:
    """All files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def measure_restarts(
    cluster: QuorumlogCluster, key: str, run: str, times: int, told: Callable[[str], None]
) -> RestartFigure:
    """Kill a follower and start it again, several times. The page cache is warm."""
    serving, caught_up = [], []
    for _ in range(times):
        answered, has_all = restart_once(cluster)
        serving.append(answered)
        caught_up.append(has_all)
        told(f"restart: answers after {answered:.2f} s, has all after {has_all:.2f} s")
        until(cluster.ready, "whole cluster after a restart")
    return RestartFigure(key, run, bytes_of(cluster), serving, caught_up)


def restart_once(cluster: QuorumlogCluster) -> tuple[float, float]:
    """Seconds until the node answers, and until it has what was committed when it was killed."""
    leader = cluster.led_by()
    follower = (leader + 1) % len(cluster.members)
    member = cluster.members[follower]
    status = cluster.status(leader)
    assert status is not None
    committed = number(status, "commit_index")
    member.kill()
    member.reap()

    def has_reached(index: int) -> bool:
        status = cluster.status(follower)
        return status is not None and number(status, "commit_index") >= index

    began = time.perf_counter()
    member.start()
    until(lambda: has_reached(0), "answer after a restart", within_s=RESTART_WITHIN_S, every_s=POLL_S)
    answered = time.perf_counter() - began
    until(lambda: has_reached(committed), "node that has all again", within_s=RESTART_WITHIN_S, every_s=POLL_S)
    return answered, time.perf_counter() - began

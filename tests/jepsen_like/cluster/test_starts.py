"""A cluster waits for its processes as long as their system may take."""

from pathlib import Path
from typing import ClassVar

import pytest
import trio

from jepsen_like.cluster import cluster as clusters
from jepsen_like.cluster.process import NodeDidNotStart
from jepsen_like.systems.raft.system import RaftSystem


class SlowSystem(RaftSystem):
    slower_by_s: ClassVar[float] = 60.0


async def is_up(directory: Path, system: RaftSystem) -> bool:
    mode = system.configure((), system.replications[0])
    try:
        async with clusters.open_cluster(directory, system, mode, nodes=1, cluster_id="test") as cluster:
            return cluster.nodes[1].is_ready
    except* NodeDidNotStart:
        pass
    return False


@pytest.mark.cluster
def test_a_slow_system_has_its_own_time_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "START_WITHIN_S", 0.0)
    assert not trio.run(is_up, tmp_path / "quick", RaftSystem())
    assert trio.run(is_up, tmp_path / "slow", SlowSystem())

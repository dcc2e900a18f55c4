"""The happy path: a calm cluster elects, commits, serves, restarts; a log gives back what it took.

Every deliberate bug must leave these green, or it would be no test of the oracles. So nothing here looks at disks,
crashes or promises: only at what a user in fair weather would see.
"""

import random
from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Engine
from jepsen_like.simulation.raft.blackbox import RequestOutcome
from jepsen_like.simulation.raft.swarm import RaftKnobs, draw
from jepsen_like.simulation.raft.world import RaftWorld
from log.config import LogConfig
from log.frame import Frame
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from raft.config import RaftConfig
from tests.jepsen_like.checker.planted import Base, log_base, register_base, write_run


def calm_weather(seed: int) -> RaftKnobs:
    """Three nodes, a good network, fast disks, no faults."""
    drawn = draw(seed)
    return attrs.evolve(
        drawn,
        nodes=3,
        raft=RaftConfig(),
        safety_s=6.0,
        delay_s=0.002,
        delay_s_spread=0.2,
        loss=0.0,
        duplicate=0.0,
        fifo=True,
        flush_s=0.001,
        flush_s_spread=0.2,
        drift=0.0,
        clients=2,
        think_s=0.02,
        retry_s=0.1,
        burst=1,
        client_timeout_s=1.0,
        reads=0.3,
        records_max=3,
        filler_bytes_max=40,
        recovery_crash=0.0,
        retention_bytes=None,
        faults=(),
        driver=attrs.evolve(drawn.driver, spares=0, changes=0),
    )


def test_a_calm_cluster_commits_and_serves() -> None:
    world = RaftWorld(calm_weather(1), stop_at_first=False)
    world.run()
    ended = [op.outcome for op in world.clients.history]
    assert ended.count(RequestOutcome.OK) > 100, f"{len(ended)} requests"
    assert RequestOutcome.UNKNOWN not in ended
    assert [machine.core.commit_index for machine in world.machines.values() if machine.core] == [
        world.record.committed_index
    ] * 3


def test_a_log_gives_back_what_it_took_after_a_clean_close() -> None:
    disk = MemoryDisk(random.Random(1))
    config = LogConfig(segment_bytes_max=4096)
    frames = [Frame.of(b"x" * 200, index=index, epoch=1, base_offset=index - 1, span=1) for index in range(1, 51)]
    log = SegmentedLog.open(disk, "log", config, log_id=1)
    log.save_state(b"state")
    for frame in frames:
        log.append([frame])
    log.close()
    again = SegmentedLog.open(disk, "log", config, log_id=1)
    assert again.state == b"state"
    assert again.read(1, 1 << 20) == frames


@pytest.mark.parametrize(
    "base", [log_base(5000, seed=2), register_base(5000, seed=2, keys=50)], ids=["log", "register"]
)
def test_a_valid_history_is_valid(base: Base, tmp_path: Path) -> None:
    write_run(base, tmp_path)
    assert check_run(tmp_path, base.model, Engine.LOCAL).valid is True

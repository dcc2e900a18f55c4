"""A programmer's first trial after a change of the replication: records are stored, copied and acknowledged."""

import pytest

from rocketmq_compat.replication.acks import SendStatus
from rocketmq_compat.replication.model import ReplicationConfig
from tests.rocketmq_compat.replication.world import World, status


@pytest.mark.parametrize(
    "config",
    [
        ReplicationConfig(),
        ReplicationConfig(sync_master=True),
        ReplicationConfig(sync_master=True, sync_flush=True, flavor="5.x", in_sync_replicas=2),
    ],
)
def test_records_are_copied_and_acknowledged(config: ReplicationConfig) -> None:
    world = World(config, config, 1)
    world.begin()
    world.stabilize()
    tokens = [world.put(1, text) for text in ("one", "two", "three")]
    world.stabilize()
    assert [status(world.answers.get(token)) for token in tokens] == [SendStatus.SEND_OK] * 3
    assert world.nodes[2].disk.data == world.nodes[1].disk.data == b"onetwothree"

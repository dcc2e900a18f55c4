"""The process of a broker that keeps little in its raft log: `python -m tests.rocketmq_compat.broker.small_broker broker ...`."""

from typing import Any

from raft.settings import NodeSettings
from rocketmq_compat.broker import broker, raft_group
from rocketmq_compat.process import processes

SMALL_LOG = 256 * 1024


def small_settings(raft: Any, log_bytes: int, *, ack: str | None) -> NodeSettings:
    return raft_group.raft_settings(raft, min(log_bytes, SMALL_LOG), ack=ack)


if __name__ == "__main__":
    vars(broker)["raft_settings"] = small_settings
    processes()

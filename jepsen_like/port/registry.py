"""Which systems there are. A system is imported when it is asked for, so that the command line starts without it."""

import importlib
from importlib.metadata import entry_points
from typing import Final

from jepsen_like.port.port import System

SYSTEMS: Final[dict[str, str]] = {
    "raft": "jepsen_like.systems.raft.system:RaftSystem",
    "kafka": "jepsen_like.systems.kafka.system:KafkaAdapter",
    "apache-kafka": "jepsen_like.systems.apache_kafka.system:ApacheKafkaAdapter",
    "rocketmq": "jepsen_like.systems.rocketmq.system:RocketMqSystem",
    "apache-rocketmq": "jepsen_like.systems.apache_rocketmq.system:ApacheRocketMqSystem",
    "nats": "jepsen_like.systems.nats.system:NatsSystem",
    "etcd": "jepsen_like.systems.etcd.system:EtcdSystem",
    "zookeeper": "jepsen_like.systems.zookeeper.system:ZooKeeperSystem",
    "rabbitmq": "jepsen_like.systems.rabbitmq.system:RabbitSystem",
}
"""The place where the adapter of each system is, by the name that `--system` takes; a test adds its own here."""
TARGETS: Final[dict[str, str]] = {
    "target-kafka": "jepsen_like.systems.kafka_target.system:KafkaTarget",
    "target-raft": "jepsen_like.systems.raft_target.system:RaftTarget",
    "target-rocketmq": "jepsen_like.systems.rocketmq_target.system:RocketTarget",
    "target-etcd": "jepsen_like.systems.etcd_target.system:EtcdTarget",
}
"""The same of clusters that others run, which `--target` takes without the first word."""
TARGET_BEGINS: Final = "target-"
GROUP: Final = "quorumlog.systems"
"""The entry points by which an installed package adds systems; a name above comes first."""


def system_names() -> tuple[str, ...]:
    """Returns the names of all systems, those of other packages last."""
    return tuple(dict.fromkeys((*SYSTEMS, *(point.name for point in entry_points(group=GROUP)))))


def system_named(name: str) -> System:
    """Returns the adapter of a system. Raises `KeyError` for a name that is not registered."""
    place = (
        SYSTEMS.get(name) or TARGETS.get(name) or {point.name: point.value for point in entry_points(group=GROUP)}[name]
    )
    module, _, attribute = place.partition(":")
    made = getattr(importlib.import_module(module), attribute)()
    assert isinstance(made, System)
    return made

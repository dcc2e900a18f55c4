"""Which systems there are. A system is imported when it is asked for, so that the command line starts without it."""

import importlib
from typing import Final

from jepsen_like.port.port import System

SYSTEMS: Final[dict[str, str]] = {
    "raft": "jepsen_like.systems.raft.system:RaftSystem",
    "kafka": "jepsen_like.systems.kafka.system:KafkaAdapter",
    "rocketmq": "jepsen_like.systems.rocketmq.system:RocketMqSystem",
}
"""The place where the adapter of each system is, by the name that `--system` takes; a test adds its own here."""


def system_named(name: str) -> System:
    """The adapter. Raises `KeyError` for a name that is not registered."""
    module, _, attribute = SYSTEMS[name].partition(":")
    made = getattr(importlib.import_module(module), attribute)()
    assert isinstance(made, System)
    return made

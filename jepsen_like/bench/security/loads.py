"""The loads of each system, and the protections that take turns."""

from typing import Final

from jepsen_like.bench.conversation import FULL, LARGE, ONE
from jepsen_like.bench.guard import PLAIN, Protection
from jepsen_like.bench.kafka.loads import KAFKA_LOADS
from jepsen_like.bench.rocketmq.loads import LOADS as ROCKET_LOADS
from jepsen_like.bench.rocketmq.loads import SYNC, key_of

RAFT, KAFKA, ROCKETMQ = "raft", "kafka", "rocketmq"
BEFORE: Final = "before"
PROTECTIONS: Final = (
    PLAIN,
    Protection("secret", "with a secret", secret=True),
    Protection("tls", "with a secret and TLS", secret=True, tls=True),
)
RAFT_LOADS: Final = (ONE, FULL, LARGE)
KAFKA_OF: Final = tuple(
    load
    for load in KAFKA_LOADS
    if load.key in ("1024-large-idempotent", "100-small-idempotent", "1024-one", "1024-read")
)
ROCKET_OF: Final = tuple(load for load in ROCKET_LOADS if not load.key.startswith("128"))
MODE: Final = SYNC
TITLES: Final = {RAFT: "raft", KAFKA: "Kafka-style brokers", ROCKETMQ: "RocketMQ-style brokers, sync dual write"}
SYSTEMS: Final = tuple(TITLES)
LOADS: Final = {
    RAFT: [(load.key, load.title) for load in RAFT_LOADS],
    KAFKA: [(load.key, load.title) for load in KAFKA_OF],
    ROCKETMQ: [(key_of(MODE, load), load.title) for load in ROCKET_OF],
}
"""The key of each figure, and the load's words."""


def protections(before: str | None) -> tuple[Protection, ...]:
    """Returns those that take part: with `before`, the interpreter of another installation, that one's too."""
    earlier = () if before is None else (Protection(BEFORE, "plain, the installation before", python=before),)
    return (*earlier, *PROTECTIONS)


def key(system: str, protection: Protection) -> str:
    """Returns the key of a system under a protection."""
    return f"{system}-{protection.key}"

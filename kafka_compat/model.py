"""What partitions, controller, coordinator and storage name in common: brokers, partitions, and what the controller has decided about them.

Topic ids and incarnations are the 16 bytes of a UUID, as in the protocol.
"""

from attrs import frozen

from kafka_compat.protocol.schema import NO_UUID

NO_LEADER = -1
NO_EPOCH = -1
"""The leader epoch, partition epoch or broker epoch of something that has none yet."""
OFFSETS_TOPIC = "__consumer_offsets"


@frozen(order=True)
class TopicPartition:
    """The name of one partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@frozen
class PartitionState:
    """What the controller has decided about one partition (KRaft's PartitionRegistration)."""

    topic_id: bytes
    replicas: tuple[int, ...]
    """Broker ids in assignment order; the first is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    """A broker id, or NO_LEADER."""
    leader_epoch: int
    """Grows at every election."""
    partition_epoch: int
    """Grows at every change; what AlterPartition must name (compare and set)."""
    recovering: bool = False
    """After an unclean election, until the leader has confirmed its ISR."""


@frozen
class BrokerRegistration:
    """One broker as the controller knows it."""

    id: int
    epoch: int
    """The log index of the registration: one per process lifetime, never used again."""
    incarnation: bytes
    host: str
    port: int
    rack: str | None = None
    fenced: bool = True
    shutting_down: bool = False

    @property
    def active(self) -> bool:
        """Whether this broker may lead, and be a member of an ISR."""
        return not self.fenced and not self.shutting_down


__all__ = [
    "NO_EPOCH",
    "NO_LEADER",
    "NO_UUID",
    "OFFSETS_TOPIC",
    "BrokerRegistration",
    "PartitionState",
    "TopicPartition",
]

"""What partitions, controller, coordinator and storage name in common: brokers, partitions, and what the controller has decided about them.

Topic ids and incarnations are the 16 bytes of a UUID, as in the protocol.
"""

from attrs import frozen

from kafka_compat.protocol.schema import NO_UUID

NO_LEADER = -1
NO_EPOCH = -1
"""The leader epoch, partition epoch or broker epoch of something that has none yet."""
OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})
"""Topics that clients neither create with settings of their own nor produce to."""


@frozen(order=True)
class TopicPartition:
    """The name of one partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@frozen
class LogEnd:
    """How far one replica's log reaches, as the process with this broker epoch reported it, for an election by comparison.

    A log of a later last epoch, and of two in the same epoch the longer one, holds every acknowledged record of the other (Raft, 5.4.1).
    """

    broker: int
    broker_epoch: int
    last_epoch: int
    """The newest leader epoch that began in it, NO_EPOCH if none did."""
    end_offset: int


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
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): outside of the ISR, and with everything that was ever acknowledged. They may lead."""
    suspects: tuple[int, ...] = ()
    """They were in ISR or ELR, and have come back unsure of their logs. None leads before all replicas have been compared."""
    log_ends: tuple[LogEnd, ...] = ()
    """What replicas have reported for an election by comparison, in assignment order; empty unless one is awaited."""

    @property
    def awaits_comparison(self) -> bool:
        """Whether no copy is known to be whole: the next leader is found by comparing the log ends of all replicas."""
        return self.leader == NO_LEADER and not self.isr and not self.elr

    def lacks_log_end(self, broker: int, broker_epoch: int) -> bool:
        """Whether the comparison needs the log end of this replica, of the process with this epoch."""
        return (
            self.awaits_comparison
            and broker in self.replicas
            and not any(each.broker == broker and each.broker_epoch == broker_epoch for each in self.log_ends)
        )


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
    served_epoch: int = NO_EPOCH
    """The newest epoch with which a process of this id was unfenced: its directory has recorded that epoch."""

    @property
    def active(self) -> bool:
        """Whether this broker may lead, and be a member of an ISR."""
        return not self.fenced and not self.shutting_down


__all__ = [
    "INTERNAL_TOPICS",
    "NO_EPOCH",
    "NO_LEADER",
    "NO_UUID",
    "OFFSETS_TOPIC",
    "BrokerRegistration",
    "LogEnd",
    "PartitionState",
    "TopicPartition",
]

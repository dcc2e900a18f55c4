"""The nouns that partitions, controller, coordinator and storage share: brokers, partitions and their states.

Topic ids and incarnations are the 16 bytes of a UUID, as in the protocol.
"""

import enum
from typing import NamedTuple

import attrs

from log.values import frozen

NO_LEADER = -1
NO_EPOCH = -1
"""The leader epoch, partition epoch or broker epoch of something that has none yet."""
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
"""Topics that clients neither create with settings of their own nor produce to."""


class TopicPartition(NamedTuple):
    """The name of one partition; a tuple, since it is the key of every table."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@frozen
class LogEnd:
    """The reach of one replica's log, reported by the process with this broker epoch for an election by log ends.

    A log with the greater last epoch, or with the same epoch and the greater end, holds every acknowledged record of
    the other (Raft, 5.4.1).
    """

    broker: int
    broker_epoch: int
    last_epoch: int
    """The newest leader epoch that began in it, NO_EPOCH if none did."""
    end_offset: int


@frozen
class PartitionState:
    """The controller's decision about one partition (KRaft's PartitionRegistration)."""

    topic_id: bytes
    replicas: tuple[int, ...]
    """Broker ids in assignment order; the first is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    """A broker id, or NO_LEADER."""
    leader_epoch: int
    """Grows at every election."""
    partition_epoch: int
    """Grows at every change; AlterPartition names it (compare and set)."""
    recovering: bool = False
    """After an unclean election, until the leader has confirmed its ISR."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): they are outside of the ISR, hold every acknowledged record, and may lead."""
    suspects: tuple[int, ...] = ()
    """Former members of ISR or ELR that came back unsure of their logs.

    They may lead only after a comparison of all replicas.
    """
    log_ends: tuple[LogEnd, ...] = ()
    """The replicas' reports for an election that compares logs, in assignment order; empty unless one is awaited."""
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment under way adds (KIP-455), sorted; `replicas` has them already."""
    removing: tuple[int, ...] = ()
    """Replicas that it removes once all others are in sync, sorted; until then `replicas` has them, at its end."""

    @property
    def is_moving(self) -> bool:
        """True while a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment adds: they stay if it is cancelled."""
        return tuple([each for each in self.replicas if each not in self.adding])

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment removes: they stay once it is complete."""
        return tuple([each for each in self.replicas if each not in self.removing])

    @property
    def factor(self) -> int:
        """The replication factor: of two during a reassignment the lower one, which `min.insync.replicas` is held to."""
        return len(self.replicas) - max(len(self.adding), len(self.removing))

    @property
    def awaits_comparison(self) -> bool:
        """True if no copy is known to be whole: the next election compares the log ends of all replicas."""
        return self.leader == NO_LEADER and not self.isr and not self.elr

    def lacks_log_end(self, broker: int, broker_epoch: int) -> bool:
        """Returns True if the comparison needs the log end of this replica, from the process with this epoch."""
        return (
            self.awaits_comparison
            and broker in self.replicas
            and not any(each.broker == broker and each.broker_epoch == broker_epoch for each in self.log_ends)
        )


class ScramMechanism(enum.IntEnum):
    """The mechanisms of SCRAM (RFC 5802, RFC 7677), with their numbers in Kafka's protocol (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in SASL."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of the hash function in `hashlib`."""
        return {self.SCRAM_SHA_256: "sha256", self.SCRAM_SHA_512: "sha512"}[self]


@attrs.frozen
class ScramCredential:
    """The record of a user's password for one mechanism: enough to check it, and not to log in with it."""

    salt: bytes = attrs.field(repr=False)
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)
    iterations: int


@frozen
class Endpoint:
    """The address at which clients of one listener reach a broker."""

    listener: str
    host: str
    port: int


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
    endpoints: tuple[Endpoint, ...] = ()
    """One for each listener, if there are several; `host` and `port` are of the one by which brokers reach each other."""

    @property
    def active(self) -> bool:
        """True if this broker may lead, and be a member of an ISR."""
        return not self.fenced and not self.shutting_down

    def address_at(self, listener: str) -> tuple[str, int] | None:
        """Returns the address for clients of a listener; None if this broker has several, and none of that name."""
        if not self.endpoints:
            return self.host, self.port
        return next(((each.host, each.port) for each in self.endpoints if each.listener == listener), None)

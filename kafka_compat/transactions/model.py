"""One transactional id: its producer, the state of its transaction, and each step from one state to the next.

A producer id and an epoch name a producer. A higher epoch fences the producers with lower ones. With version 2 of
transactions (KIP-890) each end of a transaction raises the epoch, so that nothing late can enter the next transaction.
After the last epoch a new producer id begins at epoch 0.
"""

import enum
from collections.abc import Iterable

from attrs import define

from kafka_compat.model import TopicPartition
from log.values import evolve, frozen

NO_PRODUCER = -1
NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1
LAST_EPOCH = EPOCH_MAX - 1
"""The last epoch that a client gets: one more is kept to fence it."""
NO_TIME = -1
RAISING_VERSION = 2
"""From this version of transactions on each end raises the epoch."""


class TransactionState(enum.IntEnum):
    """The state of a transactional id, by the numbers in Kafka's records. `title` is the name that tools show."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name of the state."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """True if the outcome is decided, and the markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """True if there is no transaction."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@frozen
class TransactionData:
    """The part of a transactional id that is in the log, but for `last_epoch`. Times are ms since 1970."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch before, whose producer may still repeat its request (KIP-360); lost with the coordinator."""
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    """The producer id that follows when the transaction has ended, after the last epoch of this one."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    version: int = 0
    """The version of transactions that the client speaks."""

    @property
    def raises_epoch(self) -> bool:
        """True if each end raises the epoch."""
        return self.version >= RAISING_VERSION

    @property
    def is_exhausted(self) -> bool:
        """True if there is no higher epoch for a client."""
        return self.producer_epoch >= LAST_EPOCH

    # ------------------------------------------------------------ steps

    def with_epoch(self, producer_epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "TransactionData":
        """Returns the state of a producer that begins, without a transaction."""
        return evolve(
            self,
            producer_epoch=producer_epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            updated_ms=now_ms,
        )

    def with_producer(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "TransactionData":
        """Returns the state of a producer that begins with a new producer id."""
        begun = self.with_epoch(0, last_epoch, timeout_ms, now_ms)
        return evolve(begun, producer_id=producer_id, previous_producer_id=self.producer_id)

    def with_partitions(self, added: Iterable[TopicPartition], version: int, now_ms: int) -> "TransactionData":
        """Returns the state with more partitions; the transaction begins with the first ones."""
        return evolve(
            self,
            state=TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=now_ms if self.state is not TransactionState.ONGOING else self.start_ms,
            updated_ms=now_ms,
            version=version,
        )

    def prepare(
        self, *, commits: bool, version: int, fences: bool, next_producer_id: int, now_ms: int
    ) -> "TransactionData":
        """Returns the state in which the outcome is decided.

        `fences` is true if the producer itself did not ask for it: then its epoch must not go on.
        """
        raises = version >= RAISING_VERSION
        return evolve(
            self,
            producer_epoch=self.producer_epoch + (raises or fences),
            last_epoch=self.producer_epoch if raises else NO_EPOCH if fences else self.last_epoch,
            next_producer_id=next_producer_id,
            state=TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            partitions=self.partitions if self.state is TransactionState.ONGOING else frozenset(),
            updated_ms=now_ms,
            version=version,
        )

    def complete(self, now_ms: int) -> "TransactionData":
        """Returns the state in which all markers are written."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        rotates = self.raises_epoch and self.next_producer_id != NO_PRODUCER
        return evolve(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id if rotates else self.previous_producer_id,
            next_producer_id=NO_PRODUCER,
            producer_epoch=0 if rotates else self.producer_epoch,
            state=TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now_ms,
        )


@define(eq=False)
class TransactionalId:
    """A transactional id at its coordinator."""

    name: str
    data: TransactionData
    is_busy: bool = False
    """True while a step is being written, or a producer id is on its way: no other step may begin."""

    @property
    def is_concurrent(self) -> bool:
        """True if another step is under way: one is written, or the markers of an outcome are."""
        return self.is_busy or self.data.state.is_prepared

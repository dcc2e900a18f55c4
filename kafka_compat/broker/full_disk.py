"""A broker without room goes on: it refuses batches for certain, and fetches later what it cannot keep.

Room is reserved before a decider counts on it. So a full disk leaves decider and log as they were, and everything goes on
by itself as soon as there is room. A leader without room keeps leading: consumers read from it, and where the disks of a
majority are full another leader would help no one. Apache's broker ends instead, as it may have other directories.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from kafka_compat.partition.effects import AnswerProduce, CloseConnection
from kafka_compat.partition.events import FetchAnswered, Produce
from kafka_compat.partition.model import NO_OFFSET
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import PartitionLog
from log.errors import NoSpace
from raft.net.seldom import Seldom

AGAIN_S: Final = 1.0
"""A log that found no room is made after this time."""


class FullDisk:
    """The room of one broker's logs."""

    def __init__(self, store: BrokerStore, clock: Callable[[], float]) -> None:
        self.tell: Callable[..., None] = lambda event, **fields: None
        """Reports an event of the broker by name."""
        self.makes_from = -math.inf
        """The time from which missing logs are made: later if there was no room for them."""
        self._store = store
        self._clock = clock
        self._seldom = Seldom(clock)

    def refusal_of(self, event: Produce, log: PartitionLog) -> AnswerProduce | CloseConnection | None:
        """Reserve room for a batch. Returns the answer to its producer if there is none: it is certainly not appended."""
        try:
            log.reserve(_buffers(event.payload))
        except NoSpace as error:
            self.note(error)
            code = KafkaErrorCode.KAFKA_STORAGE_ERROR
            if event.acks == 0:
                return CloseConnection(event.token, code)
            return AnswerProduce(event.token, code, NO_OFFSET, log.start_offset)
        return None

    def fitting(self, event: FetchAnswered, log: PartitionLog) -> FetchAnswered:
        """Reserve room for what a leader's answer brings. Returns an error in its place if there is none."""
        try:
            log.reserve(_buffers(event.payload))
            if _may_shorten(event, log):
                self._store.require_room()
        except NoSpace as error:
            self.note(error)
            return FetchAnswered(
                event.leader_epoch,
                event.fetch_offset,
                KafkaErrorCode.KAFKA_STORAGE_ERROR,
                last_fetched_epoch=event.last_fetched_epoch,
            )
        return event

    def put_off(self, error: NoSpace) -> None:
        """Report that there was no room for a log, and let it be made later."""
        self.note(error)
        self.makes_from = self._clock() + AGAIN_S

    def note(self, error: NoSpace) -> None:
        """Report `storage_full`: at once, and then with the number of times in a minute."""
        times = self._seldom.note("")
        if times is not None:
            self.tell("storage_full", detail=str(error), **({"times": times} if times > 1 else {}))


def _may_shorten(event: FetchAnswered, log: PartitionLog) -> bool:
    """Returns True if the log may be truncated or reset, which needs room for names of files."""
    if event.error is KafkaErrorCode.OFFSET_OUT_OF_RANGE or event.diverging is not None:
        return True
    is_empty = log.start_offset == log.end_offset
    return bool(event.batches and event.batches[0].base_offset < log.end_offset) or (
        is_empty and 0 <= event.log_start < log.start_offset
    )


def _buffers(payload: Any) -> tuple[Any, ...]:
    return payload if isinstance(payload, tuple) else ()

"""The outcomes of records that a broker stores, for every kind of replication."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs

from rocketmq_compat.replication.acks import SendStatus


@attrs.frozen
class StoredMessages:
    """Records are in the log, with the promise that the status stands for."""

    status: SendStatus
    physical_offsets: Sequence[int]
    queue_offsets: Sequence[int]


@attrs.frozen
class NotStored:
    """Records are certainly not in the log. `code` is a RocketMQ response code."""

    code: int
    reason: str


@attrs.frozen
class OutcomeOpen:
    """Records may be in the log, now or later. `code` is a RocketMQ response code."""

    code: int
    reason: str


PutOutcome: TypeAlias = StoredMessages | NotStored | OutcomeOpen
PutDone: TypeAlias = Callable[[PutOutcome], None]


class MessagePort(Protocol):
    """Stores records."""

    def put(self, records: Sequence[bytes], done: PutDone, *, wait: bool = True) -> None:
        """Store whole records; they get their offsets here.

        `done` is called once with their outcome, perhaps within this call. Without `wait`, and with fixed roles, it is
        called when they are in this broker's log. Malformed bytes are `NotStored`, or raise `BadRecord`.
        """

"""What becomes of records that a broker is to store, whatever replicates its commit log."""

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
    """Where records go."""

    def put(self, records: Sequence[bytes], done: PutDone, *, wait: bool = True) -> None:
        """Store whole records; they get their offsets here. `done` is called once, with their outcome, maybe within this call.

        Without `wait` it is called when they are in this broker's log, if fixed roles replicate it. Raises `BadRecord` if one is no record.
        """

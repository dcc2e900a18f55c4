"""The reports of a client, whatever its library: rows of a history that lack the number of their process.

Times are nanoseconds on the monotonic clock. An `object` is a partition, queue or log by its number in the run.
"""

from collections.abc import Sequence
from typing import NamedTuple

import attrs

from jepsen_like.history.ops import NONE, ErrorCode, Outcome


@attrs.frozen(kw_only=True)
class ClientPlan:
    """The plan of one client. Of `workers` of its role it is number `index`, from 0; a `rate` of 0 is closed loop."""

    role: str
    topic: str
    seed: int
    index: int = 0
    workers: int = 1
    incarnation: int = 0
    """Of the client that it begins with."""
    slots: int = 1
    """The number of messages that a sender may have under way."""
    rate: float = 0.0
    record_bytes: int = 100
    group: int = NONE
    """Of a member: the number of its group; `NONE`: it takes everything by itself, and commits nothing."""


class SentRow(NamedTuple):
    """One message, from before it was handed to the client until its outcome was known."""

    slot: int
    value: int
    object: int
    t_inv: int
    t_ret: int
    outcome: int
    error: int
    offset: int = NONE
    late_us: int = -1
    """Open loop: how much later than due it was sent; -1 in a closed loop."""
    is_placed: bool = True
    """False: `object` is a guess, for the client does not report which queue it chose."""


class ReadRow(NamedTuple):
    """Consecutive values from `offset` on, as one leader epoch wrote them."""

    object: int
    offset: int
    values: Sequence[int]
    epoch: int
    is_whole: bool
    t_inv: int
    t_ret: int


class TailRow(NamedTuple):
    """A final read of a whole object begins; its reads follow."""

    object: int
    start: int
    end: int
    t_inv: int
    t_ret: int


class PolledRow(NamedTuple):
    """A member asked for messages, and got these."""

    object: int
    values: Sequence[int]
    offsets: Sequence[int]
    is_whole: bool
    t_inv: int
    t_ret: int


class GivenRow(NamedTuple):
    """A message that the client gave to a member's listener, from the begin of that to its end."""

    value: int
    is_whole: bool
    object: int
    offset: int
    t_inv: int
    t_ret: int


class AssignedRow(NamedTuple):
    """A member has these objects from now on; -1 where its start is unknown, and no starts if all are."""

    objects: Sequence[int]
    starts: Sequence[int]
    t_ns: int


class RevokedRow(NamedTuple):
    """A member has these no more; `is_lost`: its group has gone on without it."""

    objects: Sequence[int]
    is_lost: bool
    t_ns: int


class CommittedRow(NamedTuple):
    """A member committed its position."""

    object: int
    offset: int
    outcome: int
    error: int
    t_inv: int
    t_ret: int


class PositionRow(NamedTuple):
    """A member was told the committed position of its group."""

    object: int
    offset: int
    t_inv: int
    t_ret: int


class SoughtRow(NamedTuple):
    """A member went to another position."""

    object: int
    offset: int
    t_ns: int


class InitRow(NamedTuple):
    """A producer has taken a transactional id over; `life` is its number among those of its client."""

    life: int
    transactional_id: int
    t_inv: int
    t_ret: int


class TransactionRow(NamedTuple):
    """A transaction has ended: its records, the positions that it committed, and what is known of its outcome.

    `commit_ns` is when its commit was asked for, -1 for never. A record is (object, value, source, offset, t_inv), where
    `source` is the value of the input that it was made of; a position is (object, next offset).
    """

    life: int
    transactional_id: int
    number: int
    outcome: int
    error: int
    commit_ns: int
    t_ret: int
    records: Sequence[Sequence[int]]
    positions: Sequence[Sequence[int]]


class FoundRow(NamedTuple):
    """A consumer of an isolation level got records of one object."""

    life: int
    isolation: int
    object: int
    values: Sequence[int]
    offsets: Sequence[int]
    is_whole: bool
    t_inv: int
    t_ret: int


class EndRow(NamedTuple):
    """A consumer was told the end that its level reads to; `start`: where the final read begins, -1 where none does."""

    life: int
    isolation: int
    object: int
    start: int
    end: int
    t_inv: int
    t_ret: int


class NoteRow(NamedTuple):
    """An answer that made no sense."""

    text: str


Row = (
    SentRow
    | ReadRow
    | TailRow
    | PolledRow
    | GivenRow
    | AssignedRow
    | RevokedRow
    | CommittedRow
    | PositionRow
    | SoughtRow
    | InitRow
    | TransactionRow
    | FoundRow
    | EndRow
    | NoteRow
)
ROW_TYPES = {kind.__name__: kind for kind in Row.__args__}


def outcome_of(row: SentRow | CommittedRow) -> tuple[Outcome, ErrorCode]:
    """Returns the outcome of a row, which is numbers on the pipe."""
    return Outcome(row.outcome), ErrorCode(row.error)

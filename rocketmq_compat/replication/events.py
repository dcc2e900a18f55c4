"""Facts: a shell's reports to a replica, the only input of `CommitLogReplica.step`."""

from log.values import frozen
from rocketmq_compat.replication.messages import HaMessage


@frozen
class PutMessages:
    """Clients sent records, `size` bytes as they are stored at the log's end, for which there is room on the disk.

    Answered by one `AnswerPut` or `RefusePut` with `token`. `wait` is RocketMQ's message property WAIT
    (isWaitStoreMsgOK): without it the answer waits neither for the flush nor for slaves. `payload` is handed back in
    `AppendMessages`.
    """

    token: int
    size: int
    payload: object = None
    wait: bool = True


@frozen
class CommitLogFlushed:
    """Everything below `end` of the present log survives a loss of power.

    A flush that began before a truncation must not be reported for later appends at the same offsets.
    """

    end: int


@frozen
class Connected:
    """A slave's `Dial` with this number has a connection; or a master has accepted one; its numbers grow."""

    connection: int


@frozen
class Received:
    """A message arrived. See `Connected` for its connection."""

    connection: int
    message: HaMessage


@frozen
class HaConnectionClosed:
    """A connection ended, could not be made, or brought malformed bytes. An unknown or closed one is ignored."""

    connection: int


@frozen
class Pushed:
    """A `PushLog` was carried out: the push ended at `end`, and is on its way.

    Report it before anything that arrives later.
    """

    connection: int
    end: int


@frozen
class LogStartMoved:
    """Retention let the log begin at `log_start`."""

    log_start: int


@frozen
class LossAccepted:
    """An operator decides that this master's log counts, as it is, without waiting for slaves.

    Ignored while it copies back.
    """


@frozen
class TablesCopied:
    """A slave has copied the tables of its master, which has all of its own."""


@frozen
class DivergenceDiscarded:
    """An operator decides that this slave gives up records that its master lacks.

    Ignored without a known divergence.
    """


@frozen
class DeadlineReached:
    """Time passed; due whenever `CommitLogReplica.deadline` is reached, harmless at any other time."""


Event = (
    PutMessages
    | CommitLogFlushed
    | Connected
    | Received
    | HaConnectionClosed
    | Pushed
    | LogStartMoved
    | LossAccepted
    | TablesCopied
    | DivergenceDiscarded
    | DeadlineReached
)

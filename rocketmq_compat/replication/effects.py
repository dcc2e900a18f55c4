"""The orders that `CommitLogReplica.step` returns. The shell carries them out at once and in the order given.

The replica counts every order as done: appending, truncating and resetting succeed, or the shell ends the broker.
"""

from log.values import frozen
from rocketmq_compat.replication.acks import PutRefusal, SendStatus
from rocketmq_compat.replication.messages import HaMessage, Payload
from rocketmq_compat.replication.model import CopyDoubt, LogReach


@frozen
class AppendMessages:
    """A master appends a client's records at `offset`, in `epoch`.

    With SYNC_FLUSH the shell flushes them soon and reports `CommitLogFlushed`.
    """

    offset: int
    epoch: int
    size: int
    payload: object


@frozen
class AppendPushed:
    """A slave, or a master that copies back, appends the bytes of a push as they came.

    With SYNC_FLUSH the shell flushes them soon and reports `CommitLogFlushed`.
    """

    offset: int
    epoch: int
    payload: Payload


@frozen
class TruncateCommitLog:
    """Remove everything from `end` on, by an operator's decision."""

    end: int


@frozen
class ResetCommitLog:
    """Drop the whole log; it then is empty and begins at `start`."""

    start: int


@frozen
class AnswerPut:
    """The outcome of a `PutMessages` that was stored at `offset`; `SendStatus` states its promise."""

    token: int
    status: SendStatus
    offset: int


@frozen
class RefusePut:
    """A `PutMessages` was certainly not stored. `reason` is for the client's error and for operators."""

    token: int
    code: PutRefusal
    reason: str


@frozen
class Dial:
    """Connect to the master's HA port: `Connected(connection)` or `HaConnectionClosed(connection)` follows."""

    connection: int


@frozen
class SendMessage:
    """Send this message on a connection, behind all earlier ones."""

    connection: int
    message: HaMessage


@frozen
class PushLog:
    """Read the log from `offset` and send it as one `Push` of `epoch`, then report `Pushed`.

    A connection has one under way. The push ends at `end_max` at the latest. With more than `push_bytes_max` to send,
    it takes as many whole appends as fit, at least one. Without comparison (`haDivergence=rocketmq`) it may begin
    within an append. If `offset` has left the log meanwhile, the shell reports `HaConnectionClosed`.
    """

    connection: int
    offset: int
    end_max: int
    epoch: int
    confirm_offset: int


@frozen
class NoteSlave:
    """This master takes a slave that it never had: remember its id durably, before anything that follows is sent."""

    slave_id: int


@frozen
class SendTables:
    """Send `Tables` with this slave's topics, groups and offsets."""

    connection: int


@frozen
class AdoptTables:
    """Add entries of a slave's tables that this master lacks; of two offsets the greater counts."""

    payload: Payload


@frozen
class DoubtBegan:
    """This copy lacks records that another one has, up to `floor`: remember `doubt` durably until `DoubtEnded`."""

    floor: LogReach
    doubt: CopyDoubt


@frozen
class CopyBackBegan:
    """News for operators: this master copies back the slave's records from `start` to `end`."""

    slave_id: int
    start: int
    end: int


@frozen
class DoubtEnded:
    """This copy again has every record that any copy still has: make them durable, then remember the end of the doubt.

    `missing_bytes` were here once, and no copy has them any more.
    """

    end: int
    missing_bytes: int


@frozen
class CloseHaConnection:
    """Send the bytes on their way if possible, then close; no `HaConnectionClosed` is expected.

    `reason` is for operators.
    """

    connection: int
    reason: str


@frozen
class DivergenceFound:
    """News for operators: this slave's log leaves the master's at `agreed_end` and goes on to `slave_end`.

    The master has lost `lost_bytes`, if it ever had them. With `blocks`, it takes no records until an operator decides.
    """

    slave_id: int
    agreed_end: int
    slave_end: int
    blocks: bool

    @property
    def lost_bytes(self) -> int:
        """The length of the slave's log behind the divergence, or behind the master's end."""
        return self.slave_end - self.agreed_end


@frozen
class DivergenceEnded:
    """News for operators: the log of this slave is a beginning of the master's again."""

    slave_id: int


@frozen
class ConfirmOffsetMoved:
    """Everything below `confirm_offset` is as safe as the broker's settings promise.

    A slave learns it from its master.
    """

    confirm_offset: int


Effect = (
    AppendMessages
    | AppendPushed
    | TruncateCommitLog
    | ResetCommitLog
    | AnswerPut
    | RefusePut
    | Dial
    | SendMessage
    | PushLog
    | NoteSlave
    | SendTables
    | AdoptTables
    | DoubtBegan
    | CopyBackBegan
    | DoubtEnded
    | CloseHaConnection
    | DivergenceFound
    | DivergenceEnded
    | ConfirmOffsetMoved
)

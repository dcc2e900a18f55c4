"""One attempt of one client operation, and the columns in which it is recorded.

- A row is one attempt of one client operation on one machine's monotonic clock. A batch of appended records is one row
  per record: same interval, consecutive offsets.
- Of a queue (partitions, producers, consumers, groups) each sent message and each polled record is one row, and each
  partition of a commit, an assignment or a revocation. A partition is one object in one bucket.
- Value ids are unique positive 64-bit integers; `NONE` is "nothing there".
"""

import enum
from typing import Any, Final

import attrs

NONE: Final = -1
"""A register never written, a log position with nothing there, a field that does not apply."""
NEVER: Final = 2**62
"""`t_ret` of an operation whose end was not seen."""

READ_COMMITTED, READ_UNCOMMITTED = 1, 2
"""Isolation levels of consumers."""


class Action(enum.IntEnum):
    """The requested action (column `f`)."""

    APPEND = 0
    READ = 1
    TAIL = 2
    WRITE = 3
    CAS = 4
    SEND = 5
    """A producer sent one message to one partition."""
    POLL = 6
    """A consumer got records."""
    COMMIT = 7
    """A member, or a client without one, wrote the position of a group in one partition."""
    COMMITTED = 8
    """The position of a group in one partition was asked for."""
    ASSIGN = 9
    """A consumer was given a partition, by its group or by itself."""
    REVOKE = 10
    """A consumer gave a partition up, or had lost it."""
    SEEK = 11
    """A consumer's position in a partition was moved other than by polling."""
    ENQUEUE = 12
    """An element was put into a queue of elements."""
    DEQUEUE = 13
    """An element was taken out of it."""
    DRAIN = 14
    """All of its elements were taken out."""
    ADD = 15
    """An element was added to a set."""
    CALL = 16
    """An operation of an object whose model is a class of the user's."""
    INIT = 17
    """A producer took a transactional id over, and so fenced every earlier producer with this id."""
    SWITCH = 18
    """An operator fenced the link between two clusters, and made its target the primary."""
    TRANSLATE = 19
    """An operator, or a mirror, moved the position of a group from one cluster to the other."""


class Outcome(enum.IntEnum):
    """The outcome of an attempt (column `type`): it happened, it certainly did not and never will, or it is unknown."""

    OK = 0
    FAIL = 1
    INFO = 2


class ErrorCode(enum.IntEnum):
    """Why an attempt was not `OK` (column `err`)."""

    NONE = 0
    NOT_LEADER = 1
    BUSY = 2
    STORAGE_FULL = 3
    INVALID_REQUEST = 4
    UNKNOWN_OUTCOME = 5
    PROTOCOL = 6
    SHUTTING_DOWN = 7
    TIMEOUT = 8
    CONNECTION_REFUSED = 9
    CONNECTION_LOST = 10
    DAMAGED_VALUE = 11
    """A record came back whose filler does not belong to its id."""
    TRIMMED = 12
    """The requested entry had left the log by its retention rule; `seen` is the offset at which the log began."""
    NOT_ENOUGH_REPLICAS = 13
    """Too few replicas were in sync, and nothing was appended."""
    FENCED = 14
    """Of another generation, epoch or member than now: this one has been replaced."""
    OUT_OF_RANGE = 15
    """The offset asked for lies outside of the log."""
    OTHER = 99


@attrs.frozen(kw_only=True)
class Op:
    """One attempt; fields are the columns of a history, times in nanoseconds on the monotonic clock.

    append: `a` is the value id, `offset` where it landed, `epoch` the leadership that accepted it. read of a log:
    `offset` asked, `a` the value seen (`NONE`: nothing there yet); `seen` where a log began that had let it go. tail:
    `offset` is the committed end. write: `a`. read of a register: `a` is the value seen. cas: `a` expected, `b` new,
    `seen` the value found; `OK` with `seen == a` swapped, `OK` with another did not.

    Of a queue `object` is a partition, `process` a producer, a consumer or a member of a group (a new number whenever
    the client is created again); each may have many operations under way, and its rows stand in the order in which it
    began to send, and got, what they are about:

    send: `a` the value id, `offset` where it landed (`NONE` if the answer does not say), `epoch` the leader's, `node`
    the broker. poll: one row per record: `a` its value id (`NONE`, with `DAMAGED_VALUE`, for bytes that are no value),
    `offset`, `count` how many records of this partition the poll brought. All rows of one poll share process, begin and
    end. `b`: of a message that was pushed to a member, the group; its interval is then that of the listener. commit:
    `a` the group, `b` the generation (`NONE`: unknown, or no member), `offset` the next record to be read. committed:
    `a` the group, `offset` what was answered (`NONE`: nothing committed). assign: `a` the group (`NONE`: the client
    chose by itself), `b` the generation (`NONE`: unknown), `offset` the position to start from (`NONE`: not said);
    where messages are pushed, clients do not tell which partitions they have: one row for each that there is, when the
    member joins. revoke: `a`, `b` likewise; `INFO`: the client did not give it up in time, or has ended. seek: `offset`
    the new position (`NONE`: by the client's reset rule).

    tail: `offset` the end that consumers can read to, `seen` where the log begins; `b` is 1 if `process` then reads all
    of it as the final read of the partition, else `NONE`.

    Of transactions everything has the outcome of its transaction (`OK` committed, `FAIL` certainly not, `INFO` unknown),
    whose number is `epoch`; `process` is one life of a producer or consumer:

    send: `a` the value, `offset` where it landed, `b` the value of the input that it was made of (`NONE`: of none), `seen`
    when the commit was asked for (`NONE`: never), `count` the number of records of the transaction; `t_inv` is that of the
    record, `t_ret` that of the transaction. commit: `offset` the next input to be read. init: `a` the number of the
    transactional id. poll, tail: `b` is 1 for read_committed, 2 for read_uncommitted. tail: `offset` the end that this level
    can read to; `seen` where the partition begins, if `process` has then read all of it.

    Of compacted partitions a value names its key (`keyed_values`), and a scan by a client of its own ends in a tail:
    `offset` the end that it reached, `seen` where it began, `b` 1 if that was after everything. Its interval is the scan's.

    Of a partition that is mirrored between clusters `node` is the cluster, and `process` a producer or a consumer that
    stays the same when it goes on at the other cluster. poll: `b` is the group. switch: `node` the old primary, `b` the
    new one, `epoch` the link's, `offset` the first record of the source that the link had not copied, `seen` the end of
    the target. translate: `a` the group, `b` the source, `node` the target, `offset` the position there.

    Of a queue of elements, a set or a list `object` is one of them, and an operation with several values is a row for
    each of them in their order, which share process, begin and end; without any it is one row whose `a` is `NONE`:

    enqueue: `a` the element. dequeue: `a` the element, `NONE`: the queue was empty. drain: the elements that it took
    out. add: `a` the element. read of a set: all elements. append to a list: `a` the value. write of a list: all values
    that it has from then on. read of a list: all values. call: `seen`, `a` and `b` number the name of the operation,
    what was asked and what was answered in a table of values.
    """

    f: Action
    type: Outcome
    t_inv: int
    t_ret: int = NEVER
    object: int = 0
    process: int = 0
    attempt: int = 0
    parent_op: int = NONE
    err: ErrorCode = ErrorCode.NONE
    a: int = NONE
    b: int = NONE
    seen: int = NONE
    offset: int = NONE
    epoch: int = NONE
    count: int = 1
    node: int = NONE


@attrs.frozen(kw_only=True)
class ListOp(Op):
    """An attempt that a history has a row for each value of, with all of them. `a` is the only one, or `NONE`."""

    values: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class CallOp(Op):
    """An attempt as a class of the user's sees it: `call`, and in words."""

    words: str = ""
    call: Any = attrs.field(default=None, eq=False)


COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("object", "q"),
    ("process", "i"),
    ("attempt", "h"),
    ("parent_op", "q"),
    ("f", "b"),
    ("type", "b"),
    ("err", "h"),
    ("a", "q"),
    ("b", "q"),
    ("seen", "q"),
    ("offset", "q"),
    ("epoch", "i"),
    ("count", "i"),
    ("t_inv", "q"),
    ("t_ret", "q"),
    ("node", "h"),
)
"""Name and `array` type code of every column of a history, in the order of the file."""

DUMP_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("object", "q"),
    ("node", "h"),
    ("offset", "q"),
    ("epoch", "i"),
    ("a", "q"),
)
"""One row per record of one node's final log of one object."""

"""Turns the acts of producers, consumers and groups into rows of a history.

Partitions and groups are numbers of the run (`test.json` names them); the load chooses the partition of each message
itself, so that a message without an answer has one, too. Rows of one process are recorded in the order in which things
happened to it. All times are nanoseconds on the monotonic clock; `t_inv` is never late, `t_ret` never early.

Automatic commits have no rows, and a check would find offsets that no client committed: turn them off.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.workload.recorder import Recorder

FINAL_READ = 1
"""`b` of the tail that begins the final read of a partition."""


class RowKeys(TypedDict):
    """The fields that every row has; `node` is known to few clients."""

    partition: int
    process: int
    t_inv: int
    t_ret: int
    node: NotRequired[int]


class QueueRecorder(Recorder):
    """Writes the history of a `queue`.

    Called from one thread; several processes of a load have one each, with a writer of their own `name` and process
    numbers that no other uses (`new_process` counts from 0: add what sets them apart). `counts` are messages sent, by
    outcome, and `acked` those acknowledged.
    """

    def record_send(self, value: int, *, offset: int, epoch: int = NONE, **keys: Unpack[RowKeys]) -> None:
        """A message was acknowledged. `t_inv`: before it was given to the client, `t_ret`: when its answer was known.

        `offset` is `NONE` where the answer has none (acks=0). `process` is the producer: of one producer, messages to
        one partition are recorded in any order, for `t_inv` tells which was sent first.
        """
        self.began_ns = min(self.began_ns or keys["t_inv"], keys["t_inv"])
        self.counts.ok += 1
        self.counts.acked += 1
        self.recent_latency_s.append((keys["t_ret"] - keys["t_inv"]) / 1e9)
        self._record(Action.SEND, Outcome.OK, a=value, offset=offset, epoch=epoch, **keys)

    def not_sent(self, value: int, outcome: Outcome, error: ErrorCode, **keys: Unpack[RowKeys]) -> None:
        """A message was not acknowledged.

        `FAIL` only for an answer that proves that no attempt appended it, and that none will; every timeout, lost
        connection, error after an append, and refusal after an earlier attempt without an answer is `INFO`, which has
        no end.
        """
        self.began_ns = min(self.began_ns or keys["t_inv"], keys["t_inv"])
        if outcome is Outcome.FAIL:
            self.counts.fail += 1
        else:
            self.counts.info += 1
        self._record(Action.SEND, outcome, a=value, err=error, **keys)

    def record_poll(
        self,
        values: Sequence[int],
        offsets: Sequence[int],
        *,
        is_whole: bool = True,
        group: int = NONE,
        **keys: Unpack[RowKeys],
    ) -> None:
        """A poll brought these records of one partition, in this order; call it for each partition of the poll.

        Best given as `array("q")`: nothing is done per record. A value is `NONE` where the bytes of a record are no
        value (then `is_whole` is false). A poll that brought nothing needs no row. `group`: of messages that a client
        pushed to a member of it, from the begin of its listener to the end.
        """
        error = ErrorCode.NONE if is_whole else ErrorCode.DAMAGED_VALUE
        self._history.record_rows(_op(Action.POLL, Outcome.OK, b=group, err=error, **keys), values, offsets)

    def record_commit(
        self,
        outcome: Outcome,
        *,
        group: int,
        offset: int,
        generation: int = NONE,
        error: ErrorCode = ErrorCode.NONE,
        **keys: Unpack[RowKeys],
    ) -> None:
        """A commit of a partition ended so: `offset` is the next record to read; `generation` the request's, if any."""
        self._record(Action.COMMIT, outcome, a=group, b=generation, offset=offset, err=error, **keys)

    def position_read(self, offset: int, *, group: int, **keys: Unpack[RowKeys]) -> None:
        """A group's committed offset was answered; `NONE`: nothing is committed. Failed questions need no row."""
        self._record(Action.COMMITTED, Outcome.OK, a=group, offset=offset, **keys)

    def record_assignment(
        self,
        partitions: Iterable[int],
        *,
        process: int,
        t_ns: int,
        group: int = NONE,
        generation: int = NONE,
        positions: Sequence[int] = (),
    ) -> None:
        """A consumer was given these partitions at `t_ns`: before it polls from them, when its client said so.

        Those that it holds already and keeps (cooperative rebalance) are given again only with a new generation, and
        not necessarily then. `group` `NONE`: it has chosen them itself. `positions`: where it starts, if that is known.
        """
        for place, partition in enumerate(partitions):
            start = positions[place] if positions else NONE
            self._record_at(t_ns, Action.ASSIGN, Outcome.OK, partition, process, a=group, b=generation, offset=start)

    def record_revocation(
        self,
        partitions: Iterable[int],
        *,
        process: int,
        t_ns: int,
        group: int = NONE,
        generation: int = NONE,
        is_lost: bool = False,
    ) -> None:
        """A consumer gives these up at `t_ns`: in its client's callback, before its group can give them to another.

        `is_lost`: it did not give them up in time (the client reports that they are lost), or it ended. For a consumer
        that is killed or closed call this just before it is, for all that it holds.
        """
        outcome = Outcome.INFO if is_lost else Outcome.OK
        for partition in partitions:
            self._record_at(t_ns, Action.REVOKE, outcome, partition, process, a=group, b=generation)

    def sought(self, partition: int, offset: int = NONE, *, process: int, t_ns: int) -> None:
        """A consumer's position was set to `offset` at `t_ns`; `NONE`: by its reset rule, after it was out of range."""
        self._record_at(t_ns, Action.SEEK, Outcome.OK, partition, process, offset=offset)

    def final_read(self, *, start: int, end: int, **keys: Unpack[RowKeys]) -> None:
        """The final read of a partition begins: after the last message was answered and all is healed.

        `start` and `end` are the earliest and the latest offset as listed between `t_inv` and `t_ret`. `process` is a
        consumer of its own that now polls all of `start` to `end`, exclusive; its polls follow, and no other row of it.
        """
        self._record(Action.TAIL, Outcome.OK, b=FINAL_READ, seen=start, offset=end, **keys)

    def _record_at(self, t_ns: int, f: Action, outcome: Outcome, partition: int, process: int, **fields: int) -> None:
        self._record(f, outcome, partition=partition, process=process, t_inv=t_ns, t_ret=t_ns, **fields)

    def _record(self, f: Action, outcome: Outcome, **fields: Any) -> None:
        self._history.record(_op(f, outcome, **fields))


def _op(f: Action, outcome: Outcome, *, partition: int, t_ret: int, **fields: Any) -> Op:
    """An operation of unknown outcome has no end, but for a consumer that gives up what it holds."""
    has_end = outcome is not Outcome.INFO or f is Action.REVOKE
    return Op(f=f, type=outcome, object=partition, t_ret=t_ret if has_end else NEVER, **fields)

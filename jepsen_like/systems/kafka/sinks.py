"""Turns the workers' reports into rows of a history: of a log, or of a queue."""

from array import array
from typing import Any, Final, Protocol

from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.systems.kafka.outcomes import outcome_of
from jepsen_like.systems.kafka.worker_pipe import (
    ASSIGNED,
    COMMITTED,
    POLLED,
    POSITION,
    REVOKED,
    SOUGHT,
    ReadRow,
    SentRow,
    WorkerPlan,
)
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder

_REFUSED_COMMITS: Final = frozenset({-172, -168})
"""librdkafka's _STATE and _NO_OFFSET: nothing was sent."""


class Sink(Protocol):
    """Takes the rows of all workers; `worker` is whose they are."""

    @property
    def recorder(self) -> Recorder:
        """The recorder of its rows."""

    def sent(self, worker: WorkerPlan, incarnation: int, row: SentRow) -> None:
        """A message has ended."""

    def read(self, worker: WorkerPlan, row: ReadRow) -> None:
        """A reader has read."""

    def tail(self, partition: int, start: int, end: int, t_inv: int, t_ret: int) -> None:
        """A final read of a whole partition begins."""

    def member(self, worker: WorkerPlan, incarnation: int, row: Any) -> None:
        """Something happened to a member of a group."""


class Processes:
    """Numbers of logical clients, by what tells them apart."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers: dict[tuple[Any, ...], int] = {}

    def of(self, *key: Any) -> int:
        """The number of this client, a new one if it has none."""
        if key not in self._numbers:
            self._numbers[key] = self._recorder.new_process()
        return self._numbers[key]

    def forget(self, *key: Any) -> None:
        """Its number is never used again."""
        self._numbers.pop(key, None)


class LogSink:
    """Partitions as logs: each slot of a producer, and each read, is a client that does one thing at a time."""

    def __init__(self, recorder: Recorder, *, may_retry: bool) -> None:
        self.recorder = recorder
        self._may_retry = may_retry
        self._processes = Processes(recorder)

    def sent(self, worker: WorkerPlan, incarnation: int, row: SentRow) -> None:
        """An append of one record."""
        request = Request(Action.APPEND, _never_asked, object=row.partition, a=row.value, values=(row.value,))
        outcome, code = outcome_of(row.code, may_retry=self._may_retry)
        if outcome is Outcome.OK and row.offset < 0:
            # It is stored, but who asks again for a batch that was acknowledged long ago gets no offset.
            outcome, code = Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME
        process = self._processes.of(worker.index, row.slot)
        times = {"t_inv": row.t_inv, "t_ret": row.t_ret}
        if outcome is Outcome.OK:
            late_s = row.late_us / 1e6 if row.late_us >= 0 else None
            seen = Seen((row.value,), row.offset)
            self.recorder.ok(request, seen, process=process, node=NONE, late_s=late_s, **times)
            return
        self.recorder.ended(request, outcome, code, process=process, node=NONE, **times)
        if outcome is Outcome.INFO:
            self._processes.forget(worker.index, row.slot)

    def read(self, worker: WorkerPlan, row: ReadRow) -> None:
        """A read.

        One that brought records of several epochs is several rows of one time, each of a client of its own.
        """
        request = Request(Action.READ, _never_asked, object=row.partition, offset=row.offset)
        seen = Seen(row.values, row.offset, epoch=row.epoch, is_whole=row.is_whole)
        process = self.recorder.new_process()
        self.recorder.ok(request, seen, process=process, node=NONE, t_inv=row.t_inv, t_ret=row.t_ret)

    def tail(self, partition: int, start: int, end: int, t_inv: int, t_ret: int) -> None:
        """The end that a consumer is given proves nothing about a log: it may lag behind what was acknowledged with
        acks=1.
        """
        return

    def member(self, worker: WorkerPlan, incarnation: int, row: Any) -> None:
        """There are none."""
        raise AssertionError(row)


class QueueSink:
    """Partitions as a queue: a producer, a reader and a member of a group are clients with many operations under
    way.
    """

    def __init__(self, recorder: QueueRecorder, *, may_retry: bool) -> None:
        self.recorder: QueueRecorder = recorder
        self._may_retry = may_retry
        self._processes = Processes(recorder)

    def sent(self, worker: WorkerPlan, incarnation: int, row: SentRow) -> None:
        """A message of a producer."""
        outcome, code = outcome_of(row.code, may_retry=self._may_retry)
        process = self._processes.of(worker.role, worker.index, incarnation)
        about = {"partition": row.partition, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
        if outcome is Outcome.OK:
            self.recorder.sent(row.value, offset=row.offset, **about)
        else:
            self.recorder.not_sent(row.value, outcome, code, **about)

    def read(self, worker: WorkerPlan, row: ReadRow) -> None:
        """A poll of the final read of a partition."""
        self.recorder.polled(
            array("q", row.values),
            array("q", range(row.offset, row.offset + len(row.values))),
            partition=row.partition,
            process=self._processes.of(worker.role, row.partition),
            t_inv=row.t_inv,
            t_ret=row.t_ret,
            is_whole=row.is_whole,
        )

    def tail(self, partition: int, start: int, end: int, t_inv: int, t_ret: int) -> None:
        """The final read of a partition begins."""
        process = self._processes.of("reader", partition)
        self.recorder.final_read(partition, start=start, end=end, process=process, t_inv=t_inv, t_ret=t_ret)

    def member(self, worker: WorkerPlan, incarnation: int, row: Any) -> None:
        """One row of a member, by its first word."""
        process = self._processes.of(worker.role, worker.index, incarnation)
        match row:
            case [what, partition, values, offsets, is_whole, t_inv, t_ret] if what == POLLED:
                self.recorder.polled(
                    array("q", values),
                    array("q", offsets),
                    partition=partition,
                    process=process,
                    t_inv=t_inv,
                    t_ret=t_ret,
                    is_whole=is_whole,
                )
            case [what, partition, offset, code, t_inv, t_ret] if what == COMMITTED:
                outcome = Outcome.OK if code == 0 else Outcome.FAIL if code in _REFUSED_COMMITS else Outcome.INFO
                self.recorder.committed(
                    outcome,
                    group=worker.group,
                    offset=offset,
                    partition=partition,
                    process=process,
                    t_inv=t_inv,
                    t_ret=t_ret,
                    error=_commit_error(code),
                )
            case [what, partition, offset, t_inv, t_ret] if what == POSITION:
                self.recorder.position_read(
                    offset, group=worker.group, partition=partition, process=process, t_inv=t_inv, t_ret=t_ret
                )
            case [what, partitions, starts, t_ns] if what == ASSIGNED:
                self.recorder.assigned(partitions, process=process, t_ns=t_ns, group=worker.group, positions=starts)
            case [what, partitions, is_lost, t_ns] if what == REVOKED:
                self.recorder.revoked(partitions, process=process, t_ns=t_ns, group=worker.group, is_lost=is_lost)
            case [what, partition, offset, t_ns] if what == SOUGHT:
                self.recorder.sought(partition, offset, process=process, t_ns=t_ns)
            case _:
                raise AssertionError(row)


def _commit_error(code: int) -> ErrorCode:
    return {0: ErrorCode.NONE, 22: ErrorCode.FENCED, 25: ErrorCode.FENCED, 82: ErrorCode.FENCED}.get(
        code, outcome_of(code, may_retry=True)[1]
    )


async def _never_asked(connection: Any) -> Any:
    """The request was carried out in another process."""
    raise AssertionError(connection)

"""Turns the rows of clients into rows of a history: of logs, or of a queue."""

from array import array
from collections.abc import Mapping
from typing import Any, Protocol, assert_never

from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.workload.client_rows import (
    AssignedRow,
    ClientPlan,
    CommittedRow,
    EndRow,
    FoundRow,
    GivenRow,
    InitRow,
    NoteRow,
    PolledRow,
    PositionRow,
    ReadRow,
    RevokedRow,
    Row,
    SentRow,
    SoughtRow,
    TailRow,
    TransactionRow,
    outcome_of,
)
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder


class ClientSink(Protocol):
    """Takes the rows of all clients."""

    def take(self, plan: ClientPlan, incarnation: int, row: Row) -> None:
        """Record a row of a client, or keep it until it can be placed."""

    def place(self, objects: Mapping[int, int]) -> None:
        """Record the rows that waited: all is over, and this is the object of every value that is there."""


class Processes:
    """Numbers of logical clients, by their names."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers: dict[tuple[Any, ...], int] = {}

    def of(self, *key: Any) -> int:
        """The number of this client, a new one if it has none."""
        if key not in self._numbers:
            self._numbers[key] = self._recorder.new_process()
        return self._numbers[key]

    def of_slot(self, plan: ClientPlan, row: SentRow) -> int:
        """The number of a slot that does one thing at a time; it has a new one after an unknown outcome."""
        key = plan.index, row.slot
        number = self.of(*key)
        if row.outcome == Outcome.INFO:
            del self._numbers[key]
        return number


class LogSink:
    """Logs: each slot of a sender, and each read, is a client that does one thing at a time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._processes = Processes(recorder)
        self._unplaced: list[SentRow] = []

    def take(self, plan: ClientPlan, incarnation: int, row: Row) -> None:
        """See `ClientSink`."""
        match row:
            case SentRow(is_placed=False):
                self._unplaced.append(row)
            case SentRow(outcome=Outcome.OK, offset=offset) if offset < 0:
                # It is stored, but who asks again for a batch that was acknowledged long ago gets no offset.
                unknown = row._replace(outcome=Outcome.INFO, error=ErrorCode.UNKNOWN_OUTCOME)
                self._append(unknown, self._processes.of_slot(plan, unknown))
            case SentRow():
                self._append(row, self._processes.of_slot(plan, row))
            case ReadRow():
                self._read(row)
            case NoteRow():
                self._recorder.note_nonsense(row.text)
            case TailRow():
                # The end that a consumer is given proves nothing: it may lag behind what acks=1 has acknowledged.
                return
            case _:
                raise AssertionError(row)

    def place(self, objects: Mapping[int, int]) -> None:
        """See `ClientSink`. Each row is of a client of its own: the others have recorded in the meantime."""
        for row in self._unplaced:
            placed = row._replace(object=objects.get(row.value, row.object))
            self._append(placed, self._recorder.new_process())
        self._unplaced = []

    def _append(self, row: SentRow, process: int) -> None:
        request = Request(Action.APPEND, _never_asked, object=row.object, a=row.value, values=(row.value,))
        outcome, error = outcome_of(row)
        about = {"process": process, "node": NONE, "t_inv": row.t_inv, "t_ret": row.t_ret}
        if outcome is Outcome.OK:
            late_s = row.late_us / 1e6 if row.late_us >= 0 else None
            self._recorder.ok(request, Seen((row.value,), row.offset), late_s=late_s, **about)
        else:
            self._recorder.record_end(request, outcome, error, **about)

    def _read(self, row: ReadRow) -> None:
        """One that brought records of several epochs is several rows of one time, each of a client of its own."""
        request = Request(Action.READ, _never_asked, object=row.object, offset=row.offset)
        seen = Seen(row.values, row.offset, epoch=row.epoch, is_whole=row.is_whole)
        process = self._recorder.new_process()
        self._recorder.ok(request, seen, process=process, node=NONE, t_inv=row.t_inv, t_ret=row.t_ret)


class QueueSink:
    """Objects as a queue: a sender, a reader and a member of a group are clients with many operations under way."""

    def __init__(self, recorder: QueueRecorder) -> None:
        self._recorder = recorder
        self._processes = Processes(recorder)

    def take(self, plan: ClientPlan, incarnation: int, row: Row) -> None:
        """See `ClientSink`."""
        match row:
            case NoteRow():
                self._recorder.note_nonsense(row.text)
            case ReadRow() | TailRow():
                self._read(row, self._processes.of("final read", row.object))
            case SentRow():
                self._send(row, self._processes.of(plan.role, plan.index, incarnation))
            case InitRow() | TransactionRow() | FoundRow() | EndRow():
                raise AssertionError(row)
            case _:
                self._consume(plan.group, row, self._processes.of(plan.role, plan.index, incarnation))

    def place(self, objects: Mapping[int, int]) -> None:
        """See `ClientSink`. Every row was placed."""
        return

    def _send(self, row: SentRow, process: int) -> None:
        outcome, error = outcome_of(row)
        about = _of(row, process)
        if outcome is Outcome.OK:
            self._recorder.record_send(row.value, offset=row.offset, **about)
        else:
            self._recorder.not_sent(row.value, outcome, error, **about)

    def _read(self, row: ReadRow | TailRow, process: int) -> None:
        """The final read of an object: its begin, then polls."""
        if isinstance(row, TailRow):
            self._recorder.final_read(start=row.start, end=row.end, **_of(row, process))
        else:
            offsets = array("q", range(row.offset, row.offset + len(row.values)))
            self._recorder.record_poll(array("q", row.values), offsets, is_whole=row.is_whole, **_of(row, process))

    def _consume(
        self,
        group: int,
        row: PolledRow | GivenRow | AssignedRow | RevokedRow | CommittedRow | PositionRow | SoughtRow,
        process: int,
    ) -> None:
        recorder = self._recorder
        match row:
            case PolledRow(values=values, offsets=offsets, is_whole=is_whole):
                recorder.record_poll(array("q", values), array("q", offsets), is_whole=is_whole, **_of(row, process))
            case GivenRow(value, is_whole, _, offset):
                values, offsets = array("q", [value]), array("q", [offset])
                recorder.record_poll(values, offsets, is_whole=is_whole, group=group, **_of(row, process))
            case AssignedRow(objects, starts, t_ns):
                recorder.record_assignment(objects, process=process, t_ns=t_ns, group=group, positions=starts)
            case RevokedRow(objects, is_lost, t_ns):
                recorder.record_revocation(objects, process=process, t_ns=t_ns, group=group, is_lost=is_lost)
            case CommittedRow():
                outcome, error = outcome_of(row)
                recorder.record_commit(outcome, group=group, offset=row.offset, error=error, **_of(row, process))
            case PositionRow():
                recorder.position_read(row.offset, group=group, **_of(row, process))
            case SoughtRow(partition, offset, t_ns):
                recorder.sought(partition, offset, process=process, t_ns=t_ns)
            case _:
                assert_never(row)


def _of(
    row: SentRow | ReadRow | TailRow | PolledRow | GivenRow | CommittedRow | PositionRow, process: int
) -> dict[str, int]:
    return {"partition": row.object, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}


async def _never_asked(connection: Any) -> Any:
    """The request was carried out in another process."""
    raise AssertionError(connection)

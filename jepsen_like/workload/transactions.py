"""Turns the acts of transactional producers, and of consumers of both isolation levels, into rows of a history.

A transaction is recorded when it has ended: every record of it is a row with the outcome of the whole. See `history.ops`.
"""

from array import array
from collections.abc import Mapping
from typing import Any, Final

from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.workload.client_rows import (
    ClientPlan,
    EndRow,
    FoundRow,
    InitRow,
    NoteRow,
    PositionRow,
    Row,
    TransactionRow,
)
from jepsen_like.workload.client_sinks import Processes
from jepsen_like.workload.recorder import Recorder

GROUP: Final = 0
"""The number of the group whose positions the transactions commit."""


class TransactionRecorder(Recorder):
    """Writes the history of transactions; `counts` are records, by the outcome of their transactions."""

    def record_init(self, transactional_id: int, *, process: int, t_inv: int, t_ret: int) -> None:
        """A producer was given the id, between these times: earlier ones with it are fenced."""
        self._take(Action.INIT, Outcome.OK, object=0, a=transactional_id, process=process, t_inv=t_inv, t_ret=t_ret)

    def record_transaction(self, row: TransactionRow, *, process: int) -> None:
        """A transaction has ended."""
        outcome, error = Outcome(row.outcome), ErrorCode(row.error)
        about: dict[str, Any] = {"epoch": row.number, "process": process, "err": error}
        count = len(row.records)
        for partition, value, source, offset, t_inv in row.records:
            self.began_ns = min(self.began_ns or t_inv, t_inv)
            if outcome is Outcome.OK:
                self.recent_latency_s.append((row.t_ret - t_inv) / 1e9)
            about |= {"a": value, "b": source, "offset": offset, "seen": row.commit_ns}
            times = {"t_inv": t_inv, "t_ret": row.t_ret}
            self._take(Action.SEND, outcome, object=partition, count=count, **about, **times)
        self.counts.ok += count * (outcome is Outcome.OK)
        self.counts.acked += count * (outcome is Outcome.OK)
        self.counts.fail += count * (outcome is Outcome.FAIL)
        self.counts.info += count * (outcome is Outcome.INFO)
        began = min((t_inv for *_, t_inv in row.records), default=row.t_ret)
        for partition, offset in row.positions:
            fields = {"epoch": row.number, "process": process, "err": error, "a": GROUP, "offset": offset}
            self._take(Action.COMMIT, outcome, object=partition, t_inv=began, t_ret=row.t_ret, **fields)

    def record_found(self, row: FoundRow, *, process: int) -> None:
        """A poll brought these records."""
        error = ErrorCode.NONE if row.is_whole else ErrorCode.DAMAGED_VALUE
        keys = {"object": row.object, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
        op = Op(f=Action.POLL, type=Outcome.OK, b=row.isolation, err=error, **keys)
        self._history.record_rows(op, array("q", row.values), array("q", row.offsets))

    def record_end_of(self, row: EndRow, *, process: int) -> None:
        """The end to which a level reads was told; with a start the final read follows."""
        keys = {"object": row.object, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
        self._take(Action.TAIL, Outcome.OK, b=row.isolation, seen=row.start, offset=row.end, **keys)

    def record_position(self, row: PositionRow, *, process: int) -> None:
        """The committed position of the group was told."""
        keys = {"object": row.object, "process": process, "t_inv": row.t_inv, "t_ret": row.t_ret}
        self._take(Action.COMMITTED, Outcome.OK, a=GROUP, offset=row.offset, **keys)

    def _take(self, f: Action, outcome: Outcome, *, t_ret: int, **fields: Any) -> None:
        self._history.record(Op(f=f, type=outcome, t_ret=NEVER if outcome is Outcome.INFO else t_ret, **fields))


class TransactionSink:
    """Transactional producers and consumers; each life of a client is a process (`ClientSink`)."""

    def __init__(self, recorder: TransactionRecorder) -> None:
        self._recorder = recorder
        self._processes = Processes(recorder)

    def take(self, plan: ClientPlan, incarnation: int, row: Row) -> None:
        """See `ClientSink`."""
        match row:
            case InitRow(life, number, t_inv, t_ret):
                process = self._process(plan, "producer", life)
                self._recorder.record_init(number, process=process, t_inv=t_inv, t_ret=t_ret)
            case TransactionRow():
                self._recorder.record_transaction(row, process=self._process(plan, "producer", row.life))
            case FoundRow():
                self._recorder.record_found(row, process=self._process(plan, "consumer", row.life))
            case EndRow():
                self._recorder.record_end_of(row, process=self._process(plan, "consumer", row.life))
            case PositionRow():
                self._recorder.record_position(row, process=self._process(plan, "positions", NONE))
            case NoteRow():
                self._recorder.note_nonsense(row.text)
            case _:
                raise AssertionError(row)

    def place(self, objects: Mapping[int, int]) -> None:
        """See `ClientSink`. Every row was placed."""
        return

    def _process(self, plan: ClientPlan, what: str, life: int) -> int:
        return self._processes.of(plan.role, plan.index, what, life)

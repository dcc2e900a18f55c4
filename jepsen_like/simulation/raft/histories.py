"""The history of all clients, judged by the kernels of the checker, as `quorumlog check` judges that of a run.

These kernels know nothing of the simulator, and its audits know nothing of them. So what an audit overlooks is found as
soon as clients see it. Each request is a process of its own, because a client of the simulator has several.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.rows.columns import NEEDED, Columns
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.verdict import Findings
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.simulation.raft.blackbox import UNSEEN, ClientRequest, Fault, NodeLog, RequestOutcome

OUTCOMES: Mapping[RequestOutcome, Outcome] = {
    RequestOutcome.OK: Outcome.OK,
    RequestOutcome.FAIL: Outcome.FAIL,
    RequestOutcome.UNKNOWN: Outcome.INFO,
}
TYPES: Mapping[str, type[np.generic]] = {
    "process": np.int32,
    "f": np.int8,
    "type": np.int8,
    "err": np.int16,
    "epoch": np.int32,
    "count": np.int32,
    "node": np.int16,
}
"""The types of columns that are none of 64 bits."""


def check(history: Sequence[ClientRequest], ends: Sequence[NodeLog]) -> list[Fault]:
    """Returns everything that the checker finds wrong with what clients saw; `ends` are the final logs of the nodes."""
    faults: list[Fault] = []
    logs = [_final_log(log) for log in ends]
    rows = [op for process, request in enumerate(history) if request.key < 0 for op in _of_log(2 * process, request)]
    if rows or logs:
        expires = any(log.first for log in logs)
        findings = check_logs([_columns(rows)], {0: logs} if logs else None, expires=expires)
        faults += _faults("C-log", findings)
    rows = [op for process, request in enumerate(history) if request.key >= 0 for op in _of_register(process, request)]
    if rows:
        faults += _faults("C-register", check_registers(_columns(rows)))
    return faults


def _final_log(log: NodeLog) -> FinalLog:
    return FinalLog(log.node, log.first, np.array(log.values, np.int64), np.array(log.terms, np.int64))


def _faults(oracle: str, findings: Findings) -> Iterator[Fault]:
    for violation in findings.violations:
        yield oracle, f"{violation.check.value}: {violation.sentence}"


def _of_log(process: int, request: ClientRequest) -> Iterator[Op]:
    """Yields the rows of an append, or of a read, which saw where the log ends and its last record."""
    outcome, is_ok = OUTCOMES[request.outcome], request.outcome is RequestOutcome.OK
    times: dict[str, Any] = {"t_inv": request.invoked, "t_ret": request.returned}
    for number, value in enumerate(request.values):
        yield Op(
            f=Action.APPEND,
            type=outcome,
            process=process,
            a=value,
            offset=request.base_offset + number if is_ok else NONE,
            epoch=request.term,
            count=len(request.values),
            node=request.node,
            **times,
        )
    if request.is_read and is_ok:
        end = request.end_offset
        yield Op(f=Action.TAIL, type=outcome, process=process, offset=end, **times)
        if end and request.last_value != UNSEEN:
            value = request.last_value
            yield Op(f=Action.READ, type=outcome, process=process + 1, offset=end - 1, a=value, **times)


def _of_register(process: int, request: ClientRequest) -> Iterator[Op]:
    """Yields the row of a command or of a query."""
    outcome, is_ok = OUTCOMES[request.outcome], request.outcome is RequestOutcome.OK
    common: dict[str, Any] = {
        "type": outcome,
        "err": ErrorCode.OTHER if outcome is Outcome.FAIL else ErrorCode.NONE,
        "process": process,
        "object": request.key,
        "t_inv": request.invoked,
        "t_ret": request.returned,
    }
    found = NONE if request.found is None else request.found
    if request.is_read:
        if is_ok:
            yield Op(f=Action.READ, a=found, **common)
    elif request.expected is None:
        yield Op(f=Action.WRITE, a=request.values[0], **common)
    else:
        yield Op(f=Action.CAS, a=request.expected, b=request.values[0], seen=found if is_ok else NONE, **common)


def _columns(rows: Sequence[Op]) -> Columns:
    arrays = {name: np.array([getattr(row, name) for row in rows], TYPES.get(name, np.int64)) for name in NEEDED}
    arrays["t_ret"] = np.where(arrays["type"] == Outcome.INFO, NEVER, arrays["t_ret"])
    return Columns(**arrays)

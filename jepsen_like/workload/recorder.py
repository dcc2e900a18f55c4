"""The one place where an attempt becomes a row of the history, and where the run's counts come from.

A process is one logical client with at most one operation under way. After an operation with unknown outcome its number
is never used again, for that operation may still take effect at any later time.
"""

import collections
import itertools
from array import array

import attrs

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.workload.model import Request, Seen

RECENT_LATENCIES = 2048
NONSENSE_KEPT_MAX = 20


@attrs.define
class Counts:
    """Operations by outcome, and the records and values whose writing was acknowledged."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    acked: int = 0

    def by_outcome(self) -> dict[Outcome, int]:
        """Returns the number of operations that ended in each way."""
        return {Outcome.OK: self.ok, Outcome.FAIL: self.fail, Outcome.INFO: self.info}


class Recorder:
    """Writes to `history`; owns process numbers. Called from the one thread that runs Trio."""

    def __init__(self, history: HistoryWriter) -> None:
        self.counts = Counts()
        self.recent_latency_s: collections.deque[float] = collections.deque(maxlen=RECENT_LATENCIES)
        self.from_intended_s = array("f")
        """Open loop: from when each answered operation was due to its answer; 4 bytes for each."""
        self.nonsense: list[str] = []
        """Answers that were no answers to what was asked: failures of the node, kept in words."""
        self.began_ns = 0
        """The time at which the earliest operation that has ended began; 0 before."""
        self._history = history
        self._processes = itertools.count()

    def new_process(self) -> int:
        """A process number that was never used."""
        return next(self._processes)

    def ok(
        self,
        request: Request,
        seen: Seen,
        *,
        process: int,
        node: int,
        t_inv: int,
        t_ret: int,
        late_s: float | None = None,
    ) -> None:
        """An answer came. `late_s` is how much later than intended the operation was sent; None in a closed loop."""
        self.began_ns = min(self.began_ns or t_inv, t_inv)
        self.counts.ok += 1
        latency_s = (t_ret - t_inv) / 1e9
        if late_s is not None:
            latency_s += late_s
            self.from_intended_s.append(latency_s)
        self.recent_latency_s.append(latency_s)
        if request.is_write:
            swapped = request.f is not Action.CAS or seen.seen == request.a
            self.counts.acked += len(seen.values) if swapped else 0
        op = Op(
            f=request.f,
            type=Outcome.OK,
            t_inv=t_inv,
            t_ret=t_ret,
            object=request.object,
            process=process,
            err=ErrorCode.NONE if seen.is_whole else ErrorCode.DAMAGED_VALUE,
            a=seen.values[0],
            b=request.b,
            seen=seen.seen,
            offset=seen.offset,
            epoch=seen.epoch,
            count=len(seen.values),
            node=node,
        )
        self._history.record_batch(op, seen.values)

    def record_end(
        self,
        request: Request,
        outcome: Outcome,
        error: ErrorCode,
        *,
        process: int,
        node: int,
        t_inv: int,
        t_ret: int,
        seen: int = NONE,
    ) -> None:
        """No answer, or a refusal. `t_ret` is when that was known; an unknown outcome has no end."""
        self.began_ns = min(self.began_ns or t_inv, t_inv)
        if outcome is Outcome.FAIL:
            self.counts.fail += 1
        else:
            self.counts.info += 1
        op = Op(
            f=request.f,
            type=outcome,
            t_inv=t_inv,
            t_ret=t_ret if outcome is Outcome.FAIL else NEVER,
            object=request.object,
            process=process,
            err=error,
            a=request.a,
            b=request.b,
            seen=seen,
            offset=request.offset,
            count=max(1, len(request.values)),
            node=node,
        )
        self._history.record_batch(op, request.values or (NONE,))

    def note_nonsense(self, text: str) -> None:
        """An answer made no sense; kept in words, the first few."""
        if len(self.nonsense) < NONSENSE_KEPT_MAX:
            self.nonsense.append(text)

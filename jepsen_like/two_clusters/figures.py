"""The figures of two topics, from a recorded history: how long messages waited, and how consumers got them. Pure.

A message is one `SEND` row: from the call of the application to its acknowledgement by any cluster, `node` (1 or 2). Each
message read is one `POLL` row, and `b` tells what became of it. A message's key is its number modulo `KEYS`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from jepsen_like.history.ops import Action, Op, Outcome
from jepsen_like.two_clusters.plan import LATE_S, TwoTopicsTrial
from raft.two_topics.receiving import Compensate, DropLate, DropOldEpochs, Replay, Take

KEYS: Final = 20
TAKES: Final = (Take.GIVE, Take.DOUBLE, Take.DROP, Take.COMPENSATE)
"""The ends of messages, by the number in their rows, from 1."""
SLACK_S: Final = 0.35
"""Beyond the stated wait: an answer of the other cluster, on a busy machine."""
CALM_S: Final = 0.3
"""Messages that were sent so long before the loss had their answer by then."""


@attrs.frozen(kw_only=True)
class TwoTopicsFigures:
    """Of one trial. Times in milliseconds; the other figures count messages, and `stale` keys."""

    trial: TwoTopicsTrial
    acked: int
    failed: int
    """Neither cluster acknowledged them in time."""
    calm_ms: float
    """The longest wait for an acknowledgement before the loss."""
    wait_ms: float
    """The longest wait of those that were sent about the time of the loss, or while the cluster was gone: the RTO."""
    lost: int
    """Acknowledged, and never read by any consumer: the RPO."""
    late: int
    """Given to the application later than `LATE_S` after they were sent."""
    reordered: int
    """Given after a newer message of their key."""
    given_twice: int
    doubles: int
    """Read again, and not given again."""
    dropped: int
    compensated: int
    stale: int
    """Keys whose last message that the application was given is not their newest."""

    def missing(self) -> str | None:
        """Why the trial does not show what it is to show; None if it does."""
        stated_ms = (self.trial.waits_s + SLACK_S) * 1e3
        if self.failed:
            return f"{self.failed} messages were acknowledged by neither cluster"
        if self.wait_ms > stated_ms:
            return f"a message waited {self.wait_ms:.0f} ms, stated are {stated_ms:.0f} ms"
        if self.given_twice:
            return f"{self.given_twice} messages were given twice"
        if not self.trial.comes_back:
            return None if self.lost else "the lost cluster took no message with it"
        if self.lost:
            return f"{self.lost} acknowledged messages were never read"
        return self._policy_missing()

    def _policy_missing(self) -> str | None:
        if self.trial.sending.hedge_s == 0:
            return (
                None
                if not self.reordered
                else f"{self.reordered} messages came after newer ones, though each was in both clusters"
            )
        match self.trial.receiving:
            case Replay():
                return None if self.reordered and self.late else "nothing came late or out of order"
            case DropLate():
                return (
                    None
                    if self.dropped and not self.late
                    else f"{self.late} late messages were given, {self.dropped} dropped"
                )
            case DropOldEpochs():
                return (
                    None
                    if self.dropped and not self.stale
                    else f"{self.stale} keys are stale, {self.dropped} messages were dropped"
                )
            case Compensate():
                return (
                    None
                    if self.compensated and not self.reordered
                    else f"{self.reordered} messages were given out of order"
                )

    def row(self) -> dict[str, Any]:
        """As two-topics.json has it."""
        figures = attrs.asdict(self, filter=lambda field, value: field.name != "trial")
        return {"name": self.trial.name, **figures, "missing": self.missing()}


def measure(trial: TwoTopicsTrial, ops: Iterable[Op], lost_ns: int, back_ns: int) -> TwoTopicsFigures:
    """Returns the figures; the cluster was lost and came back at these times (without a return: when the load ended)."""
    rows = list(ops)
    sends = [op for op in rows if op.f is Action.SEND]
    acked = {op.a: op for op in sends if op.type is Outcome.OK}
    polls = sorted((op for op in rows if op.f is Action.POLL), key=lambda op: op.t_ret)
    taken = {take: [op for op in polls if op.b == number] for number, take in enumerate(TAKES, 1)}
    given = taken[Take.GIVE]
    sent_ns = {op.a: op.t_inv for op in sends}
    times = Counter(op.a for op in given)
    calm = [op.t_ret - op.t_inv for op in acked.values() if op.t_inv < lost_ns - CALM_S * 1e9]
    struck = [op.t_ret - op.t_inv for op in acked.values() if op.t_ret >= lost_ns and op.t_inv < back_ns]
    return TwoTopicsFigures(
        trial=trial,
        acked=len(acked),
        failed=len(sends) - len(acked),
        calm_ms=round(max(calm, default=0) / 1e6, 1),
        wait_ms=round(max(struck, default=0) / 1e6, 1),
        lost=len(acked.keys() - {op.a for op in polls}),
        late=sum(op.t_ret - sent_ns[op.a] > LATE_S * 1e9 for op in given),
        reordered=_count_reordered(given),
        given_twice=sum(count - 1 for count in times.values()),
        doubles=len(taken[Take.DOUBLE]),
        dropped=len(taken[Take.DROP]),
        compensated=len(taken[Take.COMPENSATE]),
        stale=_count_stale(given, acked),
    )


def _count_reordered(given: Sequence[Op]) -> int:
    newest: dict[int, int] = {}
    count = 0
    for op in given:
        key = op.a % KEYS
        count += op.a < newest.get(key, 0)
        newest[key] = max(newest.get(key, 0), op.a)
    return count


def _count_stale(given: Sequence[Op], acked: Iterable[int]) -> int:
    last = {op.a % KEYS: op.a for op in given}
    newest: dict[int, int] = {}
    for value in acked:
        newest[value % KEYS] = max(newest.get(value % KEYS, 0), value)
    return sum(last.get(key) != value for key, value in newest.items())

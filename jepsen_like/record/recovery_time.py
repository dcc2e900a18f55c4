"""Measures how long a cluster did not serve: recovery times (RTO) and elections, from a history and from what the nodes said.

What counts as service is an acknowledged *write*: a follower may answer reads of what is committed long ago while nothing
can be written. All times are nanoseconds on the one monotonic clock of the machine; results are in seconds.

- `first_success_s`: from the fault's begin to the end of the first write that was *invoked* after the fault was complete.
  One that was under way before may have been decided before. It is an upper end: the true moment of recovery lies before
  it by at most the latency of that write and the time until a client tried.
- `longest_gap_s`: the longest time without an acknowledged write that begins before the fault's end. It sees recovery
  that is partial or comes back.
- No such write until the end of the run: None, never a number. And a fault has been recovered from only if a write was
  acknowledged after its end, however well service went on while it held.
"""

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.port.observations import LEADER, RoleSeen

AFTERMATH_S = 5.0
"""For how long after its end a fault may still be the cause of an election."""
BEFORE_S = 1.0
DOWN_S = 0.25
PACES_DOWN = 10

Nanoseconds = npt.NDArray[np.int64]


@attrs.frozen
class Writes:
    """The acknowledged writes of a run, ordered by their end."""

    t_inv: Nanoseconds
    t_ret: Nanoseconds

    @classmethod
    def of(cls, t_inv: Nanoseconds, t_ret: Nanoseconds) -> "Writes":
        """From any order."""
        order = np.argsort(t_ret, kind="stable")
        return cls(t_inv[order], t_ret[order])


@attrs.frozen
class ServiceRecovery:
    """Around one fault. `acked_before` counts writes acknowledged in the second before: with none, the rest is void."""

    fault: FaultRecord
    first_success_s: float | None
    longest_gap_s: float | None
    acked_before: int
    has_recovered: bool

    def as_json(self) -> dict[str, object]:
        """A row of `rto_s` in results.json."""
        return {
            "id": self.fault.id,
            "kind": self.fault.kind,
            "target": self.fault.target,
            "s": self.first_success_s,
            "gap_s": self.longest_gap_s,
            "hold_s": round((self.fault.ended_ns - self.fault.begun_ns) / 1e9, 4),
            "acked_before": self.acked_before,
            "recovered": self.has_recovered,
        }


@attrs.frozen(kw_only=True)
class WritesAround:
    """The acknowledged writes around a fault, as they were counted in memory or by Spark."""

    first_success_ns: int | None
    """The moment when a write was acknowledged that was asked for after the fault was complete."""
    longest_gap_ns: int | None
    """The longest time between two writes around the fault; None if none was acknowledged after its end."""
    acked_before: int
    """The number of those in the last `BEFORE_S` before the fault."""
    last_ns: int | None
    """The moment when the last write of the run was acknowledged."""


def recover(fault: FaultRecord, around: WritesAround) -> ServiceRecovery:
    """Returns how service came back after `fault`."""
    first, gap = around.first_success_ns, around.longest_gap_ns
    return ServiceRecovery(
        fault,
        round((first - fault.begun_ns) / 1e9, 4) if first is not None else None,
        round(gap / 1e9, 4) if gap is not None else None,
        around.acked_before,
        first is not None and around.last_ns is not None and around.last_ns > fault.ended_ns,
    )


def recovery(fault: FaultRecord, writes: Writes) -> ServiceRecovery:
    """Returns how service came back after `fault`, from writes in memory."""
    after = np.nonzero(writes.t_inv > fault.injected_ns)[0]
    soon = (writes.t_ret > fault.begun_ns - BEFORE_S * 1e9) & (writes.t_ret <= fault.begun_ns)
    around = WritesAround(
        first_success_ns=int(writes.t_ret[after[0]]) if len(after) else None,
        longest_gap_ns=_longest_gap_ns(fault, writes.t_ret),
        acked_before=int(np.count_nonzero(soon)),
        last_ns=int(writes.t_ret[-1]) if len(writes.t_ret) else None,
    )
    return recover(fault, around)


def _longest_gap_ns(fault: FaultRecord, t_ret: Nanoseconds) -> int | None:
    begin = int(np.searchsorted(t_ret, fault.begun_ns, side="right"))
    end = int(np.searchsorted(t_ret, fault.ended_ns, side="right"))
    # From the last success before the fault to the first after its end.
    around = t_ret[max(0, begin - 1) : end + 1]
    if end == len(t_ret) or len(around) < 2:
        return None
    return int(np.max(np.diff(around)))


def availability(writes: Writes, begin_ns: int, end_ns: int) -> dict[str, float | None]:
    """For how much of a load, from its first operation to its end, writes were acknowledged.

    Down is every time between two acknowledged writes (or a border of the load) of at least `gap_s`: a quarter of a second,
    but ten times the usual distance between two writes where that is more. Returns the `share` of the time that was not
    down, `down_s` in all and the `longest_s` of these times, in seconds; no share for a load that took no time.
    """
    within = writes.t_ret[(writes.t_ret >= begin_ns) & (writes.t_ret <= end_ns)]
    gaps = np.diff(np.concatenate([[begin_ns], within, [max(begin_ns, end_ns)]]))
    gap_s = down_gap_s(float(np.median(np.diff(within))) if len(within) > 1 else None)
    return availability_of(gaps[gaps / 1e9 >= gap_s].tolist(), int(gaps.sum()), gap_s)


def down_gap_s(median_ns: float | None) -> float:
    """Returns the time without a write from which on a cluster counts as down, given the median between two writes."""
    return DOWN_S if median_ns is None else max(DOWN_S, PACES_DOWN * median_ns / 1e9)


def availability_of(down_ns: Sequence[int], whole_ns: int, gap_s: float) -> dict[str, float | None]:
    """Returns the availability of a load that took `whole_ns` and was down for each of these times; see `availability`."""
    whole_s, down_s = whole_ns / 1e9, sum(down_ns) / 1e9
    return {
        "share": round(1 - down_s / whole_s, 6) if whole_s > 0 else None,
        "down_s": round(down_s, 4),
        "longest_s": round(max(down_ns, default=0) / 1e9, 4),
        "gap_s": round(gap_s, 4),
    }


def unbroken_s(begin_ns: int, end_ns: int, faults: Sequence[FaultRecord]) -> float:
    """Returns how much of the time from `begin_ns` to `end_ns` no fault held, in seconds."""
    held_ns, reached_ns = 0, begin_ns
    for fault in sorted(faults, key=lambda fault: fault.begun_ns):
        since_ns, until_ns = max(fault.begun_ns, reached_ns), min(fault.ended_ns, end_ns)
        if until_ns > since_ns:
            held_ns += until_ns - since_ns
            reached_ns = until_ns
    return (end_ns - begin_ns - held_ns) / 1e9


@attrs.frozen
class Election:
    """A node became leader. `took_s` counts from the begin of the fault that made it necessary, or, if that fault left no
    majority to elect anybody, from its end. None if no fault did, or if it was over before that end.
    """

    node: int
    term: int
    t_ns: int
    took_s: float | None


def elections(roles: Sequence[RoleSeen], faults: Sequence[FaultRecord]) -> list[Election]:
    """Returns every election of a run; each fault explains at most the first one after it."""
    found: list[Election] = []
    unused = sorted(faults, key=lambda fault: fault.begun_ns)
    for role in sorted(roles, key=lambda role: role.t_ns):
        if role.role != LEADER:
            continue
        cause = None
        while unused and unused[0].begun_ns < role.t_ns:
            fault = unused.pop(0)
            explains = role.t_ns <= fault.ended_ns + AFTERMATH_S * 1e9 and touches_leader(fault)
            cause = fault if explains else None
        found.append(Election(role.node, role.term, role.t_ns, _round(_took_s(role, cause))))
    return found


def _took_s(role: RoleSeen, cause: FaultRecord | None) -> float | None:
    if cause is None:
        return None
    since_ns = cause.ended_ns if cause.stops_service else cause.begun_ns
    return (role.t_ns - since_ns) / 1e9 if role.t_ns >= since_ns else None


def touches_leader(fault: FaultRecord) -> bool:
    """Returns True if it hit the node that led, or one of that node's links."""
    ends = {end for link in fault.links for end in link.split(">")}
    return fault.leader in fault.nodes or str(fault.leader) in ends


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)

"""The figures of a run that follow from its history and its faults: recovery, availability, latency, throughput.

`results.json` has them, and `quorumlog check` finds them again: both through `Measured`. Here from a history in memory;
`check.figures_spark` makes the same of the files of a large one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from jepsen_like.checker.verdict import Check
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.record.attempts import WRITES, Attempts
from jepsen_like.record.recovery_time import ServiceRecovery, availability, recovery


@attrs.frozen(kw_only=True)
class Measured:
    """The figures of a run. Latencies are in milliseconds, everything else in seconds."""

    origin_ns: int
    """The moment when the first operation began, on the history's clock; 0 for none."""
    attempted: int
    """Records that were to be appended, writes and swaps that were tried: what `acked` is a part of."""
    recoveries: tuple[ServiceRecovery, ...]
    """One of each fault."""
    of_clients: tuple[ServiceRecovery, ...] | None
    """The same by the writes of clients that find their way by themselves, where there are others to tell when the nodes served."""
    availability: Mapping[str, float | None]
    latency_ms: Mapping[str, float | None]
    throughput_ops_s: float

    def as_json(self) -> dict[str, Any]:
        """As results.json has them."""
        return {
            "attempted": self.attempted,
            "rto_s": {**worst(self.recoveries), "faults": [each.as_json() for each in self.recoveries]},
            **({"rto_client_s": worst(self.of_clients)} if self.of_clients is not None else {}),
            "availability": dict(self.availability),
            "latency_ms": dict(self.latency_ms),
            "throughput_ops_s": self.throughput_ops_s,
            "faults": [
                {
                    "id": fault.id,
                    "kind": fault.kind,
                    "target": fault.target,
                    "nodes": list(fault.nodes),
                    "begin_s": since(fault.begun_ns, self.origin_ns),
                    "end_s": since(fault.ended_ns, self.origin_ns),
                }
                for fault in (each.fault for each in self.recoveries)
            ],
        }


def measure(attempts: Attempts, faults: Sequence[FaultRecord], load_ended_ns: int) -> Measured:
    """The figures of a history in memory. `load_ended_ns` is when the clients were told to stop; 0: with the last operation."""
    origin = attempts.origin_ns
    writes = attempts.acknowledged_writes()
    by_client = attempts.by_client[np.isin(attempts.f, WRITES)]
    is_mixed = has_both(int(attempts.by_client.sum()), int(by_client.sum()), len(by_client))
    of_clients = attempts.acknowledged_writes(only=attempts.by_client) if is_mixed else None
    return Measured(
        origin_ns=origin,
        attempted=attempts.count_attempted(),
        recoveries=tuple(recovery(fault, writes) for fault in faults),
        of_clients=tuple(recovery(fault, of_clients) for fault in faults) if of_clients is not None else None,
        availability=availability(writes, origin, load_ended_ns or int(attempts.t_inv.max(initial=origin))),
        latency_ms=attempts.latency_ms(),
        throughput_ops_s=attempts.throughput_ops_s(),
    )


def has_both(by_clients: int, writes_by_clients: int, writes: int) -> bool:
    """Returns True if clients that find their way by themselves wrote next to others that tell when the nodes served."""
    return by_clients > 0 and writes_by_clients != writes


def worst(recoveries: Sequence[ServiceRecovery]) -> dict[str, float | int | None]:
    """Returns the longest recovery and the longest gap of all faults, None for both if there is a fault that nothing recovered from."""
    unrecovered = sum(not each.has_recovered for each in recoveries)
    known = () if unrecovered else recoveries
    return {
        "max": max((each.first_success_s for each in known if each.first_success_s is not None), default=None),
        "gap_max": max((each.longest_gap_s for each in known if each.longest_gap_s is not None), default=None),
        "unrecovered": unrecovered,
    }


def rpo_of(verdict: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> dict[str, float | int]:
    """Returns what was lost, in records, and how far back it reaches, in seconds; `faults` as `Measured.as_json` has them."""
    return {"records": int(verdict["lost_acked"]), "s": rpo_s(verdict, faults)}


def rpo_s(verdict: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> float:
    """Returns how far back loss reaches, in seconds; 0 for none.

    What is allowed counts from its acknowledgement to the fault that cost it. Of what nothing allows, the few records that
    are shown count, to the fault that came next; nothing if they were acknowledged while a fault held.
    """
    spans = [float(loss["reach_s"]) for loss in verdict["lost_allowed"]]
    for violation in verdict["violations"]:
        acked_s = violation["ops"][0]["t_ret_s"] if violation["check"] == Check.LOST and violation["ops"] else None
        if acked_s is not None:
            spans += _to_its_fault_s(acked_s, faults)
    return round(max(spans, default=0.0), 4)


def _to_its_fault_s(acked_s: float, faults: Sequence[Mapping[str, Any]]) -> list[float]:
    """From a moment to the next fault that held then or began later; empty without one."""
    spans = [max(0.0, fault["begin_s"] - acked_s) for fault in faults if fault["end_s"] >= acked_s]
    return [min(spans)] if spans else []


def since(t_ns: int, origin_ns: int) -> float:
    """A moment in seconds from the first operation."""
    return round((t_ns - origin_ns) / 1e9, 4)

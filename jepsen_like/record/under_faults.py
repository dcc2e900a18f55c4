"""Counts what consumers that are pushed to, and the keys of producers, still had while each fault held.

In the first half of a fault clients may go on with what they have fetched, or believe: the second half counts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NONE, Action, Outcome
from jepsen_like.nemesis.nemesis import FaultRecord


def under_faults(directory: Path, test: Mapping[str, Any], faults: Sequence[FaultRecord]) -> list[dict[str, Any]]:
    """Returns for each fault of a run whose messages are pushed: how many messages were `left` to be given when it began, how many of
    those were first given in its second half, and how many keys of the load had no message acknowledged in that time. Nothing for other runs.

    Raises `UnreadableHistory`.
    """
    if not test.get("queue", {}).get("pushed"):
        return []
    names = ("f", "type", "a", "b", "t_inv", "t_ret", "node")
    f, outcome, a, b, t_inv, t_ret, node = HistoryReader.open(directory / "history.parquet").columns(names)
    given = np.flatnonzero((f == Action.POLL) & (b != NONE))
    given = given[np.argsort(t_inv[given], kind="stable")]
    value, first = np.unique(a[given], return_index=True)
    given_at = t_inv[given[first]]
    acked = (f == Action.SEND) & (outcome == Outcome.OK)
    of_load = acked & (node == NONE)
    keys = int(test["queue"].get("keys") or 0)
    found = []
    for fault in faults:
        half = fault.begun_ns + (fault.ended_ns - fault.begun_ns) // 2
        left = np.isin(value, a[acked & (t_ret <= fault.begun_ns)]) & (given_at > fault.begun_ns)
        row: dict[str, Any] = {
            "id": fault.id,
            "hold_s": round((fault.ended_ns - fault.begun_ns) / 1e9, 4),
            "left": int(left.sum()),
            "given_late": int((left & (given_at > half) & (given_at < fault.ended_ns)).sum()),
        }
        if keys:
            all_keys = np.unique(a[of_load] % keys)
            late = np.unique(a[of_load & (t_inv > half) & (t_ret < fault.ended_ns)] % keys)
            row |= {"keys": len(all_keys), "keys_waiting": len(all_keys) - len(late)}
        found.append(row)
    return found

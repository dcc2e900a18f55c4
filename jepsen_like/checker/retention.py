"""Whether a node let more of its log go than its rule of retention allows.

Judged from what is certain: the records that its log still holds, and when the newest one that has left it was asked for. A
log also holds what no client sees (terms, votes, entries that were replaced), and whole files leave it; so by bytes a node
is accused only if a whole file and all that may have been replaced do not make up for what is missing.
"""

from typing import Final

import numpy as np

from jepsen_like.checker.verdict import Check, Findings, Violation
from jepsen_like.history import NONE, Action, HistoryReader, Kept, Op, Outcome, read_part

REPLACED_BYTES: Final = 4096
"""What an append of unknown outcome may have left behind in a log, its entry replaced by another."""
CLOCKS_APART_S: Final = 0.5
"""By so much the clock that dates records may have been set between two looks at it."""


def overdone(history: HistoryReader, kept: Kept, findings: Findings) -> Findings:
    """A violation for each node that let go what its rule keeps; nothing for logs from which nothing may leave."""
    rule = kept.rule
    late = {node: start for node, start in sorted(kept.starts.items()) if start > 0}
    if not rule.may_expire or not late or findings.lost_acked:
        return Findings()  # a log that has lost its end holds less than its rule kept, and the loss is told anyway
    violations = []
    for node, start in late.items():
        if rule.retention_bytes:
            missing = rule.retention_bytes - kept.bytes_kept[node]
            if missing <= rule.segment_bytes_max + REPLACED_BYTES * findings.info:
                continue
        if rule.retention_s:
            newest_ns = _newest_below(history, start)
            age_s = (kept.dumped_ns - newest_ns) / 1e9 + CLOCKS_APART_S
            if not rule.judges_age or newest_ns == NONE or age_s >= rule.retention_s:
                continue
        violations.append(_violation(node, start, kept))
    if not violations:
        return Findings()
    return Findings(violated=frozenset([0]), counts={Check.LOST: len(violations)}, violations=tuple(violations))


def _newest_below(history: HistoryReader, start: int) -> int:
    """When the newest acknowledged record below `start` was asked for; `NONE` if there is none."""
    newest = NONE
    for path in history.files():
        table = read_part(path, ("f", "type", "offset", "t_inv"))
        f, outcome, offset, t_inv = (table.column(name).to_numpy() for name in ("f", "type", "offset", "t_inv"))
        begun = t_inv[(f == Action.APPEND) & (outcome == Outcome.OK) & (offset >= 0) & (offset < start)]
        newest = max(newest, int(begun.max(initial=np.int64(NONE))))
    return newest


def _violation(node: int, start: int, kept: Kept) -> Violation:
    rule = kept.rule
    keeps = [f"the newest {rule.retention_bytes:,} bytes"] if rule.retention_bytes else []
    keeps += [f"what is younger than {rule.retention_s:g} s"] if rule.retention_s else []
    sentence = (
        f"log 0: the final log of node {node} begins at {start} and holds {kept.bytes_kept[node]:,} bytes of records, "
        f"though it keeps {' and '.join(keeps)}"
    )
    at = kept.dumped_ns
    begins = Op(f=Action.READ, type=Outcome.OK, t_inv=at, t_ret=at, process=NONE, offset=start, node=node)
    return Violation(Check.LOST, 0, sentence, (begins,))

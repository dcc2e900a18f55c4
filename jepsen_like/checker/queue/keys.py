"""Checks that the messages of each sharding key were given in the order in which they were sent, over all partitions.

A key has one sender, which sends the next message when the last call has ended. Of a message whose sending was acknowledged, every later one of
its key must be given after it: when each was first given counts, since a message may come again. Where keys may move to another partition, two
messages in different partitions have no order that anything keeps: these inversions are told as tolerated, those within one partition are not.
"""

import attrs
import numpy as np

from jepsen_like.checker.queue.records import SHOWN_MAX
from jepsen_like.checker.queue.rows import QueueExpectations
from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.checker.sentences import describe
from jepsen_like.checker.verdict import Check, Findings, Tolerated, Violation, in_order
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome

MOVED = "the keys of a queue that cannot be written to go to others"


@attrs.frozen(eq=False)
class _Keyed:
    """The messages of one key that were given, in the order in which they were sent."""

    send: Ints
    given: Ints
    """Rows of the history: where it was sent, and where it was first given."""


def check_keys(rows: Columns, expectations: QueueExpectations) -> Findings:
    """The findings about all keys but the last, which belongs to the harness's own probes."""
    findings = Findings()
    for group in expectations.groups:
        for keyed in _by_key(rows, group, expectations.keys):
            findings = findings.plus(_of_key(rows, keyed, expectations))
    return findings


def _by_key(rows: Columns, group: int, keys: int) -> list[_Keyed]:
    given = np.flatnonzero((rows.f == Action.POLL) & (rows.b == group) & (rows.a != NONE))
    given = given[np.argsort(rows.t_inv[given], kind="stable")]
    value, first = np.unique(rows.a[given], return_index=True)
    given = given[first]
    sends = np.flatnonzero((rows.f == Action.SEND) & (rows.type != Outcome.FAIL))
    at = np.minimum(np.searchsorted(value, rows.a[sends]), max(0, len(value) - 1))
    known = value[at] == rows.a[sends] if len(value) else np.zeros(len(sends), np.bool_)
    sends, given = sends[known], given[at[known]]
    order = np.argsort(rows.t_inv[sends], kind="stable")
    sends, given = sends[order], given[order]
    key = rows.a[sends] % keys
    return [_Keyed(sends[key == one], given[key == one]) for one in range(keys - 1)]


def _of_key(rows: Columns, keyed: _Keyed, expectations: QueueExpectations) -> Findings:
    send, given = keyed.send, keyed.given
    began = rows.t_inv[given]
    binding = np.where(rows.type[send] == Outcome.OK, began, np.int64(-NEVER))
    latest = np.maximum.accumulate(np.concatenate([[-NEVER], binding]))[:-1]
    shown = frozenset([Check.KEY_ORDER]) if (latest > -NEVER).any() else frozenset[Check]()
    violations, moved, example = list[Violation](), 0, ""
    bad = 0
    objects = set[int]()
    for at in np.flatnonzero(latest > began).tolist():
        before = int(np.flatnonzero(binding[:at] == latest[at])[0])
        ops = [rows.op(int(row)) for row in (send[before], send[at], given[at], given[before])]
        sentence = f"{describe(ops[1])} was sent after {describe(ops[0])} of the same key, and given before it"
        if expectations.keys_move and ops[0].object != ops[1].object:
            moved, example = moved + 1, example or sentence
            continue
        bad += 1
        objects.add(ops[1].object)
        if len(violations) < SHOWN_MAX:
            violations.append(Violation(Check.KEY_ORDER, ops[1].object, sentence, in_order(ops)))
    tolerated: tuple[Tolerated, ...] = ()
    if moved:
        object_ = int(rows.object[send[0]])
        tolerated = (Tolerated(check=Check.KEY_ORDER, object=object_, count=moved, because=MOVED, example=example),)
    return Findings(
        violated=frozenset(objects),
        counts={Check.KEY_ORDER: bad} if bad else {},
        violations=tuple(violations),
        shown=shown,
        tolerated=tolerated,
    )

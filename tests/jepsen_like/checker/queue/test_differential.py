"""The kernels of queues say the same as the definitions, of histories without a flaw and of damaged ones."""

import random

import hypothesis
import numpy as np
from hypothesis import strategies as st

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.queue.check import check_queue
from jepsen_like.checker.queue.rows import QueueExpectations
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.verdict import WITNESS_OPS_MAX
from jepsen_like.history.ops import NONE
from tests.examples import examples
from tests.jepsen_like.checker.queue.queue_oracle import Judged, judge_queue
from tests.jepsen_like.checker.queue.small_queues import Small, clean, make_damaged

SEEDS = st.integers(0, 2**32)


def as_checked(small: Small) -> Judged:
    """Returns the findings of the checker in the terms of the oracle."""
    logs = [
        FinalLog(
            node,
            first,
            np.array([value for value, _ in records], np.int64),
            np.array([epoch for _, epoch in records], np.int64),
        )
        for node, (first, records) in small.logs.items()
    ]
    expectations = QueueExpectations(
        acks=small.held.acks,
        ordered_sends=small.held.ordered,
        may_duplicate=small.held.doubles,
        session_timeout_ns=small.held.expelled_after,
        rebalance_timeout_ns=2 * small.held.expelled_after,
    )
    allowances = [
        Allowance(
            fault=number,
            kind="kill",
            promise="may be lost",
            since_ns=fault.since,
            begun_ns=fault.begun,
            injected_ns=fault.injected,
            node=NONE if fault.node is None else fault.node,
            epoch_max=fault.epoch_max,
            may_cost_read=fault.reads,
            may_cost_commits=fault.commits,
            is_tail=fault.tail,
        )
        for number, fault in enumerate(sorted(small.faults, key=lambda fault: fault.begun))
    ]
    rows = Columns.of_ops(small.ops)
    findings, losses = check_queue(rows, {0: logs}, expectations, allowances)
    assert {one.check for one in findings.violations} == set(findings.counts)
    assert all(len(one.ops) <= WITNESS_OPS_MAX and one.sentence for one in findings.violations)
    assert findings.violated == (frozenset({0}) if findings.counts else frozenset())
    cost = [0] * len(allowances)
    for loss in losses:
        cost[loss.allowance.fault] += loss.records
    return Judged(
        {str(check): count for check, count in findings.counts.items()},
        findings.lost_acked,
        [set(range(number)) for number in cost],
        findings.unseen,
        findings.expired,
        findings.duplicated,
    )


def sizes(found: Judged) -> Judged:
    """With the number of messages that each fault cost in place of the messages."""
    found.allowed = [set(range(len(cost))) for cost in found.allowed]
    return found


@hypothesis.given(SEEDS)
@hypothesis.settings(max_examples=examples(90))
def test_nothing_is_found_in_what_a_correct_log_did(seed: int) -> None:
    small = clean(random.Random(seed))
    if small.ops:
        found = as_checked(small)
        assert (found.counts, found.lost_acked, found.unseen, found.doubled) == ({}, 0, 0, 0)


@hypothesis.given(SEEDS)
@hypothesis.settings(max_examples=examples(180))
def test_damaged_histories_are_judged_as_the_definitions_say(seed: int) -> None:
    small = make_damaged(random.Random(seed))
    if small.ops:
        assert as_checked(small) == sizes(judge_queue(small.ops, small.logs, small.held, small.faults))

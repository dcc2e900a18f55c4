"""Each step of the scan of a log returns what a hand finds in small parts."""

from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from jepsen_like.checker.log.scan import (
    AckedTwice,
    Diverged,
    Facts,
    FinalLogs,
    Gap,
    LogPlan,
    LostValue,
    SeenEarly,
    Times,
    Unwritten,
    Wrong,
    at_least,
    at_most,
    facts_of,
    holes_filled,
    logs_of,
    plan_of,
    times_of,
)
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.history.ops import NEVER, NONE, ErrorCode, Op, Outcome
from tests.jepsen_like.checker.log.test_explain import append, read, refuse_append, tail, unknown

LOG = 7
"""The name of the log in these parts."""


def knew(length: int, end: int, process: int = 20) -> Op:
    """An operation that makes a length known and denies nothing."""
    return attrs.evolve(read(length - 1, 100 + length, 0, end), process=process)


def deny_beyond(length: int, start: int) -> Op:
    """An operation that denies any greater length and makes nothing known."""
    return read(length, NONE, start, start + 1)


def part(ops: Sequence[Op]) -> Columns:
    return Columns.of_ops(attrs.evolve(op, object=LOG) for op in ops)


def facts(ops: Sequence[Op], content: Sequence[int] = (), begin: int = 0) -> Facts:
    return facts_of(part(ops), np.array(content, np.int64), begin=begin)


def join_facts(*parts: Sequence[Op], content: Sequence[int] = ()) -> Facts:
    """Returns the facts of pass one about a log in these parts."""
    begins = np.cumsum([0, *map(len, parts)]).tolist()
    return Facts.join([facts(ops, content, begin) for begin, ops in zip(begins, parts, strict=False)])


def final(values: Sequence[int]) -> FinalLogs:
    return FinalLogs(np.array(values, np.int64), len(values), {1: (0, len(values))})


def plan_log(*parts: Sequence[Op], values: Sequence[int] | None = None) -> LogPlan:
    """Returns the plan of a log in these parts; `values` in its final logs, if they are known."""
    return plan_of(LOG, join_facts(*parts, content=values or ()), None if values is None else final(values))


def in_log(op: Op | None) -> Op:
    assert op is not None
    return attrs.evolve(op, object=LOG)


# What an operation proves about the length.


@pytest.mark.parametrize(
    ("op", "least", "most"),
    [
        pytest.param(append(9, 4, 1, 2), 5, 4, id="append"),
        pytest.param(append(9, 0, 1, 2), 1, 0, id="first append"),
        pytest.param(read(4, 9, 1, 2), 5, NEVER, id="read that saw a value"),
        pytest.param(read(4, NONE, 1, 2), 0, 4, id="read that saw nothing"),
        pytest.param(tail(4, 1, 2), 4, 4, id="tail"),
        pytest.param(tail(0, 1, 2), 0, 0, id="tail of nothing"),
    ],
)
def test_an_operation_says_what_the_table_says_if_it_happened(op: Op, least: int, most: int) -> None:
    one = part([op])
    assert (at_least(one).tolist(), at_most(one).tolist()) == ([least], [most])
    for outcome in (Outcome.FAIL, Outcome.INFO):
        one = part([attrs.evolve(op, type=outcome)])
        assert (at_least(one).tolist(), at_most(one).tolist()) == ([0], [NEVER])


# The logs in a part file.


def test_a_file_without_operations_holds_no_logs() -> None:
    assert logs_of(Columns.of_ops(())) == {}


@pytest.mark.parametrize("count", [1, 3])
def test_a_file_of_one_log_is_its_part_without_a_copy(count: int) -> None:
    rows = part([append(value, value, 1, 2) for value in range(count)])
    logs = logs_of(rows)
    assert list(logs) == [LOG]
    assert logs[LOG] is rows


def test_a_file_of_several_logs_is_taken_apart_in_the_order_of_its_rows() -> None:
    values_of = {3: [1, 4], 5: [2], 9: [0, 3, 5]}
    rows = Columns.of_ops(
        attrs.evolve(append(value, value, 1, 2), object=name)
        for value in range(6)
        for name, values in values_of.items()
        if value in values
    )
    assert {name: one.a.tolist() for name, one in logs_of(rows).items()} == values_of


# Pass one.

MIXED = (
    refuse_append(8, 1, 60),
    unknown(7, 2),
    read(0, 1, 3, 33),
    read(0, NONE, 4, 5),
    append(1, 0, 10, 20),
    append(2, 1, 12, 25),
    tail(3, 26, 30),
    read(3, NONE, 34, 40),
    unknown(9, 50),
)


def test_facts_count_operations_by_outcome() -> None:
    found = facts(MIXED).sums
    assert (found.ok, found.fail, found.info, found.acked) == (6, 1, 2, 2)


def test_facts_span_from_the_first_beginning_to_the_last_moment_known() -> None:
    found = facts(MIXED).sums
    assert (found.t_first, found.t_last) == (1, 60)
    assert facts([*MIXED, unknown(10, 70)]).sums.t_last == 70
    assert facts([unknown(10, 0)]).sums.t_last == 0


def test_facts_of_nothing_know_of_no_time() -> None:
    found = facts([]).sums
    assert (found.ok, found.t_first, found.t_last) == (0, NEVER, 0)


def list_known(found: Facts) -> list[tuple[int, int, int]]:
    """Returns the moment, the length and the row of each length that was news."""
    return list(zip(found.known_ns.tolist(), found.known_length.tolist(), found.known_row.tolist(), strict=True))


def test_lengths_become_known_when_what_knows_them_ends() -> None:
    assert list_known(facts(MIXED)) == [(20, 1, 4), (25, 2, 5), (30, 3, 6)]


def test_a_length_is_news_where_it_is_greater_than_all_that_were_known_before() -> None:
    ops = [knew(2, 30), knew(3, 10), knew(3, 20), knew(1, 15), knew(4, 20), knew(5, 20)]
    assert list_known(facts(ops)) == [(10, 3, 1), (20, 4, 4), (20, 5, 5)]


def test_the_length_of_one_is_a_known_length() -> None:
    found = facts([append(1, 0, 10, 20)])
    assert (list_known(found), found.sums.length) == ([(20, 1, 0)], 1)


def test_where_no_length_is_known_no_one_knew_it() -> None:
    found = facts([unknown(7, 2), read(0, NONE, 3, 4)])
    assert (list_known(found), found.sums.length, found.sums.length_op) == ([], 0, None)


def test_the_greatest_length_is_kept_with_who_knew_it() -> None:
    found = facts(MIXED).sums
    assert found.length == 3
    assert found.length_op == in_log(tail(3, 26, 30))


def test_parts_add_up() -> None:
    whole, parts = facts(MIXED), join_facts(MIXED[:4], MIXED[4:6], MIXED[6:])
    assert parts.sums == whole.sums
    assert set(list_known(parts)) >= set(list_known(whole))
    for name in ("append_offset", "append_value", "info_value", "info_start", "refused"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


def test_appends_of_unknown_outcome_keep_value_and_beginning_and_refused_ones_the_value() -> None:
    failed_read = attrs.evolve(read(0, 5, 1, 2), type=Outcome.FAIL)
    found = facts([*MIXED, refuse_append(8, 61, 62), failed_read, attrs.evolve(tail(0, 1, 2), type=Outcome.INFO)])
    assert found.info_value.tolist() == [7, 9]
    assert found.info_start.tolist() == [2, 50]
    assert found.refused.tolist() == [8]


def test_without_final_logs_every_acknowledged_append_is_kept_and_every_sight_once() -> None:
    found = facts([*MIXED, read(0, 1, 70, 71), read(0, 4, 70, 71), attrs.evolve(read(2, 5, 1, 2), type=Outcome.INFO)])
    assert (found.append_offset.tolist(), found.append_value.tolist()) == ([0, 1], [1, 2])
    assert list(zip(found.read_offset.tolist(), found.read_value.tolist(), strict=True)) == [(0, 1), (0, 4)]
    assert found.agreed.tolist() == []


def test_what_agrees_with_the_final_logs_fills_its_place_and_the_rest_is_kept() -> None:
    appends = [append(1, 0, 1, 2), append(2, 1, 1, 2), append(9, 2, 1, 2), append(4, 4, 1, 2), append(5, 3, 1, 2)]
    reads = [read(0, 1, 3, 4), read(1, 6, 3, 4), read(1, 6, 5, 6), read(4, 4, 3, 4), read(2, NONE, 3, 4)]
    found = facts([*appends, *reads], content=[1, 2, 3, NONE])
    assert found.agreed.tolist() == [0, 1]
    assert (found.append_offset.tolist(), found.append_value.tolist()) == ([2, 4, 3], [9, 4, 5])
    assert (found.read_offset.tolist(), found.read_value.tolist()) == ([1, 4], [6, 4])
    assert found.sums.acked == 5


def test_what_lies_behind_a_final_log_of_one_record_does_not_agree_with_it() -> None:
    found = facts([append(1, 0, 1, 2), append(1, 1, 1, 2)], content=[1])
    assert found.agreed.tolist() == [0]
    assert found.append_offset.tolist() == [1]


def test_only_what_happened_at_a_place_claims_its_epoch() -> None:
    silent = [
        attrs.evolve(unknown(1, 1), offset=0),
        attrs.evolve(append(1, 0, 1, 2), type=Outcome.FAIL),
        attrs.evolve(append(1, 0, 1, 2), offset=NONE),
        tail(1, 1, 2),
        read(0, NONE, 1, 2),
    ]
    one = facts([attrs.evolve(op, epoch=9) for op in (*silent, append(2, 0, 1, 2), read(1, 3, 1, 2))])
    assert (one.claim_offset.tolist(), one.claim_value.tolist()) == ([0, 1], [2, 3])
    assert one.claim_epoch.tolist() == [9, 9]


def test_an_acknowledgement_without_a_place_is_counted_and_put_nowhere() -> None:
    nowhere = [append(5, NONE, 1, 2), attrs.evolve(read(0, 5, 1, 2), offset=NONE), tail(NONE, 1, 2)]
    found = facts([*nowhere, append(6, 0, 1, 2), read(0, 6, 3, 4), refuse_append(8, 1, 2), unknown(9, 1)])
    assert found.sums.unplaced == 3
    assert (found.append_value.tolist(), found.read_value.tolist()) == ([6], [6])


def test_the_first_five_damaged_records_are_kept() -> None:
    damaged = [
        attrs.evolve(read(place, place, place, place + 1), err=ErrorCode.DAMAGED_VALUE, object=LOG)
        for place in range(1, 8)
    ]
    unheard = attrs.evolve(damaged[0], type=Outcome.INFO, t_inv=0)
    assert facts([unheard, append(1, 1, 0, 1), *damaged]).sums.damaged == tuple(damaged[:5])
    assert facts([append(1, 1, 0, 1), unheard]).sums.damaged == ()


# The final logs as one.


def test_a_place_is_told_by_a_node_whose_log_reaches_over_it() -> None:
    logs = FinalLogs(np.arange(9), 9, {1: (0, 2), 2: (2, 9), 3: (5, 6)})
    assert [logs.node_at(offset) for offset in range(9)] == [1, 1, 2, 2, 2, 2, 2, 2, 2]


def test_that_nothing_is_at_a_place_is_told_by_the_longest_log() -> None:
    assert FinalLogs(np.arange(9), 9, {1: (3, 5), 2: (0, 9), 3: (7, 8)}).node_at(9) == 2
    assert FinalLogs(np.arange(0), 0, {}).node_at(0) == NONE


def test_of_nodes_that_say_the_same_the_first_is_named() -> None:
    logs = FinalLogs(np.arange(4), 4, {3: (0, 4), 1: (2, 4), 2: (2, 4)})
    assert [logs.node_at(offset) for offset in (0, 2, 4)] == [3, 1, 1]


def test_they_begin_where_the_first_of_them_does_and_nothing_may_leave_them_unless_that_is_said() -> None:
    logs = FinalLogs(np.arange(4), 4, {1: (2, 4), 2: (1, 4)})
    assert (logs.start, logs.expires) == (1, False)
    assert FinalLogs(np.arange(0), 0, {}).start == 0


# The parts of one log joined.


def test_an_acknowledged_append_behind_the_end_is_lost() -> None:
    plan = plan_log([append(1, 0, 1, 2), append(2, 1, 1, 2), append(3, 2, 1, 2)], values=[1])
    assert plan.wrong == (LostValue(1, 2, True), LostValue(2, 3, True))
    assert plan.lost_acked == 2
    assert plan.too_long == in_log(append(3, 2, 1, 2))
    assert plan.holes.tolist() == []


def test_an_acknowledged_append_in_whose_place_another_value_stands_is_lost() -> None:
    plan = plan_log([append(1, 0, 1, 2), append(2, 1, 1, 2), unknown(3, 1)], values=[1, 3])
    assert plan.wrong == (LostValue(1, 2, True),)
    assert (plan.lost_acked, plan.too_long) == (1, None)
    assert plan.content.tolist() == [1, 3]
    assert plan.holes.tolist() == [1]


def test_every_lost_append_is_counted_and_every_lost_place_told_once() -> None:
    twice = [append(2, 1, 1, 2), append(2, 1, 3, 4), append(5, 0, 1, 2), append(5, 0, 3, 4)]
    plan = plan_log(twice, values=[1])
    assert set(plan.wrong) == {LostValue(1, 2, True), LostValue(0, 5, True)}
    assert (len(plan.wrong), plan.lost_acked) == (2, 4)


def test_what_was_read_behind_the_end_is_lost() -> None:
    plan = plan_log([append(1, 0, 1, 2), read(1, 2, 3, 4), read(2, 3, 3, 4)], values=[1])
    assert plan.wrong == (LostValue(1, 2, False), LostValue(2, 3, False))
    assert plan.lost_acked == 0


@pytest.mark.parametrize("values", [[1], [1, 3]], ids=["behind the end", "replaced"])
def test_a_lost_append_that_was_read_is_told_once(values: list[int]) -> None:
    plan = plan_log([append(1, 0, 1, 2), append(2, 1, 1, 2), read(1, 2, 3, 4), unknown(3, 1)], values=values)
    assert plan.wrong == (LostValue(1, 2, True),)


def test_a_read_that_differs_from_the_final_logs_diverges() -> None:
    plan = plan_log([append(1, 0, 1, 2), read(0, 4, 3, 4), append(2, 1, 1, 2)], values=[1, 2])
    assert plan.wrong == (Diverged(0, 1, 4),)


def test_a_read_that_differs_from_an_acknowledged_append_diverges() -> None:
    assert plan_log([append(1, 0, 1, 2)], [read(0, 4, 3, 4)]).wrong == (Diverged(0, 1, 4),)


def test_two_acknowledged_appends_of_different_values_at_one_place_diverge() -> None:
    plan = plan_log([append(1, 0, 1, 2)], [append(2, 0, 1, 2), append(3, 1, 1, 2)])
    (diverged,) = plan.wrong
    assert isinstance(diverged, Diverged)
    assert (diverged.offset, {diverged.value, diverged.other}) == (0, {1, 2})
    assert diverged.value == plan.content[0]
    assert plan.holes.tolist() == []


def test_places_acknowledged_twice_are_told_once_each() -> None:
    values = list(range(100, 112))
    first = [append(108, 8, 1, 2), append(109, 9, 1, 2), append(109, 9, 3, 4)]
    second = [append(109, 9, 1, 2), append(110, 10, 1, 2)]
    assert plan_log(first, values=values).wrong == (AckedTwice(9, 109),)
    assert plan_log(first[:2], second, values=values).wrong == (AckedTwice(9, 109),)
    assert plan_log(first, second, values=values).wrong == (AckedTwice(9, 109),)


def test_places_that_only_acknowledgements_tell_of_can_be_acknowledged_twice() -> None:
    ops = [append(1, 0, 1, 2), append(2, 1, 1, 2), append(2, 1, 3, 4), append(3, 2, 3, 4)]
    assert plan_log(ops).wrong == (AckedTwice(1, 2),)
    assert plan_log(ops[:2], ops[2:]).wrong == (AckedTwice(1, 2),)


def test_parts_that_follow_each_other_fill_the_log() -> None:
    plan = plan_log(
        [append(100 + place, place, 1, 2) for place in range(5)],
        [append(100 + place, place, 1, 2) for place in range(5, 11)],
        values=list(range(100, 111)),
    )
    assert plan.wrong == ()
    assert plan.holes.tolist() == []
    assert (plan.lost_acked, plan.too_long, plan.object) == (0, None, LOG)


def test_places_that_no_acknowledged_append_fills_are_holes() -> None:
    ops = [append(1, 0, 1, 2), append(3, 2, 1, 2), unknown(7, 1)]
    assert plan_log(ops, values=[1, 7, 3, 8]).holes.tolist() == [1, 3]
    plan = plan_log(ops)
    assert plan.holes.tolist() == [1]
    assert plan.content.tolist() == [1, NONE, 3]
    assert plan_log([*ops, read(1, 7, 3, 4)]).content.tolist() == [1, 7, 3]


def test_what_the_final_logs_do_not_hold_is_lost() -> None:
    logs = final([NONE, 2])
    ops = [append(1, 0, 1, 2), append(2, 1, 1, 2)]
    plan = plan_of(LOG, facts(ops, [NONE, 2]), logs)
    assert plan.wrong == (LostValue(0, 1, True),)
    assert (plan.content.tolist(), plan.holes.tolist(), plan.lost_acked) == ([NONE, 2], [], 1)


def test_what_was_read_and_the_final_logs_do_not_hold_is_lost() -> None:
    ops = [unknown(1, 1), read(0, 1, 1, 2), append(2, 1, 1, 2)]
    plan = plan_of(LOG, facts(ops, [NONE, 2]), final([NONE, 2]))
    assert plan.wrong == (LostValue(0, 1, False),)


def test_what_left_by_a_rule_is_not_lost_but_held_against_itself() -> None:
    logs = attrs.evolve(final([NONE, 2]), node_of={1: (1, 2)}, expires=True)
    ops = [append(1, 0, 1, 2), append(2, 1, 1, 2)]
    plan = plan_of(LOG, facts(ops, [NONE, 2]), logs)
    assert (plan.wrong, plan.content.tolist(), plan.expired, plan.lost_acked) == ((), [1, 2], 1, 0)
    assert logs.content.tolist() == [NONE, 2]


def test_without_final_logs_a_log_is_as_long_as_known_if_there_were_appends_enough() -> None:
    known = [append(1, 0, 1, 2), tail(3, 3, 4)]
    plan = plan_log([*known, unknown(7, 1)], [unknown(8, 1), unknown(9, 1)])
    assert plan.content.tolist() == [1, NONE, NONE]
    assert plan.too_long is None
    assert plan_log([*known, unknown(7, 1)], [unknown(8, 1)]).too_long is None
    plan = plan_log(known, [unknown(7, 1)])
    assert plan.content.tolist() == [1, NONE]
    assert plan.too_long == in_log(known[1])


def test_without_final_logs_an_append_far_behind_is_too_long_and_not_lost() -> None:
    plan = plan_log([append(1, 0, 1, 2)], [append(2, 900, 1, 2), read(800, 5, 3, 4)])
    assert plan.too_long == in_log(append(2, 900, 1, 2))
    assert (plan.wrong, plan.lost_acked) == ((), 0)
    assert len(plan.content) == 2


def test_a_length_that_the_final_logs_reach_is_not_too_long() -> None:
    assert plan_log([tail(2, 3, 4)], values=[1, 2]).too_long is None
    assert plan_log([tail(2, 3, 4)], [tail(3, 5, 6)], values=[1, 2]).too_long == in_log(tail(3, 5, 6))


# Pass two.


def compute_times(*parts: Sequence[Op], holes: Sequence[int] = ()) -> Times:
    """Returns the times of a log in these parts, recorded in this order."""
    plan = attrs.evolve(plan_log(*parts), holes=np.array(holes, np.int64))
    return times_of([part(ops) for ops in parts], plan)


def contradictions(times: Times) -> list[tuple[Op, Op]]:
    return times.examples


def pair(knower: Op, denier: Op) -> tuple[Op, Op]:
    return in_log(knower), in_log(denier)


def test_a_length_known_before_it_was_denied_is_a_contradiction() -> None:
    assert contradictions(compute_times([knew(5, 10), deny_beyond(4, 11)])) == [pair(knew(5, 10), deny_beyond(4, 11))]


def test_a_length_denied_before_it_was_known_is_none() -> None:
    assert contradictions(compute_times([deny_beyond(4, 10), knew(5, 10), deny_beyond(4, 9), deny_beyond(0, 0)])) == []


def test_a_length_that_was_not_denied_is_none() -> None:
    assert contradictions(compute_times([knew(5, 10), deny_beyond(5, 11), tail(5, 11, 12), append(6, 5, 11, 12)])) == []


def test_where_no_length_was_known_nothing_is_contradicted() -> None:
    assert contradictions(compute_times([deny_beyond(0, 3), tail(0, 4, 5), unknown(7, 1)])) == []


def test_where_nothing_was_denied_nothing_is_contradicted() -> None:
    assert contradictions(compute_times([knew(9, 1)], [knew(5, 3), knew(4, 9)], [knew(9, 2)])) == []


def test_the_length_of_one_contradicts_an_empty_log() -> None:
    assert contradictions(compute_times([knew(1, 3), deny_beyond(0, 4)])) == [pair(knew(1, 3), deny_beyond(0, 4))]


def test_what_ended_in_another_part_counts_and_is_named() -> None:
    times = compute_times(
        [knew(2, 1), deny_beyond(4, 11), deny_beyond(2, 9)], [knew(3, 10)], [knew(5, 10)], [knew(9, 12)]
    )
    assert contradictions(times) == [pair(knew(5, 10), deny_beyond(4, 11))]


def test_what_was_known_before_the_part_counts_and_is_named() -> None:
    times = compute_times([knew(5, 1)], [knew(2, 3), deny_beyond(4, 11), deny_beyond(5, 4)])
    assert contradictions(times) == [pair(knew(5, 1), deny_beyond(4, 11))]


def test_what_ended_as_a_denial_began_cannot_contradict_it() -> None:
    assert contradictions(compute_times([deny_beyond(4, 10), deny_beyond(4, 9)], [knew(5, 10)], [knew(5, 16)])) == []
    assert (
        contradictions(
            compute_times([deny_beyond(4, 10), deny_beyond(4, 15)], [knew(5, 15)], [unknown(7, 1), deny_beyond(0, 4)])
        )
        == []
    )


def test_of_two_lengths_the_greater_is_named() -> None:
    times = compute_times([knew(5, 1)], [knew(6, 3), deny_beyond(4, 11)])
    assert contradictions(times) == [pair(knew(6, 3), deny_beyond(4, 11))]
    times = compute_times([knew(7, 1)], [knew(6, 3), deny_beyond(4, 11)])
    assert contradictions(times) == [pair(knew(7, 1), deny_beyond(4, 11))]


def test_a_length_that_was_known_before_the_part_and_became_known_again_contradicts_once() -> None:
    times = compute_times([knew(5, 1)], [deny_beyond(4, 11), knew(5, 12), deny_beyond(4, 14)])
    assert contradictions(times) == [pair(knew(5, 1), deny_beyond(4, 11))]


def test_a_length_that_is_denied_in_several_parts_is_contradicted_once() -> None:
    wrong = append(9, 3, 30, 31)
    times = compute_times(
        [knew(5, 1), deny_beyond(4, 11)], [deny_beyond(4, 12)], [deny_beyond(3, 13), wrong], [append(8, 3, 32, 33)]
    )
    assert contradictions(times) == [pair(knew(5, 1), wrong)]


def test_who_knew_the_length_first_is_named() -> None:
    ops = [knew(1, 10), knew(5, 10), knew(5, 12, process=21), knew(3, 13), deny_beyond(4, 14), knew(9, 15)]
    assert contradictions(compute_times(ops)) == [pair(knew(5, 10), deny_beyond(4, 14))]


def test_all_that_one_operation_contradicts_is_one_contradiction() -> None:
    times = compute_times([knew(50, 10), *[deny_beyond(length, 20 + length) for length in range(40)]])
    assert contradictions(times) == [pair(knew(50, 10), deny_beyond(0, 20))]


def test_each_operation_that_knew_a_denied_length_is_one_contradiction() -> None:
    ops = [knew(5, 10), deny_beyond(4, 11), knew(6, 20), deny_beyond(4, 21), deny_beyond(5, 22)]
    assert contradictions(compute_times(ops)) == [
        pair(knew(5, 10), deny_beyond(4, 11)),
        pair(knew(6, 20), deny_beyond(4, 21)),
    ]


def test_an_append_that_was_put_in_the_wrong_place_is_the_better_example() -> None:
    wrong = append(9, 3, 30, 31)
    assert contradictions(compute_times([knew(5, 10), deny_beyond(4, 11), wrong])) == [pair(knew(5, 10), wrong)]


def test_of_contradictions_the_first_five_are_told() -> None:
    ops = [op for step in range(1, 8) for op in (knew(10 * step, 10 * step), deny_beyond(0, 10 * step + 5))]
    expected = [pair(*ops[at : at + 2]) for at in range(0, 10, 2)]
    assert compute_times(ops).examples == expected
    assert compute_times(*([op] for op in ops)).examples == expected


def test_a_place_was_known_to_be_filled_when_the_first_greater_length_was() -> None:
    ops = [tail(3, 0, 20), knew(1, 10), tail(7, 0, 15), unknown(9, 1), deny_beyond(9, 4)]
    for parts in ([ops], [ops[:2], ops[2:]], [ops[2:], ops[:2]]):
        assert compute_times(*parts, holes=[0, 1, 2, 6, 7]).deadlines.tolist() == [10, 15, 15, 15, NEVER]


def test_without_holes_there_are_no_deadlines() -> None:
    assert compute_times([knew(5, 10)]).deadlines.tolist() == []


# The holes.

SEEN = 7
"""The value that the final logs hold in every hole."""


def holes_of_seen(deadlines: Sequence[int], starts: Sequence[int]) -> list[Wrong]:
    """Returns the holes that stay if `SEEN` stands at every place, was known by then and was appended at these times."""
    ops = [unknown(SEEN, start) for start in starts]
    plan = plan_log(ops[::2], ops[1::2], values=[SEEN] * len(deadlines))
    return holes_filled(plan, np.array(deadlines, np.int64))


@pytest.mark.parametrize(
    ("deadlines", "starts"),
    [
        pytest.param([5], [5], id="begun at the deadline"),
        pytest.param([NEVER], [5], id="never known before the end"),
        pytest.param([5], [20, 2, 30], id="late ones are passed over"),
        pytest.param([5, 9], [8, 1], id="each takes the latest it can"),
        pytest.param([5, 9], [1, 8], id="in whatever order they were recorded"),
        pytest.param([3, 6, 9], [1, 2, 40, 3, 30], id="late for one is late for all before it"),
    ],
)
def test_holes_are_filled_by_appends_begun_in_time(deadlines: list[int], starts: list[int]) -> None:
    assert holes_of_seen(deadlines, starts) == []


def test_a_value_that_nobody_appended_is_unwritten() -> None:
    assert holes_of_seen([5], []) == [Unwritten(0, SEEN)]


def test_a_value_that_stands_more_often_than_it_was_appended_is_unwritten_at_the_first_place() -> None:
    assert holes_of_seen([5, 9], [1]) == [Unwritten(0, SEEN)]


def test_a_value_appended_after_it_was_known_was_seen_early() -> None:
    assert holes_of_seen([4], [5]) == [SeenEarly(0, SEEN, deadline=4, reach=0)]
    assert holes_of_seen([5, 9], [6, 8]) == [SeenEarly(0, SEEN, deadline=5, reach=0)]


def test_the_place_seen_early_is_the_one_in_the_log() -> None:
    plan = plan_log([append(1, 0, 1, 2), unknown(SEEN, 9)], values=[1, SEEN])
    assert holes_filled(plan, np.array([4])) == [SeenEarly(1, SEEN, deadline=4, reach=1)]
    plan = plan_log([append(1, 0, 1, 2)], values=[1, SEEN])
    assert holes_filled(plan, np.array([4])) == [Unwritten(1, SEEN)]


@pytest.mark.parametrize(
    ("deadlines", "starts", "wrong"),
    [
        pytest.param([3, 9], [3, 10], [SeenEarly(0, SEEN, 9, 1)], id="begun at the deadline"),
        pytest.param([3, 6, 9], [5, 3, 10], [SeenEarly(0, SEEN, 9, 2)], id="one needs another's"),
        pytest.param([3, 6, 9], [7, 3, 10], [SeenEarly(0, SEEN, 6, 1)], id="none beyond those that compete"),
        pytest.param(
            [2, 3, 4], [10, 11, 1], [SeenEarly(1, SEEN, 4, 2), SeenEarly(0, SEEN, 4, 2)], id="two places for one append"
        ),
    ],
)
def test_a_place_seen_early_names_how_far_its_rivals_reach(
    deadlines: list[int], starts: list[int], wrong: list[Wrong]
) -> None:
    assert holes_of_seen(deadlines, starts) == wrong


def holes_of_unseen(deadlines: Sequence[int], starts: Sequence[int]) -> list[Wrong]:
    """Returns the holes that stay if no operation saw them, known to be filled by then, and other values were appended."""
    count = len(deadlines)
    ops = [unknown(20 + at, start) for at, start in enumerate(starts)]
    plan = plan_log([*ops, append(1, count, 1, 2)], values=[*[NONE] * count, 1])
    return holes_filled(plan, np.array(deadlines, np.int64))


@pytest.mark.parametrize(
    ("deadlines", "starts"),
    [
        pytest.param([4], [4], id="begun at the deadline"),
        pytest.param([5, 9], [8, 1], id="each takes the latest it can"),
        pytest.param([5, 9], [20, 30, 1, 8], id="late ones are passed over"),
        pytest.param([4, NEVER], [1, 20], id="never known before the end"),
    ],
)
def test_an_unseen_place_is_filled_by_any_append_begun_in_time(deadlines: list[int], starts: list[int]) -> None:
    assert holes_of_unseen(deadlines, starts) == []


@pytest.mark.parametrize(
    ("deadlines", "starts", "wrong"),
    [
        pytest.param([3], [4], [Gap(0, 3)], id="begun too late"),
        pytest.param([NEVER], [], [Gap(0, NEVER)], id="never begun"),
        pytest.param([5, 9], [1], [Gap(0, 5)], id="one append for two places"),
        pytest.param([5, 9], [1, 20], [Gap(0, 5)], id="one of two in time"),
        pytest.param([5, 9], [8, 7], [Gap(0, 5)], id="both in time for one place only"),
    ],
)
def test_an_unseen_place_without_an_append_is_a_gap(
    deadlines: list[int], starts: list[int], wrong: list[Wrong]
) -> None:
    assert holes_of_unseen(deadlines, starts) == wrong


def test_a_gap_is_named_by_its_place_in_the_log() -> None:
    plan = plan_log([append(1, 0, 1, 2), append(3, 2, 1, 2), unknown(7, 20)])
    assert holes_filled(plan, np.array([3])) == [Gap(1, 3)]


def test_a_seen_place_takes_the_latest_append_and_leaves_the_earlier_for_the_unseen() -> None:
    plan = plan_log([read(1, SEEN, 8, 9), unknown(SEEN, 8), unknown(SEEN, 1)])
    assert plan.content.tolist() == [NONE, SEEN]
    assert holes_filled(plan, np.array([2, 9])) == []


def test_an_append_that_a_seen_place_needs_fills_no_unseen_one() -> None:
    plan = plan_log([append(1, 0, 1, 2), read(1, SEEN, 3, 9), tail(3, 3, 9), unknown(SEEN, 1), unknown(8, 10)])
    assert plan.content.tolist() == [1, SEEN, NONE]
    assert holes_filled(plan, np.array([9, 9])) == [Gap(2, 9)]


def test_a_seen_place_is_judged_though_a_later_one_was_not_seen() -> None:
    plan = plan_log([read(0, SEEN, 1, 9), tail(2, 1, 9), unknown(8, 1), unknown(9, 1)])
    assert plan.content.tolist() == [SEEN, NONE]
    assert holes_filled(plan, np.array([9, 9])) == [Unwritten(0, SEEN)]


def test_values_do_not_take_each_others_appends() -> None:
    plan = plan_log([unknown(7, 1), unknown(8, 10), unknown(8, 20)], values=[7, 8])
    assert holes_filled(plan, np.array([5, 9])) == [SeenEarly(1, 8, deadline=9, reach=1)]
    plan = plan_log([unknown(7, 20), unknown(8, 1)], values=[8, 7])
    assert holes_filled(plan, np.array([5, 9])) == [SeenEarly(1, 7, deadline=9, reach=1)]

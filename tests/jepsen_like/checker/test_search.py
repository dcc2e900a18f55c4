"""The search decides what the scans leave, and reports when it gave up."""

import random
import time
import tracemalloc

import attrs
import pytest

from jepsen_like.checker.depth_first import DepthFirst
from jepsen_like.checker.elements.queues import fifo
from jepsen_like.checker.frontier import Frontier
from jepsen_like.checker.pending import Walked
from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.search import Register, SearchBounds, search, smallest_contradiction
from jepsen_like.checker.verdict import Check
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome
from tests.jepsen_like.checker import oracle
from tests.jepsen_like.checker.sequential_log import SequentialLog
from tests.jepsen_like.checker.small_histories import FINAL, as_ops, log_history, register_history


def op(f: Action, start: int, end: int, a: int, process: int = 0, object: int = 0) -> Op:  # noqa: A002 - the column's name
    return Op(f=f, type=Outcome.OK, t_inv=start, t_ret=end, a=a, process=process, object=object)


def crowd(width: int) -> list[Op]:
    """Writes of a few values over and over, all at the same time, and then reads that no order of them explains."""
    writes = [op(Action.WRITE, 0, 100, a=1 + number % 8, process=number) for number in range(width)]
    return [*writes, op(Action.READ, 101, 102, a=1, process=width), op(Action.READ, 103, 104, a=2, process=width)]


def crashing_register(
    rng: random.Random, count: int, *, clients: int, values: int, crashed: int, stale: bool
) -> list[Op]:
    """A register under clients of which some crash and come back under another name; with `stale` the last read finds nothing."""
    state, now, ops, name = NONE, 0, list[Op](), clients
    free = [(0, process) for process in range(clients)]
    crashing = set(rng.sample(range(count - 1), crashed))
    for number in range(count):
        begin, process = free.pop(rng.randrange(min(3, len(free))))
        begin = max(begin, now)
        now = begin + rng.randrange(1, 30)
        end = now + rng.randrange(1, 60)
        f = rng.choice([Action.READ, Action.WRITE, Action.CAS]) if number < count - 1 else Action.READ
        a, b = rng.randrange(values), rng.randrange(values)
        happens = number not in crashing or rng.random() < 0.5
        one = Op(f=f, type=Outcome.OK, t_inv=begin, t_ret=end, process=process, a=a)
        if f is Action.READ:
            one = attrs.evolve(one, a=state)
        elif f is Action.CAS:
            swaps = state == a
            one = attrs.evolve(one, b=b, type=Outcome.OK if swaps else Outcome.FAIL, seen=a if swaps else NONE)
            state = b if swaps and happens else state
        elif happens:
            state = a
        if number in crashing:
            one = attrs.evolve(one, type=Outcome.INFO, t_ret=NEVER, seen=NONE, a=a)
            end, process, name = end + 100, name, name + 1
        ops.append(one)
        free = sorted([*free, (end, process)])
    if stale:
        ops.append(Op(f=Action.READ, type=Outcome.OK, t_inv=now + 10**6, t_ret=now + 10**6 + 1, a=NONE))
    return ops


def test_both_models_agree_with_the_definition() -> None:
    rng = random.Random(5)
    for _ in range(1500):
        history = register_history(rng)
        assert search(as_ops(history), Register()).linearizable == oracle.linearizable(history, oracle.register, None)
        history = [one for one in log_history(rng) if one[2] < FINAL]
        if any(one[0] == "append" and len(one[4]) > 1 for one in history):
            continue  # it knows no batches
        assert search(as_ops(history), SequentialLog()).linearizable == oracle.linearizable(history, oracle.log, ())


@pytest.mark.parametrize("by", [DepthFirst, Frontier])
def test_each_search_alone_agrees_with_the_definition(by: type[DepthFirst | Frontier]) -> None:
    rng = random.Random(6)
    for _ in range(600):
        history = register_history(rng)
        walked = Walked.of(
            Register(), [one for one in as_ops(history) if one.type is not Outcome.FAIL or Register().is_denial(one)]
        )
        (answer,) = [found for found in by(walked).run() if found is not None]
        assert answer == oracle.linearizable(history, oracle.register, None)


def test_both_searches_fail_at_the_same_operation() -> None:
    rng = random.Random(7)
    failed = 0
    while failed < 100:
        ops = [one for one in as_ops(register_history(rng)) if one.type is not Outcome.FAIL]
        walked = Walked.of(Register(), ops)
        racers = DepthFirst(walked), Frontier(walked)
        answers = [next(found for found in racer.run() if found is not None) for racer in racers]
        assert answers[0] == answers[1]
        if not answers[0]:
            failed += 1
            assert racers[0].furthest == racers[1].furthest


@pytest.mark.parametrize(("stale", "seed"), [(False, 1), (False, 2), (True, 3)])
def test_two_thousand_operations_with_forty_crashed_ones_are_decided(stale: bool, seed: int) -> None:
    crashed = 4 if stale else 44
    ops = crashing_register(random.Random(seed), 2000, clients=10, values=5, crashed=crashed, stale=stale)
    answer = search(ops, Register(), clock=time.process_time)
    assert answer.linearizable is not stale, answer.reason


def test_equal_operations_that_are_all_under_way_count_as_one() -> None:
    puts = [op(Action.ENQUEUE, number, 1000 + number, a=1, process=number) for number in range(100)]
    takes = [op(Action.DEQUEUE, 300 + number, 2000 + number, a=1, process=300 + number) for number in range(100)]
    again = op(Action.DEQUEUE, 3000, 3001, a=1)
    for ops, valid in (([*puts, *takes], True), ([*puts, *takes, again], False)):
        model, executed = fifo(ops)
        assert search(executed, model, memory_mib_max=600).linearizable is valid


def test_large_states_count_for_what_they_take() -> None:
    puts = [op(Action.ENQUEUE, number, 1000 + number, a=number, process=number) for number in range(120)]
    takes = [op(Action.DEQUEUE, 2000 + number, 5000 + number, a=number, process=number) for number in range(119)]
    model, executed = fifo([*puts, *takes, op(Action.DEQUEUE, 6000, 6001, a=5)])
    tracemalloc.start()
    answer = search(executed, model, memory_mib_max=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.reason.startswith("more than 4 MiB")
    assert peak < 2 * 4 * 2**20


def test_too_many_configurations_are_an_unknown_with_a_reason() -> None:
    answer = search(crowd(16), Register(), memory_mib_max=0.04)
    assert answer.linearizable is None
    assert answer.reason.startswith("more than 0.04 MiB of configurations and operations after ")


def test_too_much_time_is_an_unknown_with_a_reason() -> None:
    answer = search(crowd(16), Register(), seconds_max=0, clock=time.process_time)
    assert answer.linearizable is None
    assert answer.reason.startswith("more than 0 s after ")


def test_unknown_operations_that_do_the_same_are_interchangeable() -> None:
    unknown = [Op(f=Action.WRITE, type=Outcome.INFO, t_inv=at, a=1 + at % 3, process=at) for at in range(1, 31)]
    seen = [op(Action.READ, 100 + 10 * at, 105 + 10 * at, a=1 + at % 3, process=99) for at in range(30)]
    assert search([*unknown, *seen], Register(), memory_mib_max=0.1).linearizable
    once_more = op(Action.READ, 500, 501, a=2), op(Action.READ, 510, 511, a=1)
    assert search([*unknown, *seen, *once_more], Register(), memory_mib_max=0.1).linearizable is False


def test_a_swap_that_did_not_happen_stays_one_when_a_contradiction_shrinks() -> None:
    missed = Op(f=Action.CAS, type=Outcome.OK, a=5, b=2, seen=1, t_inv=5, t_ret=100)
    ops = [op(Action.WRITE, 1, 2, a=1), op(Action.WRITE, 1, 2, a=5), missed, op(Action.READ, 6, 7, a=2)]
    failed = search(ops, Register()).failed
    assert failed is not None
    smaller = smallest_contradiction(ops, Register(), failed)
    assert set(smaller) <= {one for one in ops if one is not missed}
    assert search(smaller, Register()).linearizable is False


def test_an_undecided_register_leaves_the_verdicts_of_others_alone() -> None:
    stale = [
        op(Action.WRITE, 1, 2, a=1, object=2),
        op(Action.WRITE, 3, 4, a=2, object=2),
        op(Action.READ, 5, 6, a=1, object=2),
    ]
    findings = check_registers(Columns.of_ops([*crowd(16), *stale]), SearchBounds(memory_mib=0.04))
    assert findings.violated == {2}
    assert [one.object for one in findings.undecided] == [0]
    assert "it had to be searched, and the search reached its bound" in findings.undecided[0].reason


def test_a_contradiction_among_repeated_values_shrinks_to_what_matters() -> None:
    noise = [op(Action.READ, 20 + 2 * at, 21 + 2 * at, a=1, process=9) for at in range(50)]
    repeated = [op(Action.WRITE, 1, 2, a=1), op(Action.WRITE, 3, 4, a=2), op(Action.WRITE, 5, 6, a=1)]
    bad = op(Action.READ, 300, 301, a=2, process=5)
    findings = check_registers(Columns.of_ops([*repeated, *noise, bad]))
    (violation,) = findings.violations
    assert violation.check is Check.LINEARIZABLE
    assert len(violation.ops) <= 4
    assert bad in violation.ops
    assert search(violation.ops, Register()).linearizable is False


def test_shrinking_never_leaves_out_a_write_that_is_still_read() -> None:
    rng = random.Random(3)
    shrunk = 0
    while shrunk < 100:
        ops = as_ops(register_history(rng))
        answer = search(ops, Register())
        if answer.failed is not None:
            smaller = smallest_contradiction(ops, Register(), answer.failed)
            seen = {Register().value_seen(one) for one in smaller}
            left_out = {
                Register().put(one) for one in ops if one.type is not Outcome.FAIL and one.t_inv <= answer.failed.t_ret
            }
            left_out -= {Register().put(one) for one in smaller}
            assert not (seen & left_out) - {NONE, None}
            shrunk += 1


@pytest.mark.parametrize("swapped", [False, True])
def test_which_unknown_operation_explained_a_read_stays_open(swapped: bool) -> None:
    unknown = [
        Op(f=Action.WRITE, type=Outcome.INFO, t_inv=1, a=1),
        Op(f=Action.CAS, type=Outcome.INFO, t_inv=1, a=5, b=1),
    ]
    known = [
        op(Action.WRITE, 2, 3, a=5),
        op(Action.READ, 4, 5, a=1),
        op(Action.WRITE, 6, 7, a=2),
        op(Action.READ, 8, 9, a=1),
    ]
    assert search([*(reversed(unknown) if swapped else unknown), *known], Register()).linearizable
    assert search([unknown[0], *known], Register()).linearizable is False


def test_unknown_operations_may_take_effect_at_any_later_time_or_never() -> None:
    unknown = Op(f=Action.WRITE, type=Outcome.INFO, t_inv=5, a=1)
    later = [op(Action.READ, 1, 2, a=NONE), unknown, op(Action.READ, 100, 101, a=NONE), op(Action.READ, 200, 201, a=1)]
    assert search(later, Register()).linearizable
    assert search(later[:3], Register()).linearizable
    assert not search([op(Action.READ, 1, 2, a=1), unknown], Register()).linearizable
    assert unknown.t_ret == NEVER

"""Registers checked piece by piece are judged as those checked as a whole are, and so is one of any size."""

import numpy as np
import pytest

from jepsen_like.checker.register.reduce import Keys, Reduced, Territory, keys_of, reduce_piece, shared_keys
from jepsen_like.checker.register.scan import LINK
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.history.ops import NEVER, Action, Op, Outcome
from tests.examples import examples
from tests.jepsen_like.checker.register.in_pieces import all_compared

HISTORIES = examples(16)


@pytest.mark.timeout(300)
def test_registers_in_pieces_are_judged_as_whole_ones() -> None:
    tally = all_compared(HISTORIES, seed=1, processes=1)
    assert tally.differences == ()
    assert tally.undecided == 0
    assert 0.3 <= tally.violated / HISTORIES <= 0.7
    assert tally.witnesses > HISTORIES / 4


def piece(ops: list[Op], opened: Keys) -> Reduced:
    """One register, number 0, all of whose operations in this piece are far from other pieces."""
    rows = Columns.of_ops(ops)
    return reduce_piece(rows, np.zeros(1, np.int64), np.zeros(len(rows), np.int64), Territory(), opened)


def key(value: int) -> Keys:
    """Its key."""
    return keys_of(np.zeros(1, np.int64), np.array([value]))


def test_what_a_swap_of_unknown_outcome_replaced_stays_with_it() -> None:
    ops = [
        Op(f=Action.WRITE, type=Outcome.INFO, a=1, t_inv=1, t_ret=NEVER),
        Op(f=Action.CAS, type=Outcome.INFO, a=1, b=2, t_inv=2, t_ret=NEVER),
        Op(f=Action.CAS, type=Outcome.INFO, a=2, b=3, t_inv=3, t_ret=NEVER),
    ]
    assert len(piece(ops, np.zeros(0, np.uint64)).rows) == 0
    assert sorted(piece(ops, key(3)).rows.a.tolist()) == [1, 1, 2]


def test_values_that_share_a_hash_are_two() -> None:
    values = [0x7FC84CA651BEA8C, 0x22D47603D7B8473]
    assert key(values[0]) == key(values[1])
    ops = [Op(f=Action.CAS, type=Outcome.FAIL, a=value, b=9, t_inv=1, t_ret=2) for value in [*values, *values]]
    assert sorted(piece(ops, np.zeros(0, np.uint64)).rows.a.tolist()) == sorted(values)


def test_a_value_before_a_link_is_opened_when_another_piece_replaces_it_too() -> None:
    ops = [
        Op(f=Action.CAS, type=Outcome.OK, a=at, b=at + 1, seen=at, t_inv=2 * at, t_ret=2 * at + 1)
        for at in range(1, 60)
    ]
    left = piece(ops, np.zeros(0, np.uint64))
    links = left.rows.where(left.rows.process == LINK)
    assert len(links) > 0
    for before in links.a.tolist():
        again = shared_keys([left.keys, key(before)])
        assert again.tolist() == key(before).tolist()
        rows = piece(ops, again).rows
        successors = [rows.op(row) for row in np.flatnonzero(rows.seen == before).tolist()]
        assert [op.b for op in successors] == [before + 1]
        assert all(op.process != LINK for op in successors)

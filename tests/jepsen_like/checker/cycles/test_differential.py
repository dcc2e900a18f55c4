"""The verdicts about lists are those of an oracle that tries every order, and those about registers are never wrong where it finds one."""

from collections.abc import Callable, Iterator, Sequence

import attrs
import pytest

from jepsen_like.checker.cycles.levels import Level
from jepsen_like.checker.cycles.tasks import CyclesTask, KeysOfTransactionsTask, batches
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.verdict import Findings, Model
from jepsen_like.history.ops import NONE, Action, Op, Outcome
from tests.jepsen_like.checker.cycles.oracle import Txn, is_serializable, is_snapshot_isolated, random_history

SEEDS = 150
Oracle = Callable[[Sequence[Txn]], bool]
LEVELS: dict[Level, Oracle] = {
    Level.SNAPSHOT_ISOLATION: is_snapshot_isolated,
    Level.SERIALIZABLE: is_serializable,
    Level.STRONG_SESSION_SERIALIZABLE: lambda txns: is_serializable(txns, by_process=True),
    Level.STRICT_SERIALIZABLE: lambda txns: is_serializable(txns, by_time=True),
}


def rows_of(txns: Sequence[Txn], model: Model) -> Iterator[Op]:
    for number, txn in enumerate(txns):
        for place, (f, key, values) in enumerate(txn.deeds):
            is_list = model is Model.LIST_APPEND
            one = Op(
                f=Action.READ if f == "r" else Action.APPEND if is_list else Action.WRITE,
                type=Outcome.OK,
                object=ord(key),
                process=txn.process,
                epoch=number,
                seen=place,
                t_inv=10 * txn.begin,
                t_ret=10 * txn.end,
            )
            if f == "r":
                values = values or (NONE,)
                values = values if is_list else values[-1:]
            for value in values:
                yield attrs.evolve(one, a=value)


def judge(txns: Sequence[Txn], level: Level, model: Model = Model.LIST_APPEND) -> Findings:
    rows = Columns.of_ops(rows_of(txns, model))
    found, facts = KeysOfTransactionsTask((rows,), model, level, 1 << 20).execute()
    return Findings.join([found, *(CyclesTask(pieces, level).execute() for pieces in batches(facts))])


@pytest.mark.parametrize("level", LEVELS)
def test_lists_are_judged_as_every_order_of_their_transactions_is(level: Level) -> None:
    counts = {True: 0, False: 0}
    for seed in range(SEEDS):
        txns = random_history(seed)
        is_right = LEVELS[level](txns)
        counts[is_right] += 1
        assert (not judge(txns, level).violated) == is_right, (seed, txns)
    assert min(counts.values()) > SEEDS // 20, "both verdicts come up"


@pytest.mark.parametrize("level", [one for one in LEVELS if one is not Level.SNAPSHOT_ISOLATION])
def test_a_register_that_some_order_explains_is_never_violated(level: Level) -> None:
    right = wrong = 0
    for seed in range(SEEDS):
        txns = random_history(seed, keys="xyz")
        if LEVELS[level](txns):
            right += 1
            assert not judge(txns, level, Model.RW_REGISTER).violated, (seed, txns)
        else:
            wrong += bool(judge(txns, level, Model.RW_REGISTER).violated)
    assert right > 5
    assert wrong > SEEDS // 5, "most that no order explains are found, though a register shows less than a list"

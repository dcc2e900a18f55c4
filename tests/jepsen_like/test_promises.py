"""The table is complete, and only what it allows is excused."""

import itertools

import attrs
import pytest

from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.machines import Power
from jepsen_like.nemesis.table import KINDS
from jepsen_like.promises import (
    HARMS,
    POWER_CUT,
    PROMISES,
    Loss,
    LostRecord,
    Replication,
    attribute,
    describe,
    promise_of,
)
from log.flusher import FlushPolicy
from tests.jepsen_like.test_recovery_time import a_fault

S = 1_000_000_000


def test_every_mode_has_one_row_for_every_harm() -> None:
    rows = [(row.replication, row.flush, row.harm) for row in PROMISES]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(itertools.product(Replication, FlushPolicy, HARMS))
    assert set(KINDS) < set(HARMS)


def test_raft_loses_only_what_was_not_flushed_and_only_to_a_power_cut() -> None:
    losing = {(row.flush, row.harm) for row in PROMISES if row.may_lose is not Loss.NOTHING}
    assert losing == set(itertools.product((FlushPolicy.INTERVAL, FlushPolicy.NONE), (POWER_CUT, Power.name)))


@pytest.mark.parametrize("flush", list(FlushPolicy))
def test_no_fault_that_spares_what_was_written_excuses_a_loss(flush: FlushPolicy) -> None:
    faults = [attrs.evolve(a_fault(5, 8), kind=kind.name) for kind in KINDS.values() if kind.reach is Reach.NOTHING]
    (found,) = attribute([LostRecord(7, 5 * S)], faults, Replication.RAFT, flush, 1.0)
    assert (found.fault, found.promise) == (None, None)


@pytest.mark.parametrize(
    ("acked_s", "is_excused"),
    [(3.9, False), (4.2, True), (5.0, True), (5.02, False), (9.0, False)],
)
def test_a_loss_is_excused_only_if_acknowledged_shortly_before_the_fault(acked_s: float, is_excused: bool) -> None:
    power_cut = attrs.evolve(a_fault(5, 8), kind=POWER_CUT)
    (found,) = attribute([LostRecord(7, int(acked_s * S))], [power_cut], Replication.RAFT, FlushPolicy.INTERVAL, 1.0)
    assert (found.fault is not None) == is_excused
    if found.promise is not None:
        assert found.promise == promise_of(Replication.RAFT, FlushPolicy.INTERVAL, POWER_CUT)


def test_a_promise_reads_as_a_sentence() -> None:
    assert describe(Replication.RAFT, FlushPolicy.NONE, ["kill"]).startswith("nothing that was acknowledged")
    assert describe(Replication.RAFT, FlushPolicy.NONE, ["kill", POWER_CUT]) == (
        "under power-cut, what a majority had not flushed yet may be lost; nothing else"
    )

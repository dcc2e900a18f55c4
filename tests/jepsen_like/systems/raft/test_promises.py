"""The table is complete, and only what it allows is excused."""

import itertools
import json
from pathlib import Path

import attrs
import pytest

from jepsen_like.nemesis.contents import DamagedFiles, Vanished
from jepsen_like.nemesis.disks import SLOW_SYNCS_S, DiskSlow
from jepsen_like.nemesis.kind import Reach
from jepsen_like.nemesis.machines import Power
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.zones import ZoneDown
from jepsen_like.record.allowed import allowances_of_run
from jepsen_like.systems.raft.promises import (
    FLUSH_TAKES_S_MAX,
    HARMS,
    POWER_CUT,
    PROMISES,
    Loss,
    Replication,
    allowances,
    describe,
    may_lose,
)
from jepsen_like.systems.raft.system import RaftSystem
from log.policy import FlushPolicy
from tests.jepsen_like.record.test_recovery_time import a_fault

S = 1_000_000_000


def test_every_mode_has_one_row_for_every_harm() -> None:
    rows = [(row.replication, row.flush, row.harm) for row in PROMISES]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(itertools.product(Replication, FlushPolicy, HARMS))
    assert set(KINDS) - set(RaftSystem.refused) < set(HARMS)


def test_raft_loses_only_what_was_not_flushed_and_only_to_a_power_cut_or_to_damage() -> None:
    losing = {(row.flush, row.harm) for row in PROMISES if row.may_lose is not Loss.NOTHING}
    harms = (POWER_CUT, Power.name, ZoneDown.name, DamagedFiles.name, Vanished.name)
    assert losing == set(itertools.product((FlushPolicy.INTERVAL, FlushPolicy.NONE), harms))


@pytest.mark.parametrize("flush", list(FlushPolicy))
def test_no_fault_that_spares_what_was_written_allows_a_loss(flush: FlushPolicy) -> None:
    kinds = [kind.name for kind in KINDS.values() if kind.reach is Reach.NOTHING and kind.name in HARMS]
    faults = [attrs.evolve(a_fault(5, 8), kind=kind) for kind in kinds]
    assert allowances(faults, Replication.RAFT, flush, 0.05) == ()
    assert not may_lose(Replication.RAFT, flush, [fault.kind for fault in faults])


def test_a_durable_mode_allows_no_loss_at_all() -> None:
    faults = [attrs.evolve(a_fault(5, 8), kind=harm) for harm in HARMS]
    assert allowances(faults, Replication.RAFT, FlushPolicy.BEFORE_ACK, 0.05) == ()


def test_a_power_cut_reaches_back_over_an_interval_and_its_flush_or_without_end() -> None:
    faults = [a_fault(1, 2), attrs.evolve(a_fault(5, 8), kind=Power.name, id=3)]
    (interval,) = allowances(faults, Replication.RAFT, FlushPolicy.INTERVAL, 0.05)
    (never,) = allowances(faults, Replication.RAFT, FlushPolicy.NONE, 0.05)
    assert (interval.fault, interval.begun_ns, interval.injected_ns) == (3, 5 * S, faults[1].injected_ns)
    assert interval.begun_ns - interval.since_ns == round((0.05 + FLUSH_TAKES_S_MAX) * S)
    assert never.since_ns < 0
    assert never.promise == "raft, flush=none: what a majority had not flushed yet may be lost"


def test_after_a_slow_disk_a_power_cut_reaches_back_over_two_slow_flushes() -> None:
    slow = attrs.evolve(a_fault(1, 4), kind=DiskSlow.name)
    power = attrs.evolve(a_fault(4.5, 8), kind=Power.name, id=2)
    later = attrs.evolve(slow, begun_ns=9 * S)
    reaches = []
    for faults in ((slow, power), (power, later)):
        (allowed,) = allowances(faults, Replication.RAFT, FlushPolicy.INTERVAL, 0.05)
        reaches.append((allowed.begun_ns - allowed.since_ns) / S)
    assert reaches == [0.05 + FLUSH_TAKES_S_MAX + 2 * max(SLOW_SYNCS_S), 0.05 + FLUSH_TAKES_S_MAX]


def test_a_run_directory_allows_what_its_run_did(tmp_path: Path) -> None:
    faults = [attrs.evolve(a_fault(5, 8), kind=Power.name, id=3), a_fault(10, 12)]
    withheld = attrs.evolve(faults[0], id=4, withheld="not now")
    rows = [fault.row() for fault in (*faults, withheld, attrs.evolve(faults[0], kind="heal"))]
    (tmp_path / "nemesis.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"flush": "interval", "flush_interval_s": 0.05}
    (tmp_path / "test.json").write_text(json.dumps({"replication": "raft", "settings": settings}))
    assert allowances_of_run(tmp_path) == allowances(faults, Replication.RAFT, FlushPolicy.INTERVAL, 0.05)


@pytest.mark.parametrize(
    ("name", "left"), [("test.json", None), ("test.json", '{"replication": "ra'), ("nemesis.jsonl", '{"id": 1, "ki')]
)
def test_a_run_whose_record_is_damaged_has_no_guessed_allowances(tmp_path: Path, name: str, left: str | None) -> None:
    assert allowances_of_run(tmp_path) == ()
    settings = {"flush": "interval", "flush_interval_s": 0.05}
    (tmp_path / "test.json").write_text(json.dumps({"replication": "raft", "settings": settings}))
    (tmp_path / "nemesis.jsonl").touch()
    assert allowances_of_run(tmp_path) == ()
    (tmp_path / name).unlink()
    if left is not None:
        (tmp_path / name).write_text(left)
    with pytest.raises(ValueError, match=r"test\.json or nemesis\.jsonl is missing or damaged"):
        allowances_of_run(tmp_path)


def test_a_promise_reads_as_a_sentence() -> None:
    assert describe(Replication.RAFT, FlushPolicy.NONE, ["kill"]).startswith("nothing that was acknowledged")
    assert describe(Replication.RAFT, FlushPolicy.NONE, ["kill", POWER_CUT]) == (
        "under power-cut, what a majority had not flushed yet may be lost; nothing else"
    )

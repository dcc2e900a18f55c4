"""Raft groups that elect: how long that takes by the election timeout, what a probe sees of it, and how many lead at once."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jepsen_like.claims.experiment import ClaimDesk, DoneRun, Experiment, fault, plan_of
from jepsen_like.claims.judgement import Part, at_least, at_most, between, exactly, expect
from jepsen_like.history.files import HistoryReader, read_dump
from jepsen_like.history.ops import Action, Outcome
from jepsen_like.port.observations import LEADER
from jepsen_like.record.attempts import DUMP

TIMEOUTS_S: Final = (0.15, 1.0, 6.0)
"""The shortest election timeout; the longest is twice that, of 6 s a second more, as DLedger's."""
PAUSED: Final = {0.15: 2.0, 1.0: 4.0, 6.0: 14.0}
"""By timeout: how long the leader stands still."""


def sweep_timeouts(desk: ClaimDesk) -> None:
    """Pause the leader of three: no connection ends, so only the timeout tells the others."""
    for least in TIMEOUTS_S:
        most = least + min(least, 1.0)
        hold_s = PAUSED[least]
        settings = (f"election_timeout_s_min={least}", f"election_timeout_s_max={most}", f"heartbeat_s={least / 10:g}")
        plan = plan_of("raft", *settings, faults=(fault(1, "pause", 1.0, hold_s),), duration_s=hold_s + 2.0)
        shown = desk.run(f"raft, timeouts from {least:g} s, leader paused", plan)
        desk.measure(f"rto_with_timeouts_of_{least:g}_s", shown.rto_s(), "s", shown)
        desk.measure(f"lost_with_timeouts_of_{least:g}_s", shown.lost, "records", shown)
        if least == 1.0:
            desk.measure("terms_with_two_leaders", count_shared_terms(shown.results.roles), "", shown)
            desk.measure("moments_with_two_leaders", count_overlaps(shown.results.roles), "", shown)


def count_shared_terms(roles: Sequence[Any]) -> int:
    """Returns in how many terms two nodes have led."""
    led: dict[int, set[int]] = {}
    for role in roles:
        if role["role"] == LEADER:
            led.setdefault(role["term"], set()).add(role["node"])
    return sum(len(nodes) > 1 for nodes in led.values())


def count_overlaps(roles: Sequence[Any]) -> int:
    """Returns how often a node began to lead while another one had not said yet that it leads no more."""
    leading: set[int] = set()
    found = 0
    for role in sorted(roles, key=lambda role: float(role["at_s"])):
        if role["role"] == LEADER:
            found += bool(leading - {role["node"]})
            leading.add(role["node"])
        else:
            leading.discard(role["node"])
    return found


def probe_an_outage(desk: ClaimDesk) -> None:
    """Write 200 times a second while the leader is killed, and compare with what the nodes report."""
    shown = desk.run(
        "raft, leader killed under a probe", plan_of("raft", faults=(fault(1, "kill", 1.5, 2.5),), duration_s=5.5)
    )
    took = [float(one["took_s"]) for one in shown.results.elections if one["took_s"] is not None]
    if not took:
        return
    desk.measure("rto_by_probe_s", shown.rto_s(), "s", shown)
    desk.measure("rto_by_events_s", took[0], "s", shown)
    desk.measure("difference_s", round(shown.rto_s() - took[0], 4), "s", shown)


def cut_leaders(desk: ClaimDesk) -> None:
    """Kill, pause and cut off leaders as the seed draws it, and look for what was acknowledged, and for what was not."""
    schedule = plan_of("raft", kinds=("kill", "pause", "partition"), planned=None, duration_s=16.0)
    shown = desk.run("raft, leaders killed, paused and cut off", schedule)
    desk.measure("acknowledged_lost", shown.lost, "records", shown)
    desk.measure("terms_with_two_leaders", count_shared_terms(shown.results.roles), "", shown)
    cut = desk.run(
        "raft, leader cut off", plan_of("raft", faults=(fault(1, "partition", 1.5, 4.0, seed=2),), duration_s=7.0)
    )
    desk.measure("acknowledged_lost_behind_a_cut", cut.lost, "records", cut)
    desk.measure("unacknowledged_gone", count_forgotten(cut), "records", cut)


def count_forgotten(shown: DoneRun) -> int:
    """Returns how many records with an unknown outcome are in no final log."""
    f, outcome, value = HistoryReader.open(shown.directory / "history.parquet").columns(("f", "type", "a"))
    table = read_dump(shown.directory / DUMP)
    held = np.asarray(table.column("a").to_numpy()) if table is not None else np.zeros(0, np.int64)
    unknown = value[(f == Action.APPEND) & (outcome == Outcome.INFO)]
    return int(np.count_nonzero(~np.isin(unknown, held)))


def flush_now_and_then(desk: ClaimDesk) -> None:
    """One node that secures its log once a period loses its power, at different moments of a period."""
    reaches = []
    runs = []
    for at_s in (1.7, 2.1, 2.5, 2.9):
        plan = plan_of(
            "raft",
            "flush=interval",
            "flush_interval_s=1.0",
            faults=(fault(1, "power", at_s, 0.5),),
            nodes=1,
            duration_s=4.5,
        )
        shown = desk.run(f"one node, flushed every second, no power at {at_s:g} s", plan)
        runs.append(shown)
        reaches.append(shown.results.rpo.s or 0.0)
    desk.measure("longest_reach_in_periods", max(reaches), "x", *runs)
    desk.measure("spread_in_periods", round(max(reaches) - min(reaches), 3), "x", *runs)
    desk.measure("lost", sum(run.lost for run in runs), "records", *runs)


EXPERIMENTS: Final = (
    Experiment(
        name="raft-election-timeouts",
        story="The leader of three stands still, with election timeouts of 0.15, 1 and 6 s.",
        seconds=45,
        expects=(
            expect("C74", "rto_with_timeouts_of_6_s", between(5.0, 14.0)),
            expect("C74", "rto_with_timeouts_of_1_s", between(0.7, 4.0)),
            expect(
                "C74",
                "rto_with_timeouts_of_0.15_s",
                at_most(1.0),
                Part.EXCEPTION,
                condition="election timeouts are seconds long",
            ),
            *(expect("C74 C25", f"lost_with_timeouts_of_{least:g}_s", exactly(0)) for least in TIMEOUTS_S),
            expect("C25", "rto_with_timeouts_of_0.15_s", at_most(1.0)),
            expect("C72", "terms_with_two_leaders", exactly(0)),
            expect(
                "C72",
                "moments_with_two_leaders",
                at_least(1),
                Part.EXCEPTION,
                condition="one leader in a term is meant, and acknowledgements wait for a majority",
            ),
        ),
        conduct=sweep_timeouts,
    ),
    Experiment(
        name="raft-probe",
        story="A steady probe sees the outage that the nodes' own events tell.",
        seconds=12,
        expects=(expect("C22", "difference_s", between(-0.005, 0.1)), expect("C22", "rto_by_probe_s", at_most(4.0))),
        conduct=probe_an_outage,
    ),
    Experiment(
        name="raft-leaders-change",
        story="Leaders are killed, paused and cut off by a drawn schedule, and one is cut off from its followers but not from its clients.",
        seconds=45,
        expects=(
            expect("C87 C72", "acknowledged_lost", exactly(0)),
            expect("C87 C72", "acknowledged_lost_behind_a_cut", exactly(0)),
            expect("C87 C72", "terms_with_two_leaders", exactly(0)),
            expect(
                "C87", "unacknowledged_gone", at_least(1), Part.EXCEPTION, condition="what was acknowledged is meant"
            ),
        ),
        conduct=cut_leaders,
    ),
    Experiment(
        name="raft-flushed-by-period",
        story="A single node flushes once a second, and loses its power at four moments.",
        seconds=45,
        expects=(
            expect("C23", "longest_reach_in_periods", between(0.01, 1.25)),
            expect("C23", "spread_in_periods", at_least(0.05)),
            expect("C23", "lost", at_least(1)),
        ),
        conduct=flush_now_and_then,
    ),
)

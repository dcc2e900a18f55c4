"""A scenario is drawn again and again: the seed decides what is done to which disk in which order, and the table shows it."""

import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import attrs
import pytest

from jepsen_like.cli import ExitStatus
from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.machine import Machine
from jepsen_like.cluster.process import NodeProcess
from jepsen_like.nemesis.contents import CONTENT_KINDS, DamagedFiles, Vanished
from jepsen_like.nemesis.stops import Order, Stops
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.scenario import Shows
from jepsen_like.run.draws import describe_fault, excuse, redrawn, served_after, table
from jepsen_like.run.scenario import DRAWS, reproduction, scenarios
from tests.jepsen_like.record.test_recovery_time import a_fault

NODES = (1, 2, 3)
STORY = scenarios()["all-killed-copy-gone"][1]
TRIAL = STORY.trials[0]


def stops_of(name: str) -> tuple[Stops, tuple[int, ...]]:
    """Returns the stops and the damage of the one fault of a scenario's trials."""
    (fault,) = {fault for trial in scenarios()[name][1].trials for fault in trial.faults}
    hit = KINDS[fault.kind].select(fault.rng(), fault.target, NODES, 1)
    return Stops.draw(hit.nodes, hit.seed), hit.damaged


def test_the_named_scenarios_stop_and_touch_what_their_stories_tell() -> None:
    stops, damaged = stops_of("last-stopped-damaged")
    assert (stops.order, stops.is_kill) == (Order.IN_TURN, False)
    assert damaged == (stops.nodes[-1],)
    stops, damaged = stops_of("master-damaged")
    assert (stops.order, stops.is_kill, damaged) == (Order.IN_TURN, False, (1,))
    assert stops.nodes[-1] == 1
    for name in ("all-killed-copy-gone", "all-killed-commit-log-gone"):
        stops, damaged = stops_of(name)
        assert (stops.order, stops.is_kill) == (Order.TOGETHER, True)
    assert damaged == (1,), "the master"


@pytest.mark.parametrize(
    ("name", "gone", "stay"),
    [
        ("all-killed-copy-gone", "partitions/logs/log-0", "partitions/logs/__consumer_offsets-0"),
        ("all-killed-commit-log-gone", "commitlog", "consumequeue/log"),
    ],
)
def test_what_is_gone_is_the_copy_that_holds_the_records(tmp_path: Path, name: str, gone: str, stay: str) -> None:
    system, story = scenarios()[name]
    for place, content in ((gone, b"x" * 100), (stay, b"")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "0000.log").write_bytes(content)
    (fault,) = story.trials[0].faults
    hit = KINDS[fault.kind].select(fault.rng(), fault.target, NODES, 1)
    process = cast(NodeProcess, SimpleNamespace(machine=Machine(tmp_path), unmet_damages=0))
    cluster = cast(Cluster, SimpleNamespace(system=system))
    assert Vanished().touch(cluster, process, random.Random(hit.seed)) == f"copy: {gone} removed"
    assert (tmp_path / stay).exists()


def test_a_seed_and_a_number_draw_the_same_and_all_kinds_come() -> None:
    drawn = [redrawn(TRIAL, 1, number) for number in range(1, 41)]
    assert [redrawn(TRIAL, 1, number) for number in range(1, 41)] == drawn
    assert len({trial.faults for trial in drawn}) == 40
    assert {fault.kind for trial in drawn for fault in trial.faults} == set(CONTENT_KINDS)
    assert redrawn(TRIAL, 2, 1) != drawn[0]
    assert {(trial.settings, trial.faults[0].target, trial.faults[0].at_s) for trial in drawn} == {
        (TRIAL.settings, TRIAL.faults[0].target, TRIAL.faults[0].at_s)
    }


def test_other_kinds_keep_what_they_are() -> None:
    trial = scenarios()["acks1-leader-killed"][1].trials[0]
    assert [fault.kind for fault in redrawn(trial, 1, 1).faults] == [fault.kind for fault in trial.faults]


def test_a_loss_that_one_draw_shows_need_not_be_shown_by_all() -> None:
    row = {"name": "off", "shows": Shows.LOSS.value, "lost": 0, "missing": "no loss that the mode allows was found"}
    shown = {**row, "lost": 9, "missing": None}
    assert [each["missing"] for each in excuse([row, shown])] == [None, None]
    assert [each["missing"] for each in excuse([row, row])] == [row["missing"]] * 2
    kept = {**row, "name": "on", "shows": Shows.NO_LOSS.value, "missing": "a fault was not carried out"}
    assert excuse([kept, shown])[0]["missing"] == kept["missing"]


def test_a_line_of_the_table_names_the_disk_and_the_order() -> None:
    seen = {"order": "SIGKILL to n2, n1, all at once", "2": "pid 7 dead; copy: logs/log-0 removed", "1": "pid 8 dead"}
    fault = attrs.evolve(a_fault(5, 8), kind="vanish", nodes=(1, 2), harmed=(2,), observed=seen)
    assert describe_fault(fault) == "vanish of n2: copy: logs/log-0 removed; SIGKILL to n2, n1, all at once"
    assert describe_fault(attrs.evolve(fault, withheld="not now")) == "vanish withheld: not now"
    assert describe_fault(attrs.evolve(a_fault(5, 8), observed={})) == "kill of n1: leader"
    lines = table([["1", "on", describe_fault(fault), "1,000", "0", "2.0 s"]])
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("s", "hold_s", "recovered", "told"),
    [(7.5, 5.0, True, "2.5 s"), (3.0, 5.0, True, "0.0 s"), (None, 5.0, False, "never"), (3.0, 5.0, False, "never")],
)
def test_service_counts_from_when_all_were_started(s: float | None, hold_s: float, recovered: bool, told: str) -> None:
    assert served_after({"s": s, "hold_s": hold_s, "recovered": recovered}) == told


def test_the_command_that_draws_the_same_is_told() -> None:
    assert reproduction(STORY, [], 3, draws=20, quick=True).endswith("--seed 3 --draws 20 --quick")


@pytest.mark.campaign
@pytest.mark.cluster
def test_a_kafka_cluster_that_was_stopped_and_lost_a_disk_serves_again_with_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    """One draw of real processes; `make campaign` draws twenty."""
    command = [sys.executable, "-m", "jepsen_like.cli", "scenario", "all-killed-copy-gone", "--trial", TRIAL.name]
    ended = subprocess.run(
        [*command, "--draws", "1", "--seed", "4", "--quick", "--json", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    (trial,) = json.loads(ended.stdout.splitlines()[-1])["trials"]
    assert trial["lost"] == 0 < trial["acked"]
    heading, _, line = (tmp_path / "latest" / DRAWS).read_text().splitlines()
    assert heading.startswith("| draw")
    assert "never" not in line
    assert DamagedFiles.name in line or "vanish" in line

"""Failing worlds are made small; the small ones that are kept still fail with their bug, and pass without it."""

import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from jepsen_like.simulation.command import replay
from jepsen_like.simulation.kernel.network import SimulatedNetwork
from jepsen_like.simulation.kernel.scenario import Scenario
from jepsen_like.simulation.kernel.shrink import play_scenario, shrink
from jepsen_like.simulation.raft import machine
from jepsen_like.simulation.raft.model import RAFT
from jepsen_like.simulation.raft.swarm import CALM, RaftKnobs
from raft.messages import VoteReply
from raft.model import NO_WRITE, LogIndex, NodeId, Term, WriteId
from tests.mutants.mutant import ROOT
from tests.simulation.shrinking import SCENARIOS, bug_of, model_of, system_of

pytestmark = pytest.mark.simulation

KEPT = sorted(SCENARIOS.glob("*.txt"))
QUICK = {"ack_before_fsync", "rocketmq_no_epochs_compared"}
"""Of each model one whose bug is planted in the quick tests: that takes a process of its own."""


class AcknowledgesWithoutFlush(machine.WatchedCore):
    """Acknowledges entries before they are on disk."""

    def _write_covering(self, index: LogIndex) -> WriteId:
        return NO_WRITE


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_scenario_passes(path: Path) -> None:
    text = path.read_text()
    model = model_of(system_of(text))
    assert model.world(model.scenarios.read(text).knobs).run().violations == ()


@pytest.mark.parametrize(
    "path",
    [path if path.stem in QUICK else pytest.param(path, marks=pytest.mark.campaign) for path in KEPT],
    ids=lambda path: path.stem,
)
def test_a_kept_scenario_still_fails_with_its_bug(path: Path) -> None:
    bug = bug_of(path)
    code = f"from tests.simulation.shrinking import play_kept; print(play_kept({path.name!r}, {bug!r}))"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hint = f"the simulator has moved on? renew it: python -m tests.simulation.shrinking {bug} --keep"
    text = path.read_text()
    assert said.startswith(model_of(system_of(text)).scenarios.read(text).oracle), hint


@pytest.mark.campaign
def test_a_failing_world_is_made_small_and_fails_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as bug:
        bug.setattr(machine, "WatchedCore", AcknowledgesWithoutFlush)
        large = Scenario("A2", RAFT.draw(1))
        shrunk = shrink(RAFT, large)
        small = shrunk.scenario
        assert shrunk.after.steps < shrunk.before.steps
        assert not small.knobs.faults
        again = play_scenario(RAFT, RAFT.scenarios.read(RAFT.scenarios.write(small)))
        assert again is not None
        assert again.violation == shrunk.after.violation
    assert play_scenario(RAFT, small) is None


def test_a_message_that_is_lost_on_purpose_leaves_the_others_their_fate() -> None:
    rough = attrs.evolve(CALM, loss=0.3, duplicate=0.3, fifo=False, seed=3)
    whole, without = arrivals(rough), arrivals(attrs.evolve(rough, lost=frozenset({(1, 2, 7)})))
    assert [arrival for arrival in whole if arrival[1] != 7] == without
    assert len(without) < len(whole)


def arrivals(knobs: RaftKnobs) -> list[tuple[float, int]]:
    """Returns the arrival of each of fifty messages, with the term that numbers it."""
    arrived: list[tuple[float, int]] = []
    network: SimulatedNetwork[NodeId, VoteReply] = SimulatedNetwork(
        knobs, [NodeId(1), NodeId(2)], lambda at, parcel: arrived.append((at, parcel.message.term))
    )
    for number in range(1, 51):
        network.transmit(float(number), (NodeId(1), NodeId(2)), VoteReply(Term(number), granted=True))
    return arrived


def test_a_scenario_is_told_as_it_is_written() -> None:
    for seed in range(20):
        knobs = attrs.evolve(
            RAFT.draw(seed), lost=frozenset({(1, 2, 3), (1, 2, 4), (2, 1, 9)}), unasked=frozenset({(1, 7)})
        )
        assert RAFT.scenarios.read(RAFT.scenarios.write(Scenario("I1", knobs))) == Scenario("I1", knobs)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("chance 1\n", "names the oracle"),
        ("system register\noracle A1\n", "a scenario of register, not of raft"),
        ("oracle A1\nlunches 3\n", "line 2 of the scenario, 'lunches 3': there is no lunches"),
        ("oracle A1\nfifo maybe\n", "line 2"),
        ("oracle A1\nraft.patience 3\n", "line 2"),
        ("oracle A1\nfault 1.0 earthquake fault/1\n", "earthquake"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RAFT.scenarios.read(text)


def test_the_command_replays_a_scenario_and_makes_a_failing_seed_small(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = tmp_path / "small.txt"
    with monkeypatch.context() as bug:
        bug.setattr(machine, "WatchedCore", AcknowledgesWithoutFlush)
        made = CliRunner().invoke(replay, ["14", "--shrink", "--keep", str(kept)], standalone_mode=False)
        assert made.return_value == 1
        assert "# steps" in made.output
        again = CliRunner().invoke(replay, [str(kept)], standalone_mode=False)
        assert again.return_value == 1
        assert "A2 at n" in again.output
    assert CliRunner().invoke(replay, [str(kept), "--quiet"], standalone_mode=False).return_value == 0
    nothing = CliRunner().invoke(replay, ["0", "--shrink"], standalone_mode=False)
    assert "breaks no promise" in nothing.output
    assert nothing.return_value == 0


def test_what_is_neither_a_seed_nor_a_file_is_refused() -> None:
    assert CliRunner().invoke(replay, ["tomorrow"]).exit_code == 2

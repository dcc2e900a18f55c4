"""An idle simulator fails, a violation names its seed and the command that replays it, and bad arguments are refused."""

import json
from collections import Counter

import click
import pytest
from click.testing import CliRunner

from jepsen_like.simulation import command
from jepsen_like.simulation.kernel.campaign import FLOOR_MIN, Block, play_all
from jepsen_like.simulation.kernel.findings import OracleViolation, SeedResult
from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.raft.model import FLOORS, RAFT
from tests.examples import examples

pytestmark = pytest.mark.simulation


def outcome(target: click.Command, *arguments: str) -> tuple[int, str]:
    """The exit status that the command returns, and what it printed."""
    runner = CliRunner()
    result = runner.invoke(target, arguments, standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        return result.exception.exit_code, result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value, result.output


def idle(seed: int) -> SeedResult:
    """A seed in which nothing happened."""
    return SeedResult(seed, (), Counter(), 0, "")


@pytest.mark.campaign
def test_real_seeds_reach_every_floor() -> None:
    block = Block(0, FLOORS)
    for seed in range(200):
        block.add(RAFT.play(seed))
    assert block.floor("acknowledgements") > 0
    assert not block.shortfalls()


def test_an_idle_simulator_misses_every_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemModel, "play", lambda _, seed: idle(seed))
    status, printed = outcome(command.sim, "--seeds", "0:1000", "--jobs", "1")
    assert status == 1
    for name, floor in FLOORS.items():
        said = f"seeds 0:1000: {name} 0 is below the floor of {floor:,}"
        assert printed.count(said) == (floor >= FLOOR_MIN)
    assert printed.splitlines()[-1] == "reproduce with: quorumlog sim --seeds 0:1000 --level core"


def test_what_is_rare_is_held_against_all_seeds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand seeds may miss by chance what they meet five times on average."""
    usual = Counter({name: floor for name, floor in FLOORS.items() if floor >= FLOOR_MIN})
    monkeypatch.setattr(SystemModel, "play", lambda _, seed: SeedResult(seed, (), usual, 0, ""))
    status, printed = outcome(command.sim, "--seeds", "0:5000", "--jobs", "1")
    rare = FLOORS.keys() - usual.keys()
    assert rare == {"rot_met", "snapshots_ignored", "cuts_in_reset"}
    assert (status, printed.count("floor missed")) == (1, len(rare))
    for name in rare:
        assert f"floor missed: seeds 0:5000: {name} 0 is below the floor of {5 * FLOORS[name]}" in printed


def test_floors_are_not_held_against_a_handful_of_seeds() -> None:
    block = Block(0, FLOORS)
    block.add(idle(0))
    assert not block.shortfalls()


def test_a_violation_ends_the_campaign_with_its_seed_and_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken_at_three(_: object, seed: int) -> SeedResult:
        found = (OracleViolation("A1", 1.5, 2, "votes for n3 in term 4; its disk has no vote in that term"),)
        return SeedResult(seed, found if seed == 3 else (), Counter(), 1, "")

    monkeypatch.setattr(SystemModel, "play", broken_at_three)
    status, printed = outcome(command.sim, "--seeds", "0:10", "--jobs", "1")
    assert status == 1
    assert "seed 3: A1 at n2 at 1.5000 s: votes for n3" in printed
    assert printed.splitlines()[-1] == "reproduce with: quorumlog replay 3 --level core"


def test_json_is_one_line_and_the_last_on_stdout() -> None:
    status, printed = outcome(command.sim, "--seeds", "0:3", "--jobs", "1", "--json")
    found = json.loads(printed.splitlines()[-1])
    assert status == 0
    assert found["valid"] is True
    assert found["seeds_done"] == 3
    assert found["totals"]["acknowledgements"] > 0


@pytest.mark.timeout(60)
def test_workers_play_the_same_seeds_as_one_process() -> None:
    seeds = range(examples(4))
    assert list(play_all(RAFT, seeds, 2)) == list(play_all(RAFT, seeds, 1))


@pytest.mark.parametrize("seeds", ["5", "9:3", "a:b", "1:1", "-1:4", "1:", ""])
def test_a_range_that_is_none_is_refused(seeds: str) -> None:
    status, printed = outcome(command.sim, "--seeds", seeds)
    assert status == 2
    assert "not a range of seeds" in printed


def test_a_level_that_is_not_built_is_unknown() -> None:
    assert outcome(command.sim, "--level", "node")[0] == 2
    assert outcome(command.replay, "1", "--level", "node")[0] == 2


@pytest.mark.parametrize(
    ("target", "arguments", "says"),
    [
        (command.sim, "--scope timeouts=1", "--scope needs --explore"),
        (command.sim, "--minutes 1", "--minutes needs --explore"),
        (command.sim, "--explore --scope nodes=1 --seeds 0:3", "--seeds does not go with --explore"),
        (command.sim, "--explore --scope nodes=1 --jobs 2", "--jobs does not go with --explore"),
        (command.sim, "--explore --scope nodes=1 --level core", "--level does not go with --explore"),
        (command.replay, "7 --keep small.txt", "--keep needs --shrink"),
        (command.replay, "7 --shrink --quiet", "--quiet does not go with --shrink"),
        (command.replay, "7 --shrink --keep no/dir/x", "--keep: no/dir is not a directory that can be written to"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    target: click.Command, arguments: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemModel, "play", lambda _, seed: idle(seed))
    assert outcome(target, *arguments.split()) == (2, says)


def test_a_replay_prints_one_line_for_each_event() -> None:
    status, printed = outcome(command.replay, "7", "--level", "core")
    lines = printed.splitlines()
    assert status == 0
    assert lines[0].split()[:4] == ["time", "s", "node", "event"]
    assert lines[-1].startswith("seed 7 level core: no violation, ")
    assert f" {len(lines) - 2} events, trace " in lines[-1]

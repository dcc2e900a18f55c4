"""A system that the kernel has never seen is simulated, shrunk, replayed and searched, and its planted bug is found."""

import json

import attrs
import click
import pytest

from jepsen_like.simulation.kernel.campaign import play_all
from jepsen_like.simulation.kernel.command import Campaign, ChosenSystem, run_explorer, run_replay, run_shrinker
from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.kernel.scenario import Scenario
from jepsen_like.simulation.kernel.shrink import play_scenario, shrink
from tests.simulation.kernel.two_replicas import BROKEN_PAIR, PAIR, PairKnobs, PairScope

pytestmark = pytest.mark.simulation


def choose_system(model: SystemModel[PairKnobs]) -> ChosenSystem:
    return ChosenSystem(model, "system pair level core", " --system pair", "core")


def first_broken_seed() -> int:
    return next(result.seed for result in play_all(BROKEN_PAIR, range(200), 1) if result.violations)


def test_a_campaign_of_a_sound_model_is_clean_and_reaches_its_floors(capsys: pytest.CaptureFixture[str]) -> None:
    assert Campaign(choose_system(PAIR), range(400), 1, as_json=True).run() == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["system"], found["valid"], found["seeds_done"]) == ("pair", True, 400)


def test_a_campaign_in_zones_plays_the_worlds_that_stand_in_some(capsys: pytest.CaptureFixture[str]) -> None:
    def draw(seed: int) -> PairKnobs:
        return attrs.evolve(PAIR.draw(seed), zones=2 if seed % 5 == 1 else 0)

    model, broken = attrs.evolve(PAIR, draw=draw), attrs.evolve(BROKEN_PAIR, draw=draw)
    assert Campaign(choose_system(model), range(100), 1, as_json=True, in_zones=True).run() == 0
    assert json.loads(capsys.readouterr().out)["seeds_done"] == 20
    assert Campaign(choose_system(broken), range(200), 1, as_json=False, in_zones=True).run() == 1
    found = next(line for line in capsys.readouterr().out.splitlines() if "R1 at n2" in line)
    assert int(found.split()[1].rstrip(":")) % 5 == 1
    with pytest.raises(click.BadParameter, match="no world of 2:5 stands in zones"):
        Campaign(choose_system(model), range(2, 5), 1, as_json=False, in_zones=True).run()


def test_a_campaign_finds_the_bug_and_names_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert Campaign(choose_system(BROKEN_PAIR), range(200), 1, as_json=False).run() == 1
    printed = capsys.readouterr().out.splitlines()
    seed = first_broken_seed()
    assert any(line.startswith(f"seed {seed}: R1 at n2") for line in printed)
    assert printed[-1] == f"reproduce with: quorumlog replay {seed} --system pair --level core"


@pytest.mark.timeout(60)
def test_workers_find_the_model_by_its_import() -> None:
    assert list(play_all(BROKEN_PAIR, range(20), 2)) == list(play_all(BROKEN_PAIR, range(20), 1))


def test_a_failing_world_is_made_small_and_its_scenario_replays(capsys: pytest.CaptureFixture[str]) -> None:
    shrunk = shrink(BROKEN_PAIR, Scenario("R1", BROKEN_PAIR.draw(first_broken_seed())))
    assert shrunk.after.steps <= 5 < shrunk.before.steps
    text = BROKEN_PAIR.scenarios.write(shrunk.scenario)
    assert text.startswith("system pair\noracle R1\n")
    kept = BROKEN_PAIR.scenarios.read(text)
    again = play_scenario(BROKEN_PAIR, kept)
    assert again is not None
    assert again.violation == shrunk.after.violation
    assert play_scenario(PAIR, kept) is None
    assert run_replay(choose_system(BROKEN_PAIR), kept, quiet=False) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split()[-4:] == ["primary", "backup", "acknowledged", "effects"]
    assert str(shrunk.after.violation) in printed


def test_the_command_makes_a_failing_seed_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_shrinker(choose_system(BROKEN_PAIR), first_broken_seed(), None) == 1
    assert "# steps" in capsys.readouterr().out
    assert run_shrinker(choose_system(PAIR), first_broken_seed(), None) == 0


def test_a_seed_of_any_model_gives_the_same_trace_again(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run_replay(choose_system(PAIR), 3, quiet=True) == 0
    once, again = capsys.readouterr().out.splitlines()
    assert once == again


def test_the_search_covers_every_state_of_a_sound_model() -> None:
    explored = PAIR.explorer(PAIR.read_scope(PAIR.scope)).explore()
    # Each write that was made is on its way to the backup, on its way back, or acknowledged.
    assert explored.states == sum(3**made for made in range(4))
    assert (explored.exhausted, explored.found) == (True, None)


def test_the_search_finds_the_bug_by_a_shortest_way(capsys: pytest.CaptureFixture[str]) -> None:
    explored = BROKEN_PAIR.explorer(PairScope(writes=2)).explore()
    assert explored.found is not None
    assert explored.found.path == ("write", "write", "deliver 2 to n2", "deliver 2 to n1", "deliver 1 to n2")
    assert run_explorer(choose_system(BROKEN_PAIR), PairScope(writes=2), 60.0, as_json=False) == 1
    assert "reproduce with: quorumlog sim --system pair --explore --scope writes=2" in capsys.readouterr().out

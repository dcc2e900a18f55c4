"""Seeds of simulated Kafka clusters: none breaks a promise, each is the same every time, and what was found stays found."""

import attrs
import pytest

from jepsen_like.simulation.kafka.model import KAFKA
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kernel.scenario import Scenario

pytestmark = pytest.mark.simulation

REGRESSIONS = {
    1: "a silent follower was taken back into the ISR without a fetch, with a log end from before its crash",
    3050: "a late answer to a fetch of the same offset, with another last epoch, truncated what was committed",
    2474: "an ISR that a dead process had asked for takes part in an election",
    95: "an ISR change during a truncation left a follower without a fetch",
    231: "a follower took no high watermark from an answer that brought the same records once more, and got it never again",
    628: "copies of a compacted log differ by what one had removed for records that all of them lost since",
    636: "a late copy of a dial and of what followed it opened a connection to the next process, which obeyed once more",
    873: "a broker shut down in order before a replica had learned of a truncation, and kept what it knew",
    1114: "a late registration of an earlier process came before the present one had seen its own, which beat in vain for ever",
    989: "a broker that started deleted a copy by a state from before the one that had added it again",
    2769: "the disks of all members vanished, and power took what the last copy had not flushed: no fault, in the audit",
    1169: "a late registration of an earlier process ends the present one, which must come back",
}
REGRESSIONS_WITH_TRIMS = {
    348: (5.0, "an empty log began where its retention had left it, behind the start of the leader's new log"),
    715: (5.0, "a follower of which nothing is the leader's joined without the first records of the leader's new log"),
    1015: (1.0, "a new log begins at 0, whatever had been let go of the old one"),
    1416: (1.0, "what diverges below the leader's log start leaves with the next answer"),
    90: (5.0, "a replica lacks what it had let go before an excused loss, although the others have it again"),
}


@pytest.mark.parametrize("first", [0, *(pytest.param(at, marks=pytest.mark.campaign) for at in (10, 20, 30))])
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 10):
        assert KAFKA.play(seed).violations == (), f"quorumlog replay {seed} --system kafka"


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_is_gone(seed: int) -> None:
    assert KAFKA.play(seed).violations == (), REGRESSIONS[seed]


@pytest.mark.parametrize("seed", REGRESSIONS_WITH_TRIMS)
def test_what_was_found_with_trims_is_gone(seed: int) -> None:
    knobs = attrs.evolve(KAFKA.draw(seed), trims=REGRESSIONS_WITH_TRIMS[seed][0])
    assert KAFKA.world(knobs).run().violations == (), REGRESSIONS_WITH_TRIMS[seed][1]


def test_a_seed_is_the_same_every_time() -> None:
    assert KAFKA.play(3).fingerprint == KAFKA.play(3).fingerprint


def test_a_world_can_be_written_down_and_read_again() -> None:
    scenario: Scenario[KafkaKnobs] = Scenario("K1", KAFKA.draw(7))
    assert KAFKA.scenarios.read(KAFKA.scenarios.write(scenario)) == scenario


def test_the_search_of_two_replicas_finds_nothing() -> None:
    explored = KAFKA.explorer(KAFKA.read_scope("records=1,elections=1,shrinks=1")).explore(states_max=2000)
    assert explored.found is None


def test_the_search_of_two_replicas_that_leave_the_isr_finds_nothing() -> None:
    explored = KAFKA.explorer(KAFKA.read_scope("records=2,elections=1,shrinks=0,fences=2")).explore(states_max=1500)
    assert explored.found is None


def test_the_search_of_a_transaction_and_an_election_finds_nothing() -> None:
    explored = KAFKA.explorer(KAFKA.read_scope("records=0,elections=1,shrinks=0,transactions=1")).explore(
        states_max=1000
    )
    assert explored.found is None


def test_a_scope_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes=3"):
        KAFKA.read_scope("nodes=3")

"""The audit of a simulated consumer group accuses what breaks a promise of the coordinator, and nothing else."""

from collections import Counter

import pytest

from jepsen_like.simulation.kafka.group_truth import GroupTruth
from jepsen_like.simulation.kafka.model import KAFKA

TERM = (101, 5)
NEXT_TERM = (201, 6)


def make_truth() -> tuple[GroupTruth, list[str]]:
    said: list[str] = []
    return GroupTruth(said.append), said


def test_a_partition_has_one_owner_in_a_generation() -> None:
    truth, said = make_truth()
    truth.on_assigned(1, "a", frozenset({0, 1}))
    truth.on_assigned(1, "a", frozenset({0, 1}))
    truth.on_assigned(1, "b", frozenset({2}))
    truth.on_assigned(2, "b", frozenset({0}))
    assert said == []
    truth.on_assigned(2, "c", frozenset({0}))
    assert said == ["gives partition 0 to b and c in generation 2"]


def test_a_commit_that_arrives_after_a_newer_generation_has_begun_is_not_taken() -> None:
    truth, said = make_truth()
    truth.on_assigned(3, "a", frozenset({0}))
    truth.on_committed(truth.find_refusal(TERM, 3, "a"), 0, 5)
    early = truth.find_refusal(TERM, 3, "a")
    truth.on_assigned(4, "b", frozenset({0}))
    truth.on_committed(early, 0, 6)
    assert said == []
    truth.on_committed(truth.find_refusal(TERM, 3, "a"), 0, 7)
    assert said == ["takes a commit of generation 3 after generation 4 has begun"]


def test_a_generation_begins_with_the_answer_to_a_join_for_the_coordinator_that_gave_it() -> None:
    truth, _ = make_truth()
    truth.begun[TERM] = 4
    assert truth.find_refusal(TERM, 3, "a") == "of generation 3 after generation 4 has begun"
    assert truth.find_refusal(TERM, 4, "a") == ""
    assert truth.find_refusal(NEXT_TERM, 3, "a") == ""


def test_a_coordinator_takes_no_commit_of_a_member_that_it_has_removed() -> None:
    truth, _ = make_truth()
    truth.gone.add((TERM, "a"))
    assert truth.find_refusal(TERM, 3, "a") == "of a, which it has removed"
    assert truth.find_refusal(TERM, 3, "b") == ""
    assert truth.find_refusal(NEXT_TERM, 3, "a") == ""


def test_the_epoch_of_a_member_by_kip_848_is_its_own() -> None:
    truth, said = make_truth()
    truth.on_epoch("a", 3)
    truth.on_assigned(3, "a", frozenset({0, 1}))
    truth.on_epoch("b", 4)
    truth.on_assigned(4, "b", frozenset({1}))
    truth.on_committed(truth.find_refusal(TERM, 3, "a"), 0, 5)
    assert said == []
    truth.on_epoch("a", 4)
    assert truth.find_refusal(NEXT_TERM, 3, "a") == "of generation 3 after generation 4 has begun"
    truth.excuse()
    assert truth.find_refusal(TERM, 3, "a") == ""


def test_an_owner_goes_on_where_the_last_one_has_committed() -> None:
    truth, said = make_truth()
    truth.asked[0] = 6
    truth.on_committed("", 0, 5)
    truth.on_fetched(0, 5, truth.committed[0])
    truth.on_fetched(0, 6, truth.committed[0])
    assert said == []
    truth.on_fetched(0, 4, truth.committed[0])
    truth.on_fetched(0, 7, truth.committed[0])
    assert said == [
        "goes on from 4 in partition 0, and 5 was acknowledged before",
        "goes on from 7 in partition 0, which no member has committed",
    ]


def test_what_was_promised_before_an_excused_loss_proves_nothing_after_it() -> None:
    truth, said = make_truth()
    truth.on_assigned(3, "a", frozenset({0}))
    truth.excuse()
    truth.on_assigned(3, "b", frozenset({0}))
    truth.on_committed(truth.find_refusal(TERM, 1, "a"), 0, 1)
    assert (said, truth.newest, truth.era) == (["takes a commit of generation 1 after generation 3 has begun"], 3, 1)


@pytest.mark.campaign
def test_members_share_a_group_through_faults() -> None:
    counts: Counter[str] = Counter()
    for seed in range(160):
        counts += KAFKA.play(seed).counts
    for what in ("generations", "group_assignments", "group_commits", "consumer_joins", "consumer_assignments"):
        assert counts[what] > 5, what
    assert min(counts["group_leaves"], counts["consumer_leaves"]) > 2

"""Elections: by failure, on request, and unclean ones."""

import pytest

from kafka_compat.controller.commands import (
    AlterReassignments,
    ElectionType,
    ElectLeaders,
    FenceBroker,
    LeadersElected,
    PartitionElected,
    Reassignment,
    ReassignmentsAltered,
    ResourceKind,
    UnfenceBroker,
)
from kafka_compat.model import NO_LEADER, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World, three_brokers

UNCLEAN = "unclean.leader.election.enable"


def elect(world: World, election: ElectionType, *partitions: int) -> list[tuple[int, KafkaErrorCode]]:
    keys = tuple(TopicPartition("t", partition) for partition in partitions)
    result = world.do(ElectLeaders(election, keys or None), LeadersElected)
    assert all(bool(each.message) == (each.error is not KafkaErrorCode.NONE) for each in result.partitions)
    return [(each.partition, each.error) for each in result.partitions]


def leaderless(**configs: str) -> World:
    """Broker 1, the last member of the ISR, is fenced; 2 and 3 are active."""
    world = three_brokers(**configs)
    world.fence(2)
    world.fence(3)
    world.unfence(2)
    world.unfence(3)
    world.fence(1)
    return world


def test_the_next_leader_is_the_first_in_assignment_order_that_is_in_the_isr() -> None:
    world = three_brokers((1, 3, 2))
    world.alter(world.change(1, 2, 3))
    world.fence(1)
    assert (world.state().leader, world.state().isr) == (3, (2, 3))


def test_a_leader_that_may_lead_stays_although_the_preferred_one_comes_back() -> None:
    world = three_brokers()
    world.fence(1)
    world.unfence(1)
    world.alter(world.change(1, 2, 3))
    assert (world.state().leader, world.state().leader_epoch) == (2, 1)


def test_a_preferred_election_moves_the_leadership_once_the_preferred_replica_is_in_sync() -> None:
    world = three_brokers()
    assert elect(world, ElectionType.PREFERRED, 0) == [(0, KafkaErrorCode.ELECTION_NOT_NEEDED)]
    world.fence(1)
    world.unfence(1)
    assert elect(world, ElectionType.PREFERRED, 0) == [(0, KafkaErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    assert world.state().leader == 2
    world.alter(world.change(2, 3, 1))
    assert elect(world, ElectionType.PREFERRED, 0) == [(0, KafkaErrorCode.NONE)]
    assert (world.state().leader, world.state().leader_epoch, world.state().isr) == (1, 2, (2, 3, 1))


def test_an_election_of_all_partitions_reports_only_those_that_need_one() -> None:
    world = three_brokers((1, 2), (2, 1), (3, 1))
    world.fence(1)
    assert elect(world, ElectionType.PREFERRED) == [(0, KafkaErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    assert elect(world, ElectionType.UNCLEAN) == []


def test_an_unclean_election_on_request_takes_the_first_active_replica_alone_and_lets_it_recover() -> None:
    world = leaderless()
    assert (world.state().leader, world.state().isr) == (NO_LEADER, (1,))
    epoch = world.state().leader_epoch
    assert elect(world, ElectionType.UNCLEAN, 0) == [(0, KafkaErrorCode.NONE)]
    state = world.state()
    assert (state.leader, state.isr, state.recovering, state.leader_epoch) == (2, (2,), True, epoch + 1)
    assert elect(world, ElectionType.UNCLEAN, 0) == [(0, KafkaErrorCode.ELECTION_NOT_NEEDED)]


def test_an_unclean_election_takes_the_first_of_the_replicas_that_are_being_added() -> None:
    world = three_brokers((3,))
    world.do(AlterReassignments((Reassignment("t", 0, (2, 1)),)), ReassignmentsAltered)
    world.fence(3)
    elect(world, ElectionType.UNCLEAN, 0)
    assert (world.state().replicas, world.state().leader) == ((2, 1, 3), 2)


def test_an_unclean_election_prefers_a_member_of_the_isr_and_is_clean_then() -> None:
    world = leaderless()
    world.fence(2)
    world.fence(3)
    assert elect(world, ElectionType.UNCLEAN, 0) == [(0, KafkaErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
    world.unfence(1)
    assert (world.state().leader, world.state().recovering) == (1, False)


def test_unknown_partitions_are_named_in_the_result() -> None:
    world = three_brokers()
    keys = (TopicPartition("t", 1), TopicPartition("nowhere", 0), TopicPartition("t", -1), TopicPartition("t", 0))
    result = world.do(ElectLeaders(ElectionType.PREFERRED, keys), LeadersElected)
    assert [each.error.name for each in result.partitions] == [
        *["UNKNOWN_TOPIC_OR_PARTITION"] * 3,
        "ELECTION_NOT_NEEDED",
    ]
    assert result.partitions[1] == PartitionElected(
        "nowhere", 0, KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as nowhere-0"
    )


def test_a_topic_that_allows_it_elects_uncleanly_as_soon_as_its_last_member_is_fenced() -> None:
    world = leaderless(unclean_leader_election_enable="true")
    assert (world.state().leader, world.state().isr, world.state().recovering) == (2, (2,), True)


@pytest.mark.parametrize(
    ("of_topic", "of_cluster", "by_default", "unclean"),
    [
        (None, None, False, False),
        (None, None, True, True),
        (None, "false", True, False),
        (None, "true", False, True),
        ("false", "true", True, False),
        ("true", "false", False, True),
        ("TRUE ", None, False, True),
    ],
)
def test_the_topic_decides_before_the_cluster_and_the_cluster_before_the_default(
    of_topic: str | None, of_cluster: str | None, by_default: bool, unclean: bool
) -> None:
    world = three_brokers((1, 2))
    world.fence(2)
    world.unfence(2)
    world.configure(ResourceKind.TOPIC, "t", UNCLEAN, of_topic)
    world.configure(ResourceKind.BROKER, "", UNCLEAN, of_cluster)
    world.do(FenceBroker(1, world.epoch(1), by_default))
    assert world.state().leader == (2 if unclean else NO_LEADER)


def test_allowing_unclean_elections_elects_at_once_where_there_is_no_leader() -> None:
    world = leaderless()
    world.configure(ResourceKind.TOPIC, "t", "retention.ms", "1")
    assert world.state().leader == NO_LEADER
    world.configure(ResourceKind.TOPIC, "t", UNCLEAN, "true")
    assert world.state().leader == 2
    world = leaderless()
    world.configure(ResourceKind.BROKER, "", UNCLEAN, "true")
    assert world.state().leader == 2


def test_a_topic_that_allows_it_does_not_make_another_topic_elect_uncleanly() -> None:
    world = three_brokers((1, 2))
    world.create("other", (1, 2))
    world.fence(2)
    world.unfence(2)
    world.fence(1)
    world.configure(ResourceKind.TOPIC, "other", UNCLEAN, "true")
    assert (world.state().leader, world.state("other").leader) == (NO_LEADER, 2)


def test_unfencing_elects_uncleanly_where_that_is_allowed_by_the_command() -> None:
    world = leaderless()
    world.fence(2)
    world.do(UnfenceBroker(2, world.epoch(2), True))
    assert (world.state().leader, world.state().recovering) == (2, True)


def test_a_recovering_leader_stays_recovering_through_a_clean_election_until_it_is_confirmed() -> None:
    world = leaderless(unclean_leader_election_enable="true")
    world.configure(ResourceKind.TOPIC, "t", UNCLEAN, "false")
    world.fence(2)
    world.unfence(2)
    assert (world.state().leader, world.state().recovering) == (2, True)
    assert world.alter(world.change(2)).error is KafkaErrorCode.NONE
    assert (world.state().isr, world.state().recovering) == ((2,), False)

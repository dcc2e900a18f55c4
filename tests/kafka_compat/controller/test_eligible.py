"""Eligible leader replicas, suspects, and elections by comparison: which copies may lead, and which are waited for."""

import attrs
import pytest

from kafka_compat.controller.commands import (
    ElectionType,
    ElectLeaders,
    LeadersElected,
    LogReport,
    ReportLogs,
    ResourceKind,
)
from kafka_compat.controller.invariants import check, problem_of
from kafka_compat.model import NO_LEADER, LogEnd, PartitionState, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World, three_brokers, three_eligible, uuid

UNCLEAN = "unclean.leader.election.enable"
KEY = TopicPartition("t", 0)


def copies(world: World) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Leader, ISR, ELR and suspects of the partition."""
    state = world.state()
    return state.leader, state.isr, state.elr, state.suspects


def all_gone() -> World:
    """All three were fenced, one after the other."""
    world = three_eligible()
    for broker in (1, 2, 3):
        world.fence(broker)
    return world


def all_suspect() -> World:
    """All three came back in doubt; none has reported since the last of them was a suspect, which is broker 3."""
    world = all_gone()
    for broker in (1, 2, 3):
        world.register(broker)
    for broker in (1, 2, 3):
        world.report(broker, doubtful=True, seen=-1)
    for broker in (1, 2, 3):
        world.unfence(broker)
    return world


def test_sessions_that_end_together_leave_every_member_eligible() -> None:
    assert copies(all_gone()) == (NO_LEADER, (), (1, 2, 3), ())


def test_a_shutdown_leaves_a_member_eligible_as_a_fence_does() -> None:
    world = three_eligible()
    world.shut_down(1)
    assert copies(world) == (2, (2, 3), (1,), ())


def test_all_that_stop_in_turn_are_eligible_if_nothing_was_acknowledged_meanwhile() -> None:
    world = three_eligible()
    for broker in (1, 2, 3):
        world.shut_down(broker)
        world.fence(broker)
    assert copies(world) == (NO_LEADER, (), (1, 2, 3), ())


def test_all_that_stop_in_turn_leave_those_eligible_without_whom_nothing_was_acknowledged() -> None:
    world = three_eligible()
    world.shut_down(1)
    world.alter(world.change(2, 3))
    world.shut_down(2)
    world.shut_down(3)
    assert copies(world) == (NO_LEADER, (), (2, 3), ())


def test_any_eligible_replica_that_comes_back_leads_and_the_others_stay_eligible() -> None:
    world = all_gone()
    world.register(3)
    world.unfence(3)
    assert copies(world) == (3, (3,), (1, 2), ())
    world.register(1)
    world.unfence(1)
    assert copies(world) == (3, (3,), (1, 2), ()), "it joins when the leader asks for it"


def test_a_member_of_the_isr_is_preferred_to_an_eligible_replica() -> None:
    world = three_eligible()
    world.fence(1)
    world.register(1)
    world.unfence(1)
    world.fence(2)
    assert copies(world) == (3, (3,), (1, 2), ())


def test_without_the_feature_the_last_member_stays_alone_in_the_isr() -> None:
    world = three_brokers()
    for broker in (1, 2, 3):
        world.fence(broker)
    assert copies(world) == (NO_LEADER, (3,), (), ())
    world.register(1)
    world.unfence(1)
    assert copies(world) == (NO_LEADER, (3,), (), ())


def test_what_was_eligible_is_elected_after_the_feature_was_switched_off() -> None:
    world = all_gone()
    world.eligible = False
    world.register(2)
    world.unfence(2)
    assert copies(world) == (2, (2,), (1, 3), ())


def test_the_last_member_of_an_isr_is_eligible_as_soon_as_it_registers_with_the_feature_switched_on() -> None:
    world = three_brokers()
    for broker in (1, 2, 3):
        world.fence(broker)
    world.eligible = True
    world.register(3)
    assert copies(world) == (NO_LEADER, (), (3,), ())


# -------------------------------------------------------------------- the leader's word


def test_a_leader_that_goes_on_alone_leaves_none_eligible() -> None:
    world = three_eligible()
    world.fence(3)
    altered = world.alter(world.change(1, 2))
    assert copies(world) == (1, (1, 2), (), ())
    assert altered.state == world.state()


def test_whom_the_leader_takes_out_is_eligible_only_if_it_waits_for_it() -> None:
    world = three_eligible()
    world.alter(world.change(1, 2, keeps_eligible=True))
    assert copies(world) == (1, (1, 2), (3,), ())
    world.alter(world.change(1))
    assert copies(world) == (1, (1,), (), ())


def test_whoever_joins_is_not_eligible_any_more_and_the_others_are() -> None:
    world = three_eligible()
    world.fence(2)
    world.fence(3)
    world.register(2)
    world.unfence(2)
    world.alter(world.change(1, 2, keeps_eligible=True))
    assert copies(world) == (1, (1, 2), (3,), ())


def test_asking_for_what_is_already_so_changes_nothing() -> None:
    world = three_eligible()
    before = world.state()
    assert world.alter(world.change(1, 2, 3)).error is KafkaErrorCode.NONE
    assert world.state() == before


# -------------------------------------------------------------------- doubts


def test_a_member_in_doubt_is_a_suspect_and_does_not_lead() -> None:
    world = all_gone()
    world.register(2)
    assert world.report(2, doubtful=True) is KafkaErrorCode.NONE
    world.unfence(2)
    assert copies(world) == (NO_LEADER, (), (1, 3), (2,))
    world.register(3)
    world.unfence(3)
    assert copies(world) == (3, (3,), (1,), (2,))


def test_a_broker_without_doubts_needs_no_report() -> None:
    world = all_gone()
    world.register(2)
    world.unfence(2)
    assert world.state().leader == 2


def test_a_suspect_that_the_leader_takes_in_is_none_any_more() -> None:
    world = all_gone()
    world.register(2)
    world.report(2, doubtful=True)
    world.unfence(2)
    world.register(3)
    world.unfence(3)
    world.alter(world.change(3, 2, keeps_eligible=True))
    assert copies(world) == (3, (3, 2), (1,), ())


def test_a_suspect_is_not_cleared_by_a_report_without_doubts() -> None:
    world = all_gone()
    world.register(2)
    world.report(2, doubtful=True)
    world.report(2)
    assert copies(world) == (NO_LEADER, (), (1, 3), (2,))


def test_doubts_about_a_leader_end_its_leadership() -> None:
    world = three_eligible()
    world.report(1, doubtful=True)
    assert copies(world) == (2, (2, 3), (), (1,))
    assert world.state().leader_epoch == 1


def test_doubts_about_a_copy_that_did_not_count_change_nothing() -> None:
    world = three_eligible()
    world.alter(world.change(1, 2))
    before = world.state()
    world.report(3, doubtful=True)
    assert world.state() == before


def test_reports_of_another_process_are_refused() -> None:
    world = all_gone()
    before, epoch = world.state(), world.epoch(2)
    world.register(2)
    assert world.report(2, doubtful=True, epoch=epoch) is KafkaErrorCode.STALE_BROKER_EPOCH
    assert world.state() == before


def test_reports_of_what_is_not_there_are_passed_over() -> None:
    world = three_eligible((1, 2))
    unknown = (LogReport(uuid(99), 0, 0, True, 0, 0), LogReport(world.state().topic_id, 7, 0, True, 0, 0))
    before = world.state()
    assert world.do(ReportLogs(3, world.epoch(3), unknown)).error is KafkaErrorCode.NONE
    assert world.report(3, doubtful=True) is KafkaErrorCode.NONE, "it has no replica"
    assert world.state() == before


# -------------------------------------------------------------------- comparison


def test_an_eligible_replica_that_is_away_is_waited_for() -> None:
    world = all_gone()
    for broker in (1, 2):
        world.register(broker)
        world.report(broker, doubtful=True, end=5)
        world.unfence(broker)
        world.report(broker, end=5)
    assert copies(world) == (NO_LEADER, (), (3,), (1, 2))
    assert not world.state().awaits_comparison
    assert world.state().log_ends == ()
    world.register(3)
    world.unfence(3)
    assert world.state().leader == 3


def test_the_greatest_log_leads_once_every_replica_has_reported() -> None:
    world = all_suspect()
    assert copies(world) == (NO_LEADER, (), (), (1, 2, 3))
    image = world.machine.image
    assert [image.log_ends_wanted(broker) for broker in (1, 2, 3, 9)] == [[KEY], [KEY], [KEY], []]
    world.report(1, 0, 9)
    world.report(3, 1, 2)
    assert [image.log_ends_wanted(broker) for broker in (1, 2, 3)] == [[], [KEY], []]
    assert world.state().leader == NO_LEADER
    world.report(2, 1, 4)
    assert copies(world) == (2, (2,), (), ())
    assert (world.state().log_ends, world.state().recovering) == ((), False)
    assert image.log_ends_wanted(2) == []


def test_a_suspect_s_report_of_its_doubt_counts_as_its_log_end_if_it_saw_the_last_leader_go() -> None:
    world = all_gone()
    for broker in (1, 2, 3):
        world.register(broker)
        world.report(broker, doubtful=True, end=broker)
    assert [each.broker for each in world.state().log_ends] == [3], "the others were not all in doubt then"


def test_of_equal_logs_the_first_active_replica_in_assignment_order_leads() -> None:
    world = all_suspect()
    world.fence(1)
    for broker in (3, 2, 1):
        world.report(broker, 1, 4)
    assert world.state().leader == 2


def test_the_greatest_log_is_waited_for_while_its_broker_is_away() -> None:
    world = all_suspect()
    world.fence(3)
    for broker, end in ((1, 4), (2, 5), (3, 6)):
        world.report(broker, 1, end)
    assert world.state().leader == NO_LEADER
    world.unfence(3)
    assert copies(world) == (3, (3,), (), ())


def test_a_log_end_counts_only_for_the_process_that_reported_it() -> None:
    world = all_suspect()
    world.fence(3)
    for broker, end in ((1, 4), (3, 6)):
        world.report(broker, 1, end)
    world.register(3)
    world.report(2, 1, 5)
    world.unfence(3)
    assert world.state().leader == NO_LEADER
    assert world.machine.image.log_ends_wanted(3) == [KEY]
    world.report(3, 0, 0)
    assert world.state().leader == 2


def test_a_log_end_from_before_the_last_leader_does_not_count() -> None:
    world = all_suspect()
    world.report(1, 1, 4, seen=world.state().leader_epoch - 1)
    assert world.state().log_ends == ()
    assert world.machine.image.log_ends_wanted(1) == [KEY]


def test_a_log_end_of_an_epoch_to_come_does_not_count() -> None:
    """It would win over each log that is."""
    world = all_suspect()
    world.report(1, world.state().leader_epoch + 1, 4)
    assert world.state().log_ends == ()


def test_the_latest_report_of_a_process_counts() -> None:
    world = all_suspect()
    world.report(1, 1, 4)
    world.report(1, 1, 6)
    assert world.state().log_ends == (LogEnd(1, world.epoch(1), 1, 6),)


def test_a_stale_replica_that_was_never_eligible_is_compared_too() -> None:
    world = three_eligible()
    world.alter(world.change(1, 2))
    world.fence(1)
    world.fence(2)
    for broker in (1, 2):
        world.register(broker)
        world.report(broker, doubtful=True)
        world.unfence(broker)
    for broker in (1, 2):
        world.report(broker, -1, 0)
    assert world.state().leader == NO_LEADER
    world.report(3, 0, 7)
    assert copies(world) == (3, (3,), (), ())


def test_a_single_replica_in_doubt_leads_again_after_its_own_report() -> None:
    world = three_eligible((2,))
    world.fence(2)
    world.register(2)
    world.report(2, 0, 3, doubtful=True)
    assert world.state().leader == NO_LEADER, "it is fenced"
    world.unfence(2)
    assert copies(world) == (2, (2,), (), ())


def test_an_unclean_election_prefers_the_greatest_log_that_was_reported() -> None:
    world = all_suspect()
    world.fence(3)
    world.report(2, 1, 5)
    world.report(3, 1, 6)
    result = world.do(ElectLeaders(ElectionType.UNCLEAN, (KEY,)), LeadersElected)
    assert result.partitions[0].error is KafkaErrorCode.NONE
    assert copies(world) == (2, (2,), (), ())
    assert world.state().recovering


def test_unclean_elections_are_held_as_before_where_they_are_allowed() -> None:
    world = three_eligible()
    world.alter(world.change(1))
    world.fence(1)
    assert copies(world) == (NO_LEADER, (), (1,), ())
    world.configure(ResourceKind.TOPIC, "t", UNCLEAN, "true")
    assert copies(world) == (2, (2,), (), ())
    assert world.state().recovering


def test_the_snapshot_of_a_comparison_under_way_goes_on_alike() -> None:
    world = all_suspect()
    world.report(1, 0, 9)
    other = World(eligible=True)
    other.machine.restore(world.machine.snapshot())
    other.index = world.index
    for cluster in (world, other):
        cluster.report(2, 1, 4)
        cluster.report(3, 1, 2)
    assert copies(other) == copies(world) == (2, (2,), (), ())
    assert other.machine.snapshot() == world.machine.snapshot()


# -------------------------------------------------------------------- invariants

SOUND = PartitionState(uuid(1), (1, 2, 3), (1,), 1, 4, 9, False, (2,), (3,))
ALONE = PartitionState(uuid(1), (1, 2), (), NO_LEADER, 4, 9, False, (), (1,), (LogEnd(2, 5, 4, 9),))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (attrs.evolve(SOUND, replicas=()), "replicas"),
        (attrs.evolve(SOUND, elr=(1,)), "two of"),
        (attrs.evolve(SOUND, suspects=(4,)), "no replica"),
        (attrs.evolve(SOUND, leader=2), "leader"),
        (attrs.evolve(SOUND, log_ends=ALONE.log_ends), "log ends"),
        (attrs.evolve(ALONE, log_ends=ALONE.log_ends * 2), "twice"),
    ],
)
def test_a_state_that_cannot_be_is_named(state: PartitionState, text: str) -> None:
    problem = problem_of(state)
    assert problem is not None
    assert text in problem


@pytest.mark.parametrize("state", [SOUND, ALONE])
def test_a_state_that_can_be_has_no_problem(state: PartitionState) -> None:
    assert problem_of(state) is None


@pytest.mark.parametrize(
    "after",
    [
        attrs.evolve(SOUND, partition_epoch=9),
        attrs.evolve(SOUND, partition_epoch=10, leader_epoch=5),
        attrs.evolve(SOUND, partition_epoch=10, isr=(), leader=NO_LEADER, leader_epoch=5),
        attrs.evolve(SOUND, partition_epoch=10, topic_id=uuid(2)),
    ],
)
def test_a_change_that_cannot_be_is_a_crash(after: PartitionState) -> None:
    with pytest.raises(AssertionError):
        check(SOUND, after)

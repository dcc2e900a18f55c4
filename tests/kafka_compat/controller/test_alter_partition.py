"""The changes of an ISR that a leader may make, and the order of refusals."""

from collections.abc import Callable

import attrs
import pytest

from kafka_compat.controller.commands import AlterPartition, IsrChange, PartitionsAltered, ProposedMember
from kafka_compat.model import NO_EPOCH
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World, three_brokers, uuid


def test_a_leader_shrinks_and_expands_the_isr_and_each_change_makes_a_partition_epoch() -> None:
    world = three_brokers()
    altered = world.alter(world.change(1, 2))
    assert altered.error is KafkaErrorCode.NONE
    assert altered.state == world.state()
    assert (world.state().isr, world.state().leader_epoch, world.state().partition_epoch) == ((1, 2), 0, 1)
    world.alter(world.change(1, 2, 3))
    assert (world.state().isr, world.state().leader_epoch, world.state().partition_epoch) == ((1, 2, 3), 0, 2)


def test_the_isr_that_is_already_so_is_granted_without_a_change() -> None:
    world = three_brokers()
    before = world.state()
    assert world.alter(world.change(1, 2, 3)).state is not None
    assert world.state() == before
    assert world.machine.drain_changes() == []


def test_the_partition_epoch_makes_it_a_compare_and_set() -> None:
    world = three_brokers()
    first, second = world.change(1, 2), world.change(1, 3)
    assert world.alter(first).error is KafkaErrorCode.NONE
    refused = world.alter(second)
    assert refused.error is KafkaErrorCode.INVALID_UPDATE_VERSION
    assert refused.state == world.state()
    assert world.state().isr == (1, 2)


def wrong(change: IsrChange, **fields: object) -> IsrChange:
    return attrs.evolve(change, **fields)  # type: ignore[arg-type]


REFUSALS: dict[str, tuple[Callable[[IsrChange], IsrChange], KafkaErrorCode]] = {
    "an unknown topic": (lambda c: wrong(c, topic_id=uuid(99)), KafkaErrorCode.UNKNOWN_TOPIC_ID),
    "an unknown partition": (lambda c: wrong(c, partition=5), KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "a negative partition": (lambda c: wrong(c, partition=-1), KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "a newer leader epoch": (lambda c: wrong(c, leader_epoch=c.leader_epoch + 1), KafkaErrorCode.NOT_CONTROLLER),
    "a newer partition epoch": (
        lambda c: wrong(c, partition_epoch=c.partition_epoch + 1, leader_epoch=0),
        KafkaErrorCode.NOT_CONTROLLER,
    ),
    "an older leader epoch": (
        lambda c: wrong(c, leader_epoch=c.leader_epoch - 1, partition_epoch=0),
        KafkaErrorCode.FENCED_LEADER_EPOCH,
    ),
    "an older partition epoch": (
        lambda c: wrong(c, partition_epoch=c.partition_epoch - 1, isr=()),
        KafkaErrorCode.INVALID_UPDATE_VERSION,
    ),
    "an empty ISR": (lambda c: wrong(c, isr=()), KafkaErrorCode.INVALID_REQUEST),
    "an ISR without the leader": (lambda c: wrong(c, isr=c.isr[1:]), KafkaErrorCode.INVALID_REQUEST),
    "a member twice": (lambda c: wrong(c, isr=c.isr + c.isr[:1]), KafkaErrorCode.INVALID_REQUEST),
    "a broker that is no replica": (
        lambda c: wrong(c, isr=(*c.isr, ProposedMember(4, NO_EPOCH))),
        KafkaErrorCode.INVALID_REQUEST,
    ),
    "a leader that recovers with others": (lambda c: wrong(c, recovering=True), KafkaErrorCode.INVALID_REQUEST),
    "a leader that recovers again": (
        lambda c: wrong(c, recovering=True, isr=c.isr[:1]),
        KafkaErrorCode.INVALID_REQUEST,
    ),
    "a member of another epoch": (
        lambda c: wrong(c, isr=(c.isr[0], ProposedMember(3, c.isr[1].epoch - 1))),
        KafkaErrorCode.INELIGIBLE_REPLICA,
    ),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_change_is_refused_for(reason: str) -> None:
    world = three_brokers()
    world.start(4)
    world.fence(1)  # so that epochs are not zero
    spoil, error = REFUSALS[reason]
    before = world.state()
    refused = world.alter(spoil(world.change(2, 3)), sender=2)
    assert refused.error is error
    assert refused.message
    assert world.state() == before


def test_only_the_leader_may_ask_which_comes_after_the_leader_epoch_and_before_the_partition_epoch() -> None:
    world = three_brokers()
    world.fence(1)
    change = world.change(2, 3)
    old = attrs.evolve(change, partition_epoch=0)
    assert world.alter(old, sender=3).error is KafkaErrorCode.INVALID_REQUEST
    older = attrs.evolve(old, leader_epoch=0)
    assert world.alter(older, sender=3).error is KafkaErrorCode.FENCED_LEADER_EPOCH


def fence(world: World) -> None:
    world.fence(3)


def shutting_down(world: World) -> None:
    world.shut_down(3)


def another_process(world: World) -> None:
    world.fence(3)
    world.register(3)
    world.unfence(3)


@pytest.mark.parametrize("became", [fence, shutting_down, another_process])
def test_a_broker_does_not_join_an_isr_when_meanwhile_it_became(became: Callable[[World], None]) -> None:
    world = three_brokers()
    world.alter(world.change(1, 2))
    change = world.change(1, 2, 3)
    became(world)
    assert world.alter(change).error is KafkaErrorCode.INELIGIBLE_REPLICA
    assert world.state().isr == (1, 2)


def test_an_unknown_epoch_is_enough_to_stay_but_not_to_join() -> None:
    world = three_brokers()
    change = world.change(1, 2)
    unknown = attrs.evolve(change, isr=(ProposedMember(1, world.epoch(1)), ProposedMember(2, NO_EPOCH)))
    assert world.alter(unknown).error is KafkaErrorCode.NONE
    change = world.change(1, 2, 3)
    joining = attrs.evolve(change, isr=(*change.isr[:2], ProposedMember(3, NO_EPOCH)))
    assert world.alter(joining).error is KafkaErrorCode.INELIGIBLE_REPLICA


def test_a_leader_of_another_process_is_refused_as_a_whole() -> None:
    world = three_brokers()
    answer = world.do(AlterPartition(1, world.epoch(1) + 1, (world.change(1),)), PartitionsAltered)
    assert (answer.error, answer.partitions) == (KafkaErrorCode.STALE_BROKER_EPOCH, ())
    assert world.state().isr == (1, 2, 3)


def test_each_change_of_a_command_stands_for_itself() -> None:
    world = three_brokers((1, 2), (1, 3), (2, 1))
    changes = (world.change(1), world.change(2, partition=2), world.change(1, partition=1), world.change(1))
    answer = world.do(AlterPartition(1, world.epoch(1), changes), PartitionsAltered)
    assert [each.error.name for each in answer.partitions] == [
        "NONE",
        "INVALID_REQUEST",
        "NONE",
        "INVALID_UPDATE_VERSION",
    ]
    assert [world.state(partition=partition).isr for partition in range(3)] == [(1,), (1,), (2, 1)]


def test_a_leader_that_has_recovered_lets_others_join() -> None:
    world = three_brokers((1, 2), unclean_leader_election_enable="true")
    world.fence(2)
    world.unfence(2)
    world.fence(1)
    world.unfence(1)
    assert (world.state().isr, world.state().recovering) == ((2,), True)
    assert world.alter(world.change(2, recovering=True)).error is KafkaErrorCode.NONE
    assert world.state().recovering
    assert world.alter(world.change(2, 1)).error is KafkaErrorCode.NONE
    assert (world.state().isr, world.state().recovering) == ((2, 1), False)

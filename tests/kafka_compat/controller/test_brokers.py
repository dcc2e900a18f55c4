"""Registering, fencing, unfencing and shutting down brokers."""

import pytest

from kafka_compat.controller.commands import (
    Acknowledged,
    AllocateProducerIds,
    BeginShutdown,
    FenceBroker,
    ProducerIdsAllocated,
    RegisterBroker,
    Registered,
    ResourceKind,
    UnfenceBroker,
    UnregisterBroker,
)
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import NO_EPOCH, NO_LEADER
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World, three_brokers, uuid


def test_the_epoch_of_a_broker_is_the_index_of_its_registration() -> None:
    world = World()
    world.index = 41
    assert world.register(1) == Registered(42)
    registration = world.machine.image.brokers[1]
    assert (registration.epoch, registration.fenced, registration.active) == (42, True, False)
    assert (registration.host, registration.port) == ("host1", 9001)


def test_the_same_incarnation_keeps_its_epoch_and_its_state_and_may_change_its_address() -> None:
    world = World()
    world.start(1)
    epoch = world.epoch(1)
    world.machine.drain_changes()
    again = RegisterBroker(1, uuid(world.incarnations), "elsewhere", 7, "r")
    assert world.do(again, Registered) == Registered(epoch)
    registration = world.machine.image.brokers[1]
    assert (registration.epoch, registration.fenced) == (epoch, False)
    assert (registration.host, registration.port, registration.rack) == ("elsewhere", 7, "r")
    assert world.machine.drain_changes()[0].brokers == (registration,)
    world.do(again, Registered)
    assert world.machine.drain_changes() == []


def test_another_incarnation_is_refused_while_the_registered_one_is_not_fenced() -> None:
    world = three_brokers()
    before = world.machine.image.brokers[1]
    refused = world.register(1)
    assert (refused.epoch, refused.error) == (NO_EPOCH, KafkaErrorCode.DUPLICATE_BROKER_REGISTRATION)
    assert "session" in refused.message
    assert world.machine.image.brokers[1] == before
    assert world.state().isr == (1, 2, 3)
    world.fence(1)
    assert world.register(1).error is KafkaErrorCode.NONE
    assert world.epoch(1) == world.index > before.epoch


def test_a_broker_that_is_shutting_down_is_still_refused_as_a_second_process() -> None:
    world = three_brokers()
    world.shut_down(1)
    assert world.register(1).error is KafkaErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize("command", [UnfenceBroker, FenceBroker, BeginShutdown])
def test_a_command_for_another_process_of_a_broker_has_no_effect(
    command: type[UnfenceBroker | FenceBroker | BeginShutdown],
) -> None:
    world = three_brokers()
    world.fence(3)
    old = world.epoch(3)
    world.register(3)
    before = world.machine.snapshot()
    for broker, epoch in ((3, old), (1, world.epoch(1) + 1), (9, 1)):
        answer = world.do(command(broker, epoch), Acknowledged)
        assert answer.error is KafkaErrorCode.STALE_BROKER_EPOCH
        assert answer.message
    world.machine.image.index -= 3
    assert world.machine.snapshot() == before


def test_a_fenced_broker_leaves_every_isr_and_its_leaderships_move_in_one_change() -> None:
    world = three_brokers((1, 2, 3), (2, 3, 1), (1, 3, 2))
    world.create("other", (3, 2))
    world.machine.drain_changes()
    world.fence(1)
    (delta,) = world.machine.drain_changes()
    assert [broker.id for broker in delta.brokers] == [1]
    assert [str(key) for key in delta.partitions] == ["t-0", "t-1", "t-2"]
    states = [*(world.state(partition=partition) for partition in range(3)), world.state("other")]
    assert [(state.leader, state.isr) for state in states] == [(2, (2, 3)), (2, (2, 3)), (3, (3, 2)), (3, (3, 2))]
    # Only an election makes a new leader epoch; every change makes a new partition epoch.
    assert [(state.leader_epoch, state.partition_epoch) for state in states] == [(1, 1), (0, 1), (1, 1), (0, 0)]


def test_the_last_member_of_an_isr_stays_when_it_is_fenced_and_the_partition_has_no_leader() -> None:
    world = three_brokers()
    for broker in (3, 2, 1):
        world.fence(broker)
    state = world.state()
    assert (state.leader, state.isr, state.leader_epoch) == (NO_LEADER, (1,), 1)
    world.unfence(2)
    assert world.state() == state, "broker 2 may lack what was acknowledged"
    world.unfence(1)
    assert (world.state().leader, world.state().isr, world.state().leader_epoch) == (1, (1,), 2)


def test_a_broker_that_is_fenced_and_has_no_copies_can_be_forgotten_with_its_settings() -> None:
    world = three_brokers()
    world.start(4)
    assert world.configure(ResourceKind.BROKER, "4", "log.cleaner.backoff.ms", "1") is KafkaErrorCode.NONE
    world.fence(3)
    for broker, error, why in (
        (9, KafkaErrorCode.BROKER_ID_NOT_REGISTERED, "not currently registered"),
        (4, KafkaErrorCode.INVALID_REQUEST, "stop it first"),
        (3, KafkaErrorCode.INVALID_REQUEST, "copies of 1 partitions"),
    ):
        refused = world.do(UnregisterBroker(broker), Acknowledged)
        assert refused.error is error
        assert why in refused.message
    world.fence(4)
    world.machine.drain_changes()
    assert world.do(UnregisterBroker(4), Acknowledged) == Acknowledged()
    (delta,) = world.machine.drain_changes()
    assert delta.brokers_removed == (4,)
    assert sorted(world.machine.image.brokers) == [1, 2, 3]
    assert world.machine.image.broker_configs == {}
    restored = MetadataMachine()
    restored.restore(world.machine.snapshot())
    assert sorted(restored.image.brokers) == [1, 2, 3]
    world.start(4)
    assert world.machine.image.brokers[4].active


def test_fencing_or_unfencing_twice_changes_nothing() -> None:
    world = three_brokers()
    for act in (world.unfence, world.fence, world.fence):
        act(2)
    assert len(world.machine.drain_changes()) == 1
    world.unfence(2)
    world.unfence(2)
    assert len(world.machine.drain_changes()) == 1
    assert world.state().isr == (1, 3), "it joins only when the leader asks for it"


def test_a_broker_that_shuts_down_gives_up_leaderships_and_isrs_but_is_not_fenced() -> None:
    world = three_brokers()
    world.create("alone", (1,))
    world.shut_down(1)
    registration = world.machine.image.brokers[1]
    assert (registration.fenced, registration.shutting_down, registration.active) == (False, True, False)
    assert (world.state().leader, world.state().isr) == (2, (2, 3))
    assert (world.state("alone").leader, world.state("alone").isr) == (NO_LEADER, (1,))
    assert world.machine.image.leaderships(1) == 0


def test_a_broker_that_shuts_down_is_not_unfenced_again_but_its_next_process_is() -> None:
    world = three_brokers()
    world.shut_down(1)
    assert world.do(UnfenceBroker(1, world.epoch(1))).error is KafkaErrorCode.INVALID_REQUEST
    world.fence(1)
    assert world.do(UnfenceBroker(1, world.epoch(1))).error is KafkaErrorCode.INVALID_REQUEST
    world.register(1)
    world.unfence(1)
    assert world.machine.image.brokers[1].active


def test_the_last_member_that_comes_back_as_another_process_leads_again() -> None:
    # Without eligible leader replicas Kafka cannot tell that the new process may have lost its disk (KIP-966).
    world = three_brokers((1, 2))
    world.fence(2)
    world.fence(1)
    world.register(1)
    assert (world.state().leader, world.state().isr) == (NO_LEADER, (1,))
    world.unfence(1)
    assert (world.state().leader, world.state().isr) == (1, (1,))


def test_blocks_of_producer_ids_never_overlap_and_need_the_epoch_of_the_process() -> None:
    world = three_brokers()
    blocks = [world.do(AllocateProducerIds(b, world.epoch(b)), ProducerIdsAllocated) for b in (1, 2, 1)]
    assert [(block.first, block.count) for block in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]
    refused = world.do(AllocateProducerIds(1, world.epoch(1) - 1), ProducerIdsAllocated)
    assert (refused.error, refused.count) == (KafkaErrorCode.STALE_BROKER_EPOCH, 0)
    assert world.machine.image.next_producer_id == 3000

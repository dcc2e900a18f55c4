"""Creating, growing and deleting topics, and what is set for them."""

import pytest

from kafka_compat.controller.commands import (
    AlterConfigs,
    ConfigsAltered,
    ConfigSetting,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PartitionsCreated,
    ResourceChange,
    ResourceKind,
    ResourceName,
    TopicGrown,
    TopicReference,
    TopicsCreated,
    TopicsDeleted,
)
from kafka_compat.controller.topics import PARTITIONS_PER_COMMAND_MAX
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World, three_brokers, uuid

NONE = KafkaErrorCode.NONE


def create(world: World, *topics: NewTopic, validate_only: bool = False) -> list[str]:
    result = world.do(CreateTopics(topics, 3, validate_only), TopicsCreated)
    assert all(bool(topic.message) == (topic.error is not NONE) for topic in result.topics)
    return [topic.error.name for topic in result.topics]


def grow(world: World, *topics: MorePartitions, validate_only: bool = False) -> list[str]:
    result = world.do(CreatePartitions(topics, 3, validate_only), PartitionsCreated)
    return [topic.error.name for topic in result.topics]


def test_a_topic_is_placed_on_active_brokers_with_the_first_as_leader_and_all_in_sync() -> None:
    world = three_brokers()
    topic = NewTopic("new", uuid(77), 6, 2, configs=(("retention.ms", "5"),))
    (created,) = world.do(CreateTopics((topic,), 5), TopicsCreated).topics
    assert (created.partitions, created.replication_factor, created.topic_id) == (6, 2, uuid(77))
    image = world.machine.image
    assert image.topics["new"] is image.topics_by_id[uuid(77)]
    assert image.topics["new"].configs == {"retention.ms": "5"}
    for state in image.topics["new"].partitions:
        assert state.isr == state.replicas
        assert (state.leader, state.leader_epoch, state.partition_epoch) == (state.replicas[0], 0, 0)
        assert (state.topic_id, state.recovering) == (uuid(77), False)
    (delta,) = world.machine.drain_changes()
    assert [topic.name for topic in delta.topics_created] == ["new"]
    assert [str(key) for key in delta.partitions] == [f"new-{partition}" for partition in range(6)]


def test_a_fenced_replica_of_a_new_partition_neither_leads_nor_is_in_sync() -> None:
    world = three_brokers()
    world.fence(1)
    world.shut_down(3)
    world.create("new", (1, 3, 2))
    assert (world.state("new").replicas, world.state("new").isr, world.state("new").leader) == ((1, 3, 2), (2,), 2)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", "INVALID_TOPIC_EXCEPTION"),
        (".", "INVALID_TOPIC_EXCEPTION"),
        ("..", "INVALID_TOPIC_EXCEPTION"),
        ("a b", "INVALID_TOPIC_EXCEPTION"),
        ("a\n", "INVALID_TOPIC_EXCEPTION"),
        ("é", "INVALID_TOPIC_EXCEPTION"),
        ("x" * 250, "INVALID_TOPIC_EXCEPTION"),
        ("y" * 30_000, "INVALID_TOPIC_EXCEPTION"),
        ("t", "TOPIC_ALREADY_EXISTS"),
        ("a.b_c", "INVALID_TOPIC_EXCEPTION"),  # a_b.c is there
        ("x" * 249, "NONE"),
        ("...", "NONE"),
        ("__consumer_offsets", "NONE"),
        ("A-z_0.9", "NONE"),
    ],
)
def test_names_of_topics(name: str, error: str) -> None:
    world = three_brokers()
    world.create("a_b.c", (1,))
    assert create(world, NewTopic(name, uuid(50), 1, 1)) == [error]


def test_a_name_that_collided_is_free_once_the_other_topic_is_deleted() -> None:
    world = three_brokers()
    world.create("a_b", (1,))
    assert create(world, NewTopic("a.b", uuid(50), 1, 1)) == ["INVALID_TOPIC_EXCEPTION"]
    world.do(DeleteTopics((TopicReference("a_b"),)), TopicsDeleted)
    assert create(world, NewTopic("a.b", uuid(50), 1, 1)) == ["NONE"]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("n", uuid(9), 0, 1), "INVALID_PARTITIONS"),
        (NewTopic("n", uuid(9), -1, 1), "INVALID_PARTITIONS"),
        (NewTopic("n", uuid(9), 1, 0), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("n", uuid(9), 1, 4), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("n", uuid(9), 10_001, 1), "POLICY_VIOLATION"),
        (NewTopic("n", uuid(0), 1, 1), "INVALID_REQUEST"),
        (NewTopic("n", uuid(1), 1, 1), "INVALID_REQUEST"),  # the id of t
        (NewTopic("n", uuid(9), 1, -1, ((0, (1,)),)), "INVALID_REQUEST"),
        (NewTopic("n", uuid(9), -1, 1, ((0, (1,)),)), "INVALID_REQUEST"),
        (NewTopic("n", uuid(9), assignment=((0, ()),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("n", uuid(9), assignment=((0, (1, 1)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("n", uuid(9), assignment=((0, (1, 7)),)), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("n", uuid(9), assignment=((0, (1,)), (1, (1, 2)))), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("n", uuid(9), assignment=((0, (1,)), (2, (2,)))), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("n", uuid(9), assignment=((0, (1,)), (0, (2,)))), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("n", uuid(9), assignment=((1, (1,)), (0, (2,)))), "NONE"),
    ],
)
def test_a_topic_that_cannot_be_created_is_refused_with(topic: NewTopic, error: str) -> None:
    world = three_brokers()
    before = dict(world.machine.image.topics)
    assert create(world, topic) == [error]
    assert (world.machine.image.topics == before) == (error != "NONE")


def test_an_assignment_needs_an_active_broker_in_each_partition() -> None:
    world = three_brokers()
    world.fence(1)
    assert world.create("n", (2,), (1,)).error is KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT
    world.fence(2)
    world.fence(3)
    assert create(world, NewTopic("n", uuid(9), 1, 1)) == ["INVALID_REPLICATION_FACTOR"]


def test_a_command_creates_at_most_so_many_partitions_with_all_its_topics() -> None:
    world = three_brokers()
    half = PARTITIONS_PER_COMMAND_MAX // 2
    topics = [NewTopic("a", uuid(7), half, 1), NewTopic("b", uuid(8), half + 1, 1), NewTopic("c", uuid(9), half, 1)]
    assert create(world, *topics) == ["NONE", "POLICY_VIOLATION", "NONE"]
    assert grow(world, MorePartitions("t", PARTITIONS_PER_COMMAND_MAX + 2)) == ["POLICY_VIOLATION"]


def test_a_name_that_comes_twice_in_a_command_is_refused_once() -> None:
    world = three_brokers()
    topics = (NewTopic("a", uuid(7), 1, 1), NewTopic("b", uuid(8), 1, 1), NewTopic("a", uuid(9), 1, 1))
    assert create(world, *topics) == ["INVALID_REQUEST", "NONE"]
    assert grow(world, MorePartitions("b", 2), MorePartitions("b", 3)) == ["INVALID_REQUEST"]
    assert sorted(world.machine.image.topics) == ["b", "t"]


def test_validation_alone_changes_nothing() -> None:
    world = three_brokers()
    topics = (NewTopic("a", uuid(7), 2, 2), NewTopic("t", uuid(8), 1, 1))
    assert create(world, *topics, validate_only=True) == ["NONE", "TOPIC_ALREADY_EXISTS"]
    assert grow(world, MorePartitions("t", 2), validate_only=True) == ["NONE"]
    change = ResourceChange(ResourceName(ResourceKind.TOPIC, "t"), (ConfigSetting("retention.ms", "5"),))
    assert world.do(AlterConfigs((change,), validate_only=True), ConfigsAltered).resources[0].error is NONE
    assert world.machine.drain_changes() == []
    assert (sorted(world.machine.image.topics), len(world.machine.image.topics["t"].partitions)) == (["t"], 1)
    assert world.machine.image.topics["t"].configs == {}


def test_the_topics_of_a_command_do_not_all_begin_on_one_broker() -> None:
    world = three_brokers()
    create(world, *(NewTopic(f"n{number}", uuid(100 + number), 1, 1) for number in range(30)))
    assert {topic.partitions[0].leader for topic in world.machine.image.topics.values()} == {1, 2, 3}


def test_a_topic_is_deleted_by_name_or_by_id_and_leaves_nothing() -> None:
    world = World()
    world.start(1, 2)
    before = world.machine.snapshot()
    world.create("a", (1, 2), (2, 1))
    world.create("b", (1, 2))
    a, b = world.machine.image.topics["a"].topic_id, world.machine.image.topics["b"].topic_id
    world.machine.drain_changes()
    references = (TopicReference("a"), TopicReference(topic_id=b), TopicReference(topic_id=a), TopicReference("a"))
    result = world.do(DeleteTopics((*references, TopicReference(), TopicReference("t", b))), TopicsDeleted)
    assert [topic.error.name for topic in result.topics] == [
        "NONE",
        "NONE",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    assert [(topic.name, topic.topic_id) for topic in result.topics[:2]] == [("a", a), ("b", b)]
    (delta,) = world.machine.drain_changes()
    assert [topic.name for topic in delta.topics_deleted] == ["a", "b"]
    assert (delta.topics_deleted[0].topic_id, delta.partitions) == (a, {})
    image = world.machine.image
    assert (image.leaderships(1), image.with_member(1), image.leaderless()) == (0, [], [])
    image.index -= 3
    assert world.machine.snapshot() == before


def test_a_topic_created_again_has_another_id_and_begins_again() -> None:
    world = three_brokers()
    world.fence(1)
    old = world.state()
    world.do(DeleteTopics((TopicReference("t"),)), TopicsDeleted)
    world.create("t", (2, 3))
    assert world.state().topic_id != old.topic_id
    assert (world.state().leader_epoch, world.state().partition_epoch) == (0, 0)


def test_a_topic_grows_by_placed_or_assigned_partitions() -> None:
    world = three_brokers((1, 2))
    assert grow(world, MorePartitions("t", 3)) == ["NONE"]
    states = world.machine.image.topics["t"].partitions
    assert [len(state.replicas) for state in states] == [2, 2, 2]
    (delta,) = world.machine.drain_changes()
    assert [str(key) for key in delta.partitions] == ["t-1", "t-2"]
    assert delta.topics_created == ()
    assert grow(world, MorePartitions("t", 5, ((3, 1), (2, 3)))) == ["NONE"]
    assert [state.replicas for state in states[3:]] == [(3, 1), (2, 3)]
    assert world.machine.image.with_member(3).count(next(iter(delta.partitions))) <= 1


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (MorePartitions("nowhere", 3), "UNKNOWN_TOPIC_OR_PARTITION"),
        (MorePartitions("t", 2), "INVALID_PARTITIONS"),
        (MorePartitions("t", 1), "INVALID_PARTITIONS"),
        (MorePartitions("t", -1), "INVALID_PARTITIONS"),
        (MorePartitions("t", 4, ((1, 2),)), "INVALID_REPLICA_ASSIGNMENT"),
        (MorePartitions("t", 3, ()), "INVALID_REPLICA_ASSIGNMENT"),
        (MorePartitions("t", 3, ((1,),)), "INVALID_REPLICA_ASSIGNMENT"),
        (MorePartitions("t", 3, ((1, 1),)), "INVALID_REPLICA_ASSIGNMENT"),
        (MorePartitions("t", 3, ((1, 9),)), "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_a_topic_that_cannot_grow_is_refused_with(wanted: MorePartitions, error: str) -> None:
    world = three_brokers((1, 2), (2, 3))
    result = world.do(CreatePartitions((wanted,)), PartitionsCreated)
    assert [topic.error.name for topic in result.topics] == [error]
    assert result.topics[0].message
    assert len(world.machine.image.topics["t"].partitions) == 2


def test_one_refused_topic_does_not_keep_another_from_growing() -> None:
    world = three_brokers()
    result = world.do(CreatePartitions((MorePartitions("x", 2), MorePartitions("t", 2))), PartitionsCreated)
    assert (result.topics[0].error, result.topics[1]) == (KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TopicGrown("t"))


# -------------------------------------------------------------------- configs

TOPIC, BROKER = ResourceKind.TOPIC, ResourceKind.BROKER
UNCLEAN = "unclean.leader.election.enable"


def test_configs_are_set_and_deleted_one_by_one_for_topics_brokers_and_all_brokers() -> None:
    world = three_brokers(retention_ms="7")
    image = world.machine.image
    for kind, name in ((TOPIC, "t"), (BROKER, "2"), (BROKER, "")):
        resource = ResourceName(kind, name)
        assert world.configure(kind, name, "min.insync.replicas", "1") is NONE
        assert world.configure(kind, name, UNCLEAN, "false") is NONE
        assert world.configure(kind, name, "min.insync.replicas", None) is NONE
        assert world.configure(kind, name, "unset", None) is NONE
        assert dict(image.configs_of(resource)) == {
            **({"retention.ms": "7"} if kind is TOPIC else {}),
            UNCLEAN: "false",
        }
        assert [delta.configs for delta in world.machine.drain_changes()] == [(resource,)] * 3
    assert (image.broker_configs, image.cluster_configs) == ({2: {UNCLEAN: "false"}}, {UNCLEAN: "false"})
    world.configure(BROKER, "2", UNCLEAN, None)
    assert image.broker_configs == {}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nowhere", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "", "UNKNOWN_TOPIC_OR_PARTITION"),
        (BROKER, "4", "BROKER_ID_NOT_REGISTERED"),
        (BROKER, "x", "INVALID_REQUEST"),
        (BROKER, "-1", "INVALID_REQUEST"),
        (BROKER, "01", "INVALID_REQUEST"),
        (BROKER, "1" * 5000, "INVALID_REQUEST"),
        (BROKER, "٣", "INVALID_REQUEST"),
    ],
)
def test_configs_of_what_does_not_exist_are_refused_with(kind: ResourceKind, name: str, error: str) -> None:
    world = three_brokers()
    assert world.configure(kind, name, "min.insync.replicas", "1").name == error
    assert world.machine.drain_changes() == []
    assert world.machine.image.configs_of(ResourceName(kind, name)) == {}


def test_replaced_settings_are_all_that_a_topic_has() -> None:
    world = three_brokers(**{"retention.ms": "1000", "segment.bytes": "2000000"})
    resource = ResourceName(ResourceKind.TOPIC, "t")
    change = ResourceChange(resource, (ConfigSetting("retention.ms", "2000"),))
    world.do(AlterConfigs((change,), validate_only=True, replaces=True), ConfigsAltered)
    assert len(world.machine.image.configs_of(resource)) == 2
    assert world.do(AlterConfigs((change,), replaces=True), ConfigsAltered).resources[0].error is NONE
    assert world.machine.image.configs_of(resource) == {"retention.ms": "2000"}

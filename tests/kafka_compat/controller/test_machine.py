"""The machine as raft sees it: bytes in and out, snapshots, and the report of changes."""

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_compat.acls import ACLS_MAX, Acl, AclFilter, PatternType, Permission, ResourceType
from kafka_compat.controller import commands as c
from kafka_compat.controller.acl_commands import OPEN_FILTERS_MAX
from kafka_compat.controller.machine import DELTAS_MAX, MetadataMachine
from kafka_compat.model import LogEnd, PartitionState, ScramCredential, ScramMechanism, TopicPartition
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.errors import InvalidRequest
from raft.state_machine import SnapshotMachine
from tests.examples import examples
from tests.kafka_compat.controller.world import World, three_brokers, uuid

STATE = PartitionState(uuid(3), (1, 2), (1,), 1, 4, 5, True)
ENDS = (LogEnd(1, 2**62, -1, 0), LogEnd(2, 7, 4, 2**40))
ACL = Acl(ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:alice", "*", AclOperation.READ, Permission.ALLOW)
ANY_ACL = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY)
COMMANDS: list[c.Command] = [
    c.RegisterBroker(1, uuid(2), "host", 9092, "rack", True),
    c.RegisterBroker(2**31 - 1, uuid(2**127), "", 0),
    c.UnfenceBroker(1, 2, True),
    c.FenceBroker(1, 2**62),
    c.FenceBroker(1, 2, True, True),
    c.RegisterBroker(1, uuid(2), "host", 9092, eligible=True),
    c.ReportLogs(1, 2, (c.LogReport(uuid(3), 0, -1, True, -1, 0), c.LogReport(uuid(3), 1, 5, False, 4, 2**40)), True),
    c.BeginShutdown(0, 0),
    c.AllocateProducerIds(1, 2),
    c.AlterPartition(1, 2, (c.IsrChange(uuid(3), 0, 4, 5, (c.ProposedMember(1, 6), c.ProposedMember(2)), True),)),
    c.AlterPartition(1, 2, (c.IsrChange(uuid(3), 0, 4, 5, (c.ProposedMember(1, 6),), keeps_eligible=True),)),
    c.ElectLeaders(c.ElectionType.PREFERRED, (TopicPartition("t", 0),)),
    c.ElectLeaders(c.ElectionType.UNCLEAN),
    c.CreateTopics((c.NewTopic("t", uuid(1), 3, 2, configs=(("a", "b"),)),), 2**62, True),
    c.CreateTopics((c.NewTopic("t", uuid(1), assignment=((0, (1, 2)),)),)),
    c.DeleteTopics((c.TopicReference("t"), c.TopicReference(topic_id=uuid(1)))),
    c.CreatePartitions((c.MorePartitions("t", 4), c.MorePartitions("u", 4, ((1,), (2,))))),
    c.AlterConfigs(
        (
            c.ResourceChange(
                c.ResourceName(c.ResourceKind.BROKER, ""), (c.ConfigSetting("a", None), c.ConfigSetting("b", "c"))
            ),
        )
    ),
    c.AlterCredentials(
        (
            c.CredentialChange("u", ScramMechanism.SCRAM_SHA_256),
            c.CredentialChange("u", ScramMechanism.SCRAM_SHA_512, ScramCredential(b"s", b"k", b"v", 4096)),
        )
    ),
]
COMMANDS += [c.AlterReassignments((c.Reassignment("t", 0, (4, 2, 3)), c.Reassignment("t", 1, None)), False)]
COMMANDS += [c.UnregisterBroker(3)]
COMMANDS += [c.CreateAcls((ACL,)), c.DeleteAcls((ANY_ACL, evolve(ANY_ACL, principal="User:alice", name="t")))]
RESULTS: list[c.CommandResult] = [
    c.AclsCreated((c.AclCreated(), c.AclCreated(KafkaErrorCode.INVALID_REQUEST, "no"))),
    c.AclsDeleted((c.AclsMatched((ACL,)), c.AclsMatched(error=KafkaErrorCode.INVALID_REQUEST, message="no"))),
    c.ReassignmentsAltered(
        (c.PartitionReassigned("t", 0), c.PartitionReassigned("t", 1, KafkaErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no"))
    ),
    c.PartitionsAltered(
        (
            c.PartitionAltered(
                uuid(3),
                0,
                KafkaErrorCode.NONE,
                "",
                PartitionState(uuid(3), (4, 2, 1), (1, 2), 1, 4, 5, adding=(4,), removing=(1,)),
            ),
        )
    ),
    c.Registered(7),
    c.Registered(error=KafkaErrorCode.DUPLICATE_BROKER_REGISTRATION, message="no"),
    c.Acknowledged(KafkaErrorCode.STALE_BROKER_EPOCH, "old"),
    c.ProducerIdsAllocated(1000, 1000),
    c.PartitionsAltered((c.PartitionAltered(uuid(3), 0, KafkaErrorCode.NONE, "", STATE),)),
    c.PartitionsAltered(
        (
            c.PartitionAltered(
                uuid(3),
                0,
                KafkaErrorCode.NONE,
                "",
                PartitionState(uuid(3), (1, 2), (), -1, 4, 5, False, (), (2,), ENDS),
            ),
        )
    ),
    c.PartitionsAltered((c.PartitionAltered(uuid(3), 0, KafkaErrorCode.UNKNOWN_TOPIC_ID, "?", None),)),
    c.LeadersElected((c.PartitionElected("t", 0, KafkaErrorCode.ELECTION_NOT_NEEDED, "it leads"),)),
    c.TopicsCreated((c.TopicCreated("t", uuid(1), 3, 2),)),
    c.TopicsDeleted((c.TopicDeleted(None, uuid(1), KafkaErrorCode.UNKNOWN_TOPIC_ID, "?"), c.TopicDeleted("t", None))),
    c.PartitionsCreated((c.TopicGrown("t"),)),
    c.ConfigsAltered((c.ResourceAltered(c.ResourceName(c.ResourceKind.TOPIC, "t")),)),
    c.CredentialsAltered((c.UserAltered("u"), c.UserAltered("v", KafkaErrorCode.RESOURCE_NOT_FOUND, "?"))),
]


def name_each(values: Sequence[object]) -> list[str]:
    return [f"{type(value).__name__}-{number}" for number, value in enumerate(values)]


@pytest.mark.parametrize("command", COMMANDS, ids=name_each(COMMANDS))
def test_a_command_is_the_same_after_its_bytes(command: c.Command) -> None:
    encoded = c.encode_command(command)
    assert encoded[0] == 1
    assert c.decode_command(encoded) == command


@pytest.mark.parametrize("result", RESULTS, ids=name_each(RESULTS))
def test_a_result_is_the_same_after_its_bytes(result: c.CommandResult) -> None:
    encoded = c.encode_result(result)
    assert encoded[0] == 1
    assert c.decode_result(encoded) == result


def test_every_kind_of_command_and_result_has_an_example_here() -> None:
    assert {type(command) for command in COMMANDS} == set(c.Command.__args__)
    assert {type(result) for result in RESULTS} == set(c.CommandResult.__args__)


def test_the_bytes_of_commands_and_results_never_change() -> None:
    # They are in logs: a later release has to read them.
    assert c.encode_command(COMMANDS[3]).hex() == "0192039301cf4000000000000000c2"
    assert c.encode_command(c.ElectLeaders(c.ElectionType.UNCLEAN)).hex() == "0192079201c0"
    assert c.encode_command(c.FenceBroker(1, 2, False, True)).hex() == "019203940102c2c3"
    report = c.ReportLogs(1, 2, (c.LogReport(uuid(3), 1, 6, True, 4, 5),))
    assert c.encode_command(report).hex() == f"01920c9401029196c410{uuid(3).hex()}0106c30405c2"
    assert c.encode_result(c.Registered(7)).hex() == "019201930700a0"
    assert c.encode_command(c.CreateAcls((ACL,))).hex() == "01920e91919702a17404aa557365723a616c696365a12a0303"
    assert c.encode_command(c.DeleteAcls((ANY_ACL,))).hex() == "01920f91919701c001c0c00101"


def test_a_long_message_is_cut_and_its_result_stays_readable() -> None:
    cut = c.decode_result(c.encode_result(c.Acknowledged(KafkaErrorCode.INVALID_REQUEST, "x" * 100_000)))
    assert cut == c.Acknowledged(KafkaErrorCode.INVALID_REQUEST, "x" * c.MESSAGE_MAX)


def pack(*value: Any) -> bytes:
    return b"\x01" + bytes(msgpack.packb(value))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "version"),
        (b"\x02\x90", "version 2"),
        (b"\x01", "msgpack"),
        (b"\x01\xc1", "msgpack"),
        (pack(3, (1, 2, False)) + b"\x00", "msgpack"),
        (pack(99, ()), "unknown number 99"),
        (pack(3, (1, 2)), "array of 3"),
        (pack(3, 5), "array of 3"),
        (pack(True, (1, 2, False)), "a number and an array"),
        (pack(3, (True, 2, False)), "FenceBroker.broker"),
        (pack(3, (-1, 2, False)), "FenceBroker.broker"),
        (pack(3, (1, 2**62 + 1, False)), "FenceBroker.epoch"),
        (pack(3, (1, 2, 0)), "FenceBroker.unclean_default"),
        (pack(3, (1, 2.0, False)), "FenceBroker.epoch"),
        (pack(1, (1, b"short", "h", 1, None, False)), "RegisterBroker.incarnation"),
        (pack(1, (1, bytes(16), "h" * 40_000, 1, None, False)), "RegisterBroker.host"),
        (pack(1, (1, bytes(16), "h", 65_536, None, False)), "RegisterBroker.port"),
        (pack(7, (2, None)), "ElectionType"),
        (pack(7, (0, (("t",),))), "TopicPartition"),
        (pack(8, ({}, 0, False)), "array"),
        (pack(8, ({1: 2}, 0, False)), "msgpack"),
        (b"\x01\x92\x08\x93\xdd\xff\xff\xff\xff", "msgpack"),
    ],
)
def test_what_is_no_command_is_refused_with_a_reason(data: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        MetadataMachine().check(data, read_only=False)


@settings(max_examples=examples(120), deadline=None)
@given(st.sampled_from(COMMANDS), st.integers(0, 200), st.integers(0, 255), st.booleans())
def test_damaged_bytes_are_refused_or_another_command_and_never_anything_else(
    command: c.Command, at: int, byte: int, cut: bool
) -> None:
    data = bytearray(c.encode_command(command))
    at %= len(data)
    if cut:
        del data[at:]
    else:
        data[at] = byte
    try:
        other = c.decode_command(bytes(data))
    except InvalidRequest:
        return
    assert c.decode_command(c.encode_command(other)) == other
    World().apply(bytes(data))


def test_the_machine_is_one_that_raft_can_take_snapshots_of() -> None:
    assert isinstance(MetadataMachine(), SnapshotMachine)


def test_queries_and_commands_are_told_apart() -> None:
    world = three_brokers()
    query = c.encode_query(c.MetadataQuery.APPLIED_INDEX)
    world.machine.check(query, read_only=True)
    assert world.machine.query(query) == str(world.index).encode()
    assert world.machine.query(c.encode_query(c.MetadataQuery.SNAPSHOT)) == world.machine.snapshot()
    with pytest.raises(InvalidRequest):
        world.machine.check(query, read_only=False)
    with pytest.raises(InvalidRequest):
        world.machine.check(c.encode_command(COMMANDS[0]), read_only=True)
    with pytest.raises(InvalidRequest, match="MetadataQuery"):
        world.machine.query(b"\x01\x05")


def busy_world() -> World:
    world = three_brokers((1, 2, 3), (2, 3, 1), retention_ms="7")
    world.create("other", (1,), unclean_leader_election_enable="true")
    world.configure(c.ResourceKind.BROKER, "2", "a", "1")
    world.configure(c.ResourceKind.BROKER, "", "b", "2")
    world.do(c.AllocateProducerIds(2, world.epoch(2)), c.ProducerIdsAllocated)
    world.fence(1)
    world.shut_down(3)
    world.register(4, "rack")
    return world


def facts(world: World) -> list[object]:
    image = world.machine.image
    of_brokers = [(image.with_member(broker), image.leaderships(broker)) for broker in range(1, 5)]
    configs = [image.cluster_configs, image.broker_configs]
    ids = [image.topics_by_id[topic.topic_id] is topic for topic in image.topics.values()]
    lists = [image.leaderless(), image.not_preferred(), image.balanceable()]
    return [image.index, image.next_producer_id, image.brokers, image.topics, ids, of_brokers, *lists, *configs]


def test_a_machine_restored_from_a_snapshot_goes_on_like_the_one_it_came_from() -> None:
    world = busy_world()
    other = three_brokers()
    other.machine.drain_changes()
    image = other.machine.image
    other.machine.restore(world.machine.snapshot())
    other.index = world.index
    assert other.machine.image is image, "readers hold it"
    assert facts(other) == facts(world)
    assert other.machine.snapshot() == world.machine.snapshot()
    (delta,) = other.machine.drain_changes()
    assert (delta.index, delta.everything, delta.partitions) == (world.index, True, {})
    world.machine.drain_changes()
    for cluster in (world, other):
        cluster.unfence(1)
        cluster.fence(2)
        cluster.do(c.DeleteTopics((c.TopicReference("other"),)), c.TopicsDeleted)
    assert other.machine.drain_changes() == world.machine.drain_changes()
    assert other.machine.snapshot() == world.machine.snapshot()


def test_what_is_no_snapshot_is_refused_and_changes_nothing() -> None:
    world = busy_world()
    snapshot = world.machine.snapshot()
    value: list[Any] = msgpack.unpackb(snapshot[1:])
    twice = [*value[:3], value[3] * 2, *value[4:]]
    name, topic_id, partitions, configs = value[3][0]
    empty = [*value[:3], [[name, topic_id, [[[], *partitions[0][1:]]], configs]], *value[4:]]
    world.machine.drain_changes()
    for damaged in (b"", snapshot[:-1], b"\x02" + snapshot[1:], pack(*twice), pack(*empty)):
        with pytest.raises(InvalidRequest, match="snapshot"):
            world.machine.restore(damaged)
    assert world.machine.snapshot() == snapshot
    assert world.machine.drain_changes() == []


def test_equal_clusters_have_equal_snapshots_whatever_the_order_of_what_was_done() -> None:
    def build(order: tuple[str, str]) -> World:
        world = World()
        for broker in (1, 2):
            world.register(broker, incarnation=broker)
        for broker in (1, 2):
            world.unfence(broker)
        for name in order:
            topic = c.NewTopic(name, uuid(ord(name)), assignment=((0, (1, 2)),))
            world.do(c.CreateTopics((topic,)), c.TopicsCreated)
        for name in order:
            world.configure(c.ResourceKind.BROKER, "", name, "1")
        return world

    assert build(("a", "b")).machine.snapshot() == build(("b", "a")).machine.snapshot()


def test_a_command_that_has_no_effect_reports_no_change_but_moves_the_index() -> None:
    world = three_brokers()
    refused = world.do(c.FenceBroker(1, 999), c.Acknowledged)
    assert refused.error is KafkaErrorCode.STALE_BROKER_EPOCH
    assert world.machine.drain_changes() == []
    assert world.machine.image.index == world.index


def test_changes_that_are_never_fetched_come_down_to_one_that_stands_for_everything() -> None:
    world = three_brokers()
    for number in range(DELTAS_MAX + 3):
        world.configure(c.ResourceKind.BROKER, "", "message.max.bytes", str(number + 1))
    deltas = world.machine.drain_changes()
    assert [delta.everything for delta in deltas] == [True, False, False]
    assert deltas[-1].index == world.index


BAD_SETTINGS = [
    ("segment.bytes", "garbage"),
    ("min.insync.replicas", "-1"),
    ("min.insync.replicas", "9" * 5000),
    ("retention.ms", ""),
    ("cleanup.policy", "shrink"),
    ("no.such.setting", "1"),
    ("unclean.leader.election.enable", "perhaps"),
]


@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS)
def test_a_setting_that_no_broker_could_honour_is_refused_as_it_is_applied(name: str, value: str) -> None:
    world = three_brokers()
    before = world.machine.snapshot()
    for kind, resource in ((c.ResourceKind.TOPIC, "t"), (c.ResourceKind.BROKER, ""), (c.ResourceKind.BROKER, "1")):
        assert world.configure(kind, resource, name, value) is KafkaErrorCode.INVALID_CONFIG
    topic = c.NewTopic("new", uuid(77), 1, 1, configs=((name, value),))
    (created,) = world.do(c.CreateTopics((topic,)), c.TopicsCreated).topics
    assert created.error is KafkaErrorCode.INVALID_CONFIG
    world.machine.image.index -= 4  # the snapshot names the index of the last command
    assert world.machine.snapshot() == before


IDS = st.sampled_from([uuid(0), uuid(1), uuid(2), uuid(100), bytes(16)])
BROKER_IDS = st.sampled_from([0, 1, 2, 3, 9, 2**31 - 1])
EPOCHS = st.sampled_from([-1, 0, 1, 2, 3, 4, 2**62])
COUNTS = st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 10_001, 2**31 - 1])
NAMES = st.sampled_from(["t", "u", "", ".", "t.u", "t_u", "x" * 300, "__consumer_offsets", "é"])
REPLICAS = st.lists(BROKER_IDS, max_size=4).map(tuple)
SETTINGS = st.tuples(
    st.sampled_from([name for name, _ in BAD_SETTINGS]), st.sampled_from([value for _, value in BAD_SETTINGS])
)
FLAGS = st.booleans()
RESOURCES = st.builds(
    c.ResourceName, st.sampled_from(list(c.ResourceKind)), st.sampled_from(["", "t", "u", "1", "9", "01", "-1"])
)
CHANGES = st.builds(
    c.IsrChange,
    IDS,
    COUNTS,
    COUNTS,
    COUNTS,
    st.lists(st.builds(c.ProposedMember, BROKER_IDS, EPOCHS), max_size=4).map(tuple),
    FLAGS,
)
NEW_TOPICS = st.builds(
    c.NewTopic,
    NAMES,
    IDS,
    COUNTS,
    COUNTS,
    st.lists(st.tuples(COUNTS, REPLICAS), max_size=3).map(tuple),
    st.lists(SETTINGS, max_size=2).map(tuple),
)
ABSURD = st.one_of(
    st.builds(c.RegisterBroker, BROKER_IDS, IDS, NAMES, st.integers(0, 65_535), st.none() | NAMES, FLAGS),
    st.builds(c.UnfenceBroker, BROKER_IDS, EPOCHS, FLAGS),
    st.builds(c.FenceBroker, BROKER_IDS, EPOCHS, FLAGS),
    st.builds(c.BeginShutdown, BROKER_IDS, EPOCHS, FLAGS),
    st.builds(c.AllocateProducerIds, BROKER_IDS, EPOCHS),
    st.builds(c.AlterPartition, BROKER_IDS, EPOCHS, st.lists(CHANGES, max_size=3).map(tuple)),
    st.builds(
        c.ElectLeaders,
        st.sampled_from(list(c.ElectionType)),
        st.none() | st.lists(st.builds(TopicPartition, NAMES, COUNTS), max_size=3).map(tuple),
    ),
    st.builds(c.CreateTopics, st.lists(NEW_TOPICS, max_size=3).map(tuple), st.integers(0, 9), FLAGS),
    st.builds(
        c.DeleteTopics, st.lists(st.builds(c.TopicReference, st.none() | NAMES, st.none() | IDS), max_size=3).map(tuple)
    ),
    st.builds(
        c.CreatePartitions,
        st.lists(
            st.builds(c.MorePartitions, NAMES, COUNTS, st.none() | st.lists(REPLICAS, max_size=3).map(tuple)),
            max_size=3,
        ).map(tuple),
        st.integers(0, 9),
        FLAGS,
    ),
    st.builds(
        c.AlterReassignments,
        st.lists(st.builds(c.Reassignment, NAMES, COUNTS, st.none() | REPLICAS), max_size=3).map(tuple),
        FLAGS,
    ),
    st.builds(
        c.AlterConfigs,
        st.lists(
            st.builds(
                c.ResourceChange,
                RESOURCES,
                st.lists(
                    st.builds(c.ConfigSetting, SETTINGS.map(lambda each: each[0]), st.none() | SETTINGS.map(str)),
                    max_size=2,
                ).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        FLAGS,
        FLAGS,
        FLAGS,
    ),
)


@settings(max_examples=examples(90), deadline=None)
@given(st.lists(ABSURD, max_size=12))
def test_applying_is_total_whatever_was_proposed(commands: list[c.Command]) -> None:
    # A command that raised would end every member as it applies it, and again at each start.
    world, other = three_brokers((1, 2), (2, 3)), three_brokers((1, 2), (2, 3))
    for index, command in enumerate(commands, start=100):
        encoded = c.encode_command(command)
        try:
            world.machine.check(encoded, read_only=False)
        except InvalidRequest:
            continue  # never proposed
        assert world.machine.apply(index, encoded) == other.machine.apply(index, encoded)
    assert world.machine.snapshot() == other.machine.snapshot()
    other.machine.restore(world.machine.snapshot())


def test_a_change_of_one_partition_reports_that_partition_alone() -> None:
    world = three_brokers((1, 2), (2, 3), (3, 1))
    world.alter(world.change(2, partition=1))
    (delta,) = world.machine.drain_changes()
    assert delta.partitions == {TopicPartition("t", 1): world.state(partition=1)}
    assert (delta.brokers, delta.topics_created, delta.topics_deleted, delta.configs) == ((), (), (), ())


# -------------------------------------------------------------------- access control lists


def delete(world: World, *filters: AclFilter) -> tuple[c.AclsMatched, ...]:
    return world.do(c.DeleteAcls(filters), c.AclsDeleted).results


def create(world: World, *acls: Acl) -> list[tuple[KafkaErrorCode, str]]:
    return [(each.error, each.message) for each in world.do(c.CreateAcls(acls), c.AclsCreated).results]


def test_acls_are_made_once_each_for_itself_and_deleted_by_filters() -> None:
    world = three_brokers()
    world.machine.drain_changes()
    wrong, other = evolve(ACL, principal="alice"), evolve(ACL, name="u")
    outcomes = create(world, ACL, wrong, ACL, other)
    assert [error for error, _ in outcomes] == [0, KafkaErrorCode.INVALID_REQUEST, 0, 0]
    assert world.machine.image.acls.all() == [ACL, other]
    assert [delta.acls for delta in world.machine.drain_changes()] == [True]
    create(world, ACL)
    assert world.machine.drain_changes() == [], "it was there"
    results = delete(world, evolve(ANY_ACL, name="t"), ANY_ACL, evolve(ANY_ACL, operation=AclOperation.UNKNOWN))
    assert [each.acls for each in results] == [(ACL,), (other,), ()]
    assert results[2].error is KafkaErrorCode.INVALID_REQUEST
    assert len(world.machine.image.acls) == 0


def test_acls_are_in_snapshots_and_a_snapshot_without_any_is_read() -> None:
    world, restored = three_brokers(), MetadataMachine()
    without = world.machine.snapshot()
    create(world, ACL, evolve(ACL, name="u"))
    table, version = restored.image.acls, restored.image.acls.version
    restored.restore(world.machine.snapshot())
    assert restored.image.acls is table
    assert table.all() == world.machine.image.acls.all()
    assert table.version > version
    assert restored.snapshot() == world.machine.snapshot()
    restored.restore(without)
    assert len(table) == 0
    assert restored.snapshot() == without


def test_the_number_of_acls_and_of_open_filters_is_bounded() -> None:
    world = World()
    acls = tuple(evolve(ACL, name=f"t{number}") for number in range(ACLS_MAX + 1))
    outcomes = create(world, *acls, ACL)
    assert [error for error, _ in outcomes[-3:]] == [
        0,
        KafkaErrorCode.POLICY_VIOLATION,
        KafkaErrorCode.POLICY_VIOLATION,
    ]
    assert create(world, acls[0]) == [(KafkaErrorCode.NONE, "")], "it exists"
    exact = AclFilter(ACL.kind, "t1", ACL.pattern, ACL.principal, ACL.host, ACL.operation, ACL.permission)
    found = delete(world, *[evolve(ANY_ACL, host="h")] * (OPEN_FILTERS_MAX + 1), exact)
    assert [each.error for each in found[-2:]] == [KafkaErrorCode.INVALID_REQUEST, KafkaErrorCode.NONE]
    assert found[-1].acls == (acls[1],)
    assert len(world.machine.image.acls) == ACLS_MAX - 1

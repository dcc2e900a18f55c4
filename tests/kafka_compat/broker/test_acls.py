"""A broker with an authorizer: ACLs over the wire, what they change at once, and what they cost where there are none."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from kafka_compat.acls import Acl, Authorizer, PatternType, Permission, ResourceType
from kafka_compat.broker.access import Refusals
from kafka_compat.broker.caller import Identity
from kafka_compat.broker.calls import ClientCall, GuardedCall
from kafka_compat.broker.guards.table import Guards, guard_handlers
from kafka_compat.config_keys import STANDARD_AUTHORIZER
from kafka_compat.protocol.api import RequestHeader
from kafka_compat.protocol.apis.acls import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchReplicaState, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.authorized import AclOperation
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import evolve
from raft.net.seldom import Seldom
from tests.kafka_compat.broker.cluster import Client, cluster
from tests.kafka_compat.broker.test_sasl import open_guarded
from tests.kafka_compat.broker.test_sasl import plain as authenticate_plain
from tests.kafka_compat.broker.world import FETCH_VERSION, Asked, Connection, Replying, World, ask, records_of, world

ALICE = Identity(principal="User:alice")
TOPIC_FAILED = KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED
OPEN_CLUSTER = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
ANY: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": Permission.ANY,
}
T = (ProduceTopic(name="t", partition_data=(ProducePartition(index=0, records=b""),)),)
DENY_T = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="t",
    principal="User:ANONYMOUS",
    host="*",
    operation=AclOperation.ALL,
    permission_type=Permission.DENY,
)


async def describe(client: Client, **changes: Any) -> Any:
    return await client.ask(DESCRIBE_ACLS, 3, DescribeAclsRequest(**(ANY | changes)))


async def create(client: Client, *creations: AclCreation) -> list[int]:
    answer = await client.ask(CREATE_ACLS, 3, CreateAclsRequest(creations=creations))
    return [each.error_code for each in answer.results]


async def test_acls_are_made_seen_and_deleted_over_the_wire_and_count_at_once() -> None:
    async with cluster(1, **OPEN_CLUSTER) as brokers:
        async with brokers.client(1) as client:
            await client.create("t", 1)
            assert await client.produce("t", b"a") == (KafkaErrorCode.NONE, 0)
            wrong = evolve(DENY_T, principal="nobody")
            strange = evolve(DENY_T, operation=99)
            invalid = KafkaErrorCode.INVALID_REQUEST
            assert await create(client, DENY_T, wrong, DENY_T, strange) == [0, invalid, 0, invalid]
            assert (await client.produce("t", b"b"))[0] is TOPIC_FAILED
            listed = await client.ask(METADATA, 9, MetadataRequest(topics=None))
            assert listed.topics == (), "it may not be described"
            refusal = next(fields for _, event, fields in brokers.events if event == "denied")
            assert refusal == {
                "principal": "User:ANONYMOUS", "host": "127.0.0.1", "operation": "WRITE", "resource": "TOPIC t",
            }  # fmt: skip

            found = await describe(client)
            (resource,) = found.resources
            assert (resource.resource_name, resource.pattern_type) == ("t", PatternType.LITERAL)
            assert [(each.principal, each.operation) for each in resource.acls] == [
                ("User:ANONYMOUS", AclOperation.ALL)
            ]
            assert (
                await describe(client, resource_name_filter="u", pattern_type_filter=PatternType.MATCH)
            ).resources == ()
            assert (await describe(client, operation=77)).error_code == invalid
        await brokers.kill(1)
        await brokers.start(1)
        await brokers.until(lambda: brokers.leads(1, "t"))
        async with brokers.client(1) as client:
            assert (await client.produce("t", b"b"))[0] is TOPIC_FAILED, "ACLs are in the metadata"
            filters = (DeleteAclsFilter(**ANY), DeleteAclsFilter(**(ANY | {"operation": 77})))
            answer = await client.ask(DELETE_ACLS, 3, DeleteAclsRequest(filters=filters))
            assert [each.error_code for each in answer.filter_results] == [0, invalid]
            assert [each.resource_name for each in answer.filter_results[0].matching_acls] == ["t"]
            assert (await client.produce("t", b"b"))[0] is KafkaErrorCode.NONE
            assert await client.values("t") == [b"a", b"b"]


async def test_without_an_authorizer_acls_are_refused_as_in_kafka() -> None:
    disabled = KafkaErrorCode.SECURITY_DISABLED
    async with cluster(1) as brokers, brokers.client(1) as client:
        assert await create(client, DENY_T, DENY_T) == [disabled, disabled]
        found = await describe(client)
        assert (found.error_code, found.error_message) == (disabled, "No Authorizer is configured.")
        answer = await client.ask(DELETE_ACLS, 3, DeleteAclsRequest(filters=(DeleteAclsFilter(**ANY),)))
        assert [each.error_code for each in answer.filter_results] == [disabled]


async def test_with_an_authorizer_and_no_acl_a_stranger_may_do_nothing() -> None:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:admin"}
    async with cluster(1, **settings) as brokers, brokers.client(1) as client:
        assert await client.create("t", 1) is TOPIC_FAILED
        assert await create(client, DENY_T) == [KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        assert (await describe(client)).error_code == KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_brokers_that_prove_the_secret_of_their_cluster_need_no_acl() -> None:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:admin"}
    async with cluster(3, **settings) as brokers:
        image = brokers.image()
        await brokers.until(lambda: [each.fenced for each in image.brokers.values()] == [False] * 3)
        assert "denied" not in [event for _, event, _ in brokers.events]


async def test_acls_count_for_the_user_that_a_connection_has_proven() -> None:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
    async with open_guarded(**settings) as brokers:
        async with brokers.client(1) as admin:
            await admin.create("t", 1)
            grant = evolve(DENY_T, principal="User:alice", permission_type=Permission.ALLOW)
            assert await create(admin, grant) == [0]
        for user, outcome in (("alice", KafkaErrorCode.NONE), ("bob", TOPIC_FAILED)):
            async with brokers.client(1, listener="SASL_PLAINTEXT") as client:
                assert (await authenticate_plain(client, user)).error_code == 0
                assert (await client.produce("t", b"x"))[0] is outcome
                if user == "bob":
                    await client.peer.ask(PRODUCE, 9, ProduceRequest(acks=0, timeout_ms=1, topic_data=T), timeout_s=5.0)
    denied = [fields["principal"] for _, event, fields in brokers.events if event == "denied"]
    assert denied == ["User:bob"]
    closed = [fields for _, event, fields in brokers.events if event == "connection_closed"]
    assert [(each["principal"], "not authorized" in each["reason"]) for each in closed] == [("User:bob", True)]


def test_handlers_are_the_same_objects_without_an_authorizer() -> None:
    with world() as broker:
        handlers: dict[int, Callable[[ClientCall], None]] = {FETCH.key: broker.fetches.fetch}
        assert guard_handlers(handlers, broker.context, print) is handlers
        assert ClientCall.access is None
    with world(f"authorizer.class.name={STANDARD_AUTHORIZER}") as broker:
        handlers = {FETCH.key: broker.fetches.fetch}
        assert guard_handlers(handlers, broker.context, print)[FETCH.key] is not handlers[FETCH.key]


@pytest.mark.parametrize("is_part_refused", [False, True])
def test_a_request_without_an_answer_closes_its_connection_if_a_part_was_refused(is_part_refused: bool) -> None:
    with world() as broker:
        reply, connection = Replying(), Connection()
        call = ClientCall(RequestHeader(PRODUCE.key, 9, 7), None, reply, connection)  # type: ignore[arg-type]
        guards = Guards(broker.context, Authorizer(broker.image.acls), Refusals(print, Seldom(lambda: 0.0)))
        complete = (lambda response: response) if is_part_refused else None
        GuardedCall(call, None, guards.access_of(call), complete).answer_nothing()
        assert connection.is_closed is is_part_refused
        assert (reply.pieces == ()) is not is_part_refused


# ---------------------------------------------------------------- Fetch, which has sessions


@define
class Fetching:
    """Fetches by alice, whose ACLs the test writes."""

    broker: World
    connection: Connection = field(factory=Connection)
    identity: Identity = ALICE

    def __call__(self, **request: Any) -> Asked:
        table = self.broker.image.acls
        guards = Guards(self.broker.context, Authorizer(table), Refusals(lambda *_, **__: None, Seldom(lambda: 0.0)))
        serve = guards.guard(FETCH.key, self.broker.fetches.fetch)

        def as_alice(call: ClientCall) -> None:
            call.caller.identity = self.identity
            serve(call)

        whole: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "topics": ()} | request
        return ask(as_alice, FETCH, FETCH_VERSION, FetchRequest(**whole), self.connection)

    def topics(self, *names: str) -> tuple[FetchTopic, ...]:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = self.broker.image.topics
        return tuple(FetchTopic(topic_id=topics[name].topic_id, partitions=(partition,)) for name in names)


def read(name: str, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*", AclOperation.READ, permission)


def errors_of(asked: Asked) -> list[int]:
    return [partition.error_code for topic in asked.answer.responses for partition in topic.partitions]


def test_a_topic_that_may_not_be_read_fails_at_once_and_sends_nothing() -> None:
    with world() as broker:
        for name in ("may", "not"):
            broker.topic(name)
            broker.produce(name)
        broker.image.acls.add(read("may"))
        fetch = Fetching(broker)
        asked = fetch(topics=fetch.topics("not"))
        assert errors_of(asked) == [TOPIC_FAILED], "it does not wait"
        assert records_of(asked.answer) == {}
        asked = fetch(topics=fetch.topics("may", "not"))
        assert sorted(errors_of(asked)) == [0, TOPIC_FAILED]
        unknown = evolve(fetch.topics("may")[0], topic_id=bytes(15) + b"x")
        assert errors_of(fetch(topics=(unknown,))) == [KafkaErrorCode.UNKNOWN_TOPIC_ID]


def test_a_right_that_is_taken_away_ends_what_a_session_reads() -> None:
    with world() as broker:
        broker.topic("may")
        rule = read("may")
        broker.image.acls.add(rule)
        fetch = Fetching(broker)
        first = fetch(topics=fetch.topics("may"), session_epoch=0, max_wait_ms=0)
        waiting = fetch(session_id=first.answer.session_id, session_epoch=1)
        assert not waiting.is_answered
        broker.image.acls.remove(rule)
        broker.produce("may")
        broker.pump()
        assert errors_of(waiting) == [TOPIC_FAILED], "a fetch that waits gets nothing that came after"
        broker.image.acls.add(rule)
        again = fetch(session_id=first.answer.session_id, session_epoch=2)
        assert errors_of(again) == [0]
        assert records_of(again.answer)
        at_end = evolve(
            fetch.topics("may")[0], partitions=(evolve(fetch.topics("may")[0].partitions[0], fetch_offset=1),)
        )
        drained = fetch(session_id=first.answer.session_id, session_epoch=3, topics=(at_end,), max_wait_ms=0)
        assert records_of(drained.answer) == {}
        broker.image.acls.add(read("may", Permission.DENY))
        quiet = fetch(session_id=first.answer.session_id, session_epoch=4)
        assert errors_of(quiet) == [TOPIC_FAILED], "without any news of the partition"


@pytest.mark.parametrize("replica", [0, 2])
def test_a_client_that_claims_to_be_a_follower_gets_no_session_and_no_record(replica: int) -> None:
    with world() as broker:
        broker.topic("t", replicas=(1, 2))
        broker.produce("t")
        broker.image.acls.add(read("t"))
        fetch = Fetching(broker)
        claim = {"replica_state": FetchReplicaState(replica_id=replica, replica_epoch=2), "session_epoch": 0}
        refused = fetch(topics=fetch.topics("t"), **claim)
        assert refused.answer.error_code == KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert broker.fetches._sessions == {}
        fetch.identity = Identity(member=2)
        session = fetch(
            topics=fetch.topics("t"), **(claim | {"replica_state": FetchReplicaState(replica_id=2, replica_epoch=2)})
        )
        assert session.answer.session_id, "a broker that has proven itself may follow"
        fetch.identity = ALICE
        stolen = fetch(session_id=session.answer.session_id, session_epoch=1)
        assert stolen.answer.error_code == KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED

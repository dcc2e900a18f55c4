"""Brokers of a cluster know each other: a stranger gets nothing of theirs, and a broker speaks for itself alone."""

from typing import Any

import pytest
import trio

from kafka_compat.broker.authentication import MEMBER
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.broker.proving import MemberProof
from kafka_compat.broker.requests.fetch import FINAL_EPOCH, INITIAL_EPOCH
from kafka_compat.controller.commands import (
    AllocateProducerIds,
    AlterConfigs,
    AlterCredentials,
    AlterPartition,
    AlterReassignments,
    BeginShutdown,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    FenceBroker,
    RegisterBroker,
    ReportLogs,
    UnfenceBroker,
    UnregisterBroker,
    encode_command,
    may_send,
)
from kafka_compat.protocol.apis.controller import (
    BROKER_HEARTBEAT,
    CONTROLLER_COMMAND,
    BrokerHeartbeatRequest,
    ControllerCommandRequest,
)
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchReplicaState, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.sasl.refused import REFUSAL
from raft.client import Connection
from raft.errors import NotAdmitted
from raft.secret_file import credentials_of
from raft.trust import Secret
from tests.kafka_compat.broker.cluster import SECRET, Cluster, cluster

STRANGERS = Secret("what some other cluster shares, or a stranger guesses")


def proof_of(name: str, to: int = 1, secret: Secret = SECRET) -> MemberProof:
    return MemberProof(credentials_of(secret, "c", name), to)


def follower_fetch(
    brokers: Cluster, replica: int, offset: int, *, epoch: int = INITIAL_EPOCH, session: int = 0
) -> FetchRequest:
    topic = brokers.image().topics["t"]
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=topic.partitions[0].leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session,
        session_epoch=epoch,
        topics=(FetchTopic(topic_id=topic.topic_id, partitions=(partition,)),),
        replica_state=FetchReplicaState(replica_id=replica, replica_epoch=brokers.image().brokers[replica].epoch),
    )


def end_of(topic: str, brokers: Cluster, leader: int) -> int:
    hosted = brokers.running[leader].broker._parts.replicas.by_name(topic, 0)
    return 0 if hosted is None else hosted.log.end_offset


def heartbeat_of(broker: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        cluster_id="c", broker_id=broker, broker_epoch=1, applied_index=10**6, wants_shutdown=True
    )


def command(of: Command) -> ControllerCommandRequest:
    return ControllerCommandRequest(cluster_id="c", command=encode_command(of))


async def test_a_strangers_fetches_as_the_followers_acknowledge_nothing() -> None:
    async with cluster(3) as brokers, brokers.client(1) as client:
        await client.create("t", 3)
        await brokers.until(lambda: brokers.knows("t") and len(brokers.state("t").isr) == 3)
        leader = brokers.state("t").leader
        async with brokers.client(leader) as producer, brokers.client(leader) as stranger:
            for other in {1, 2, 3} - {leader}:
                await brokers.kill(other)
            answers: list[Any] = []
            async with trio.open_nursery() as nursery:
                acknowledged = trio.Event()

                async def produce() -> None:
                    await producer.produce("t", b"acknowledged by no follower")
                    acknowledged.set()

                nursery.start_soon(produce)
                await brokers.until(lambda: end_of("t", brokers, leader) > 0)
                for replica in [*({1, 2, 3} - {leader})] * 5:
                    answers.append(await stranger.ask(FETCH, 17, follower_fetch(brokers, replica, 1)))
                    await trio.sleep(0.02)
                assert not acknowledged.is_set()
                nursery.cancel_scope.cancel()
        assert {each.error_code for each in answers} == {KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        assert all(each.session_id == 0 for each in answers)


STRANGERS_ACTS = [
    pytest.param(BROKER_HEARTBEAT, heartbeat_of(1), id="a heartbeat that wants broker 1 to end"),
    pytest.param(CONTROLLER_COMMAND, command(FenceBroker(1, 1)), id="fences broker 1"),
    pytest.param(CONTROLLER_COMMAND, command(RegisterBroker(1, bytes(16), "127.0.0.1", 1)), id="registers as broker 1"),
    pytest.param(CONTROLLER_COMMAND, command(RegisterBroker(9, bytes(16), "127.0.0.1", 1)), id="registers a ghost"),
]


@pytest.mark.parametrize(("api", "request_"), STRANGERS_ACTS)
async def test_a_stranger_cannot_act_as_a_broker(api: Any, request_: Any) -> None:
    async with cluster(1) as brokers, brokers.client(1) as stranger:
        before = brokers.image().brokers[1]
        answer = await stranger.ask(api, 0, request_)
        assert answer.error_code == KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await stranger.create("t", 1) is KafkaErrorCode.NONE
        assert dict(brokers.image().brokers) == {1: before}


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        pytest.param(BROKER_HEARTBEAT, 0, heartbeat_of(1), id="a heartbeat of another"),
        pytest.param(CONTROLLER_COMMAND, 0, command(FenceBroker(1, 1)), id="fences another"),
        pytest.param(CONTROLLER_COMMAND, 0, command(AllocateProducerIds(1, 1)), id="takes another's producer ids"),
        pytest.param(FETCH, 17, None, id="fetches as another"),
        pytest.param(BROKER_HEARTBEAT, 0, heartbeat_of(2), id="has applied what is not there"),
    ],
)
async def test_a_broker_that_speaks_for_another_or_claims_too_much_loses_its_connection(
    api: Any, version: int, request_: Any
) -> None:
    async with cluster(1) as brokers, brokers.client(1) as client, brokers.client(1, proof_of("2")) as liar:
        await client.create("t", 1)
        await brokers.until(lambda: brokers.knows("t"))
        request = request_ or follower_fetch(brokers, 1, 0)
        assert isinstance(await liar.peer.ask(api, version, request, timeout_s=10.0), PeerFailed)
        (closed,) = (fields for _, event, fields in brokers.events if event == "connection_closed")
        assert "broker 2 " in closed["reason"]
        assert not brokers.image().brokers[1].fenced


async def test_a_stranger_neither_continues_nor_ends_the_fetch_session_of_a_follower() -> None:
    async with cluster(2) as brokers, brokers.client(1) as client:
        await client.create("t", 2)
        await brokers.until(lambda: brokers.knows("t") and len(brokers.state("t").isr) == 2)
        leader = brokers.state("t").leader
        sessions = brokers.running[leader].broker._parts.fetches._sessions
        await brokers.until(lambda: any(each.follower >= 0 for each in sessions.values()))
        (session,) = (each for each in sessions.values() if each.follower >= 0)
        async with brokers.client(leader) as stranger:
            request = follower_fetch(brokers, session.follower, 0, epoch=session.next_epoch, session=session.id)
            answer = await stranger.ask(FETCH, 17, request)
            assert answer.error_code == KafkaErrorCode.FETCH_SESSION_ID_NOT_FOUND
            await stranger.ask(FETCH, 17, follower_fetch(brokers, 1, 0, epoch=FINAL_EPOCH, session=session.id))
        assert session.id in sessions


def reasons_of(brokers: Cluster) -> list[tuple[int, str, str]]:
    return [(number, event, fields["reason"]) for number, event, fields in brokers.events if "reason" in fields]


async def test_a_broker_with_another_secret_serves_no_one_and_is_named_in_the_log() -> None:
    async with trio.open_nursery() as nursery:
        brokers = Cluster(nursery, 2, {})
        await brokers.start(1)
        brokers.secret = STRANGERS
        await brokers.start(2)
        wrong = "protocol error: it does not prove that it is of this cluster: a wrong proof"
        await brokers.until(lambda: (1, "connection_closed", wrong) in reasons_of(brokers))
        await brokers.until(lambda: any(event == "link_refused" for _, event, _ in reasons_of(brokers)))
        assert not any(each.broker.serving.is_set() for each in brokers.running.values())
        nursery.cancel_scope.cancel()


WRONG_PROOFS = [
    pytest.param(credentials_of(STRANGERS, "c", "2").dial("kafka", "1").opening[:-1], id="cut"),
    pytest.param(b"", id="nothing"),
    pytest.param(bytes(4000), id="too long"),
]


@pytest.mark.parametrize("message", WRONG_PROOFS)
async def test_a_wrong_proof_gets_one_same_refusal(message: bytes) -> None:
    async with cluster(1) as brokers, brokers.client(1) as stranger:
        begun = await stranger.ask(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=MEMBER))
        assert (begun.error_code, begun.mechanisms) == (KafkaErrorCode.NONE, ())
        answer = await stranger.ask(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=message))
        assert answer.error_code == KafkaErrorCode.SASL_AUTHENTICATION_FAILED
        assert (answer.error_message, answer.auth_bytes) == (REFUSAL, b"")
        await brokers.until(lambda: not stranger.peer.is_connected)


async def test_a_mechanism_that_is_not_served_is_refused() -> None:
    async with cluster(1) as brokers, brokers.client(1) as client:
        answer = await client.ask(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="GSSAPI"))
        assert answer.error_code == KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM
        await brokers.until(lambda: not client.peer.is_connected)


async def test_the_controllers_group_takes_no_commands_of_a_stranger() -> None:
    async with cluster(1) as brokers:
        with pytest.raises(NotAdmitted):
            await Connection.connect(*brokers.addresses[1], "c")


COMMANDS: list[tuple[Command, bool, bool]] = [
    (RegisterBroker(2, bytes(16), "h", 1), True, False),
    (AllocateProducerIds(2, 300), True, False),
    (AlterPartition(2, 1, ()), True, False),
    (ReportLogs(2, 1, ()), True, False),
    (UnfenceBroker(2, 1), False, False),
    (FenceBroker(2, 1), False, False),
    (BeginShutdown(2, 1), False, False),
    (ElectLeaders(ElectionType.PREFERRED), True, True),
    (CreateTopics((), 0), True, True),
    (DeleteTopics(()), True, True),
    (CreatePartitions((), 0), True, True),
    (AlterConfigs(()), True, True),
    (AlterCredentials(()), True, True),
    (CreateAcls(()), True, True),
    (DeleteAcls(()), True, True),
    (AlterReassignments(()), True, True),
    (UnregisterBroker(2), True, True),
]


@pytest.mark.parametrize(("sent", "by_itself", "by_another"), COMMANDS)
def test_a_broker_sends_its_own_commands_and_those_of_clients(
    sent: Command, *, by_itself: bool, by_another: bool
) -> None:
    assert (may_send(2, encode_command(sent)), may_send(3, encode_command(sent))) == (by_itself, by_another)


def test_each_command_is_known_to_be_a_brokers_or_a_clients() -> None:
    assert {type(sent) for sent, _, _ in COMMANDS} == set(Command.__args__)

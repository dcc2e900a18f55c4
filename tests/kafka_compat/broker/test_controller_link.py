"""Commands on their way to the controller: repeated while they certainly failed, ended in time, and always answered."""

import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kafka_compat.broker.controller_link import COMMAND_TIMEOUT_S, RETRY_S, CommandFailed, ControllerLink
from kafka_compat.broker.peers import PeerFailed
from kafka_compat.controller.commands import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Command,
    CommandResult,
    CreateTopics,
    IsrChange,
    NewTopic,
    PartitionAltered,
    PartitionReassigned,
    PartitionsAltered,
    ProducerIdsAllocated,
    ProposedMember,
    Reassignment,
    ReassignmentsAltered,
    RegisterBroker,
    Registered,
    TopicCreated,
    TopicsCreated,
    encode_result,
)
from kafka_compat.model import NO_EPOCH, PartitionState
from kafka_compat.protocol.apis.controller import (
    BROKER_HEARTBEAT,
    CONTROLLER_COMMAND,
    BrokerHeartbeatResponse,
    ControllerCommandResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.errors import WireError

COMMAND = AllocateProducerIds(1, 1)
RESULT = ProducerIdsAllocated(1000, 1000)
NOT_CONTROLLER = ControllerCommandResponse(error_code=KafkaErrorCode.NOT_CONTROLLER)


@attrs.define
class Peer:
    """A broker to which calls are noted."""

    calls: list[tuple[Any, Callable[[Any], None]]] = attrs.field(factory=list)

    def call(self, api: Any, version: int, request: Any, done: Callable[[Any], None], *, timeout_s: float) -> None:
        self.calls.append((api, done))


class World:
    def __init__(self) -> None:
        self.now = 10.0
        self.peers = {2: Peer(), 3: Peer()}
        self.heartbeat_peers = {2: Peer(), 3: Peer()}
        self.link = ControllerLink("c", 1, self.peers, self.heartbeat_peers, lambda: self.now)
        self.outcomes: list[Any] = []

    def send(self) -> None:
        self.link.send(COMMAND, self.outcomes.append)


@pytest.fixture
def world() -> World:
    return World()


def test_without_a_controller_nothing_is_due_before_the_command_is_given_up(world: World) -> None:
    """Or the broker would spin until there is one."""
    world.send()
    world.now += 2 * RETRY_S
    world.link.pump(world.now)
    assert world.link.deadline == 10.0 + COMMAND_TIMEOUT_S
    world.now = 10.0 + COMMAND_TIMEOUT_S
    world.link.pump(world.now)
    assert [each.definite for each in world.outcomes] == [True]
    assert world.link.deadline == math.inf


def test_a_command_is_sent_as_soon_as_there_is_a_controller(world: World) -> None:
    world.send()
    world.link.leader_changed(2)
    world.link.pump(world.now)
    ((api, done),) = world.peers[2].calls
    assert api is CONTROLLER_COMMAND
    done(ControllerCommandResponse(error_code=0, index=5, result=encode_result(RESULT)))
    assert world.outcomes == [RESULT]


def test_who_is_not_the_controller_any_more_is_asked_again_after_a_pause_and_another_at_once(world: World) -> None:
    world.link.leader_changed(2)
    world.send()
    world.peers[2].calls.pop()[1](NOT_CONTROLLER)
    world.link.pump(world.now)
    assert not world.peers[2].calls
    assert world.link.deadline == world.now + RETRY_S
    world.link.leader_changed(3)
    world.link.pump(world.now)
    assert len(world.peers[3].calls) == 1


@pytest.mark.parametrize("was_sent", [False, True])
def test_only_what_certainly_was_not_sent_is_sent_again(world: World, was_sent: bool) -> None:
    world.link.leader_changed(2)
    world.send()
    world.peers[2].calls.pop()[1](PeerFailed("gone", was_sent=was_sent))
    world.now += RETRY_S
    world.link.pump(world.now)
    assert len(world.peers[2].calls) == (0 if was_sent else 1)
    assert [each.definite for each in world.outcomes] == ([False] if was_sent else [])
    if was_sent:
        assert world.outcomes[0].error is KafkaErrorCode.REQUEST_TIMED_OUT


def test_an_unknown_outcome_stays_unknown(world: World) -> None:
    world.link.leader_changed(2)
    world.send()
    world.peers[2].calls.pop()[1](ControllerCommandResponse(error_code=KafkaErrorCode.REQUEST_TIMED_OUT))
    assert [each.definite for each in world.outcomes] == [False]


def test_a_refused_command_was_certainly_not_carried_out(world: World) -> None:
    world.link.leader_changed(2)
    world.send()
    world.peers[2].calls.pop()[1](ControllerCommandResponse(error_code=KafkaErrorCode.INVALID_REQUEST))
    assert isinstance(world.outcomes[0], CommandFailed)
    assert world.outcomes[0].definite


def test_a_process_without_a_group_is_not_the_controller(world: World) -> None:
    answers: list[ControllerCommandResponse] = []
    world.link.propose(b"x", answers.append)
    assert [each.error_code for each in answers] == [KafkaErrorCode.NOT_CONTROLLER]


def test_heartbeats_go_to_everybody_on_connections_without_commands_and_only_a_controller_answers(world: World) -> None:
    answers: list[BrokerHeartbeatResponse] = []
    world.link.heartbeat(1, 5, answers.append, wants_shutdown=False, timeout_s=1.0)
    assert [peer.calls for peer in world.peers.values()] == [[], []]
    for peer in world.heartbeat_peers.values():
        assert [api for api, _ in peer.calls] == [BROKER_HEARTBEAT]
    world.heartbeat_peers[2].calls[0][1](BrokerHeartbeatResponse(error_code=KafkaErrorCode.NOT_CONTROLLER))
    world.heartbeat_peers[2].calls[0][1](PeerFailed("gone", was_sent=True))
    assert not answers
    world.heartbeat_peers[3].calls[0][1](BrokerHeartbeatResponse(error_code=0))
    assert len(answers) == 1


@pytest.mark.parametrize("comes", ["in time", "too late"])
def test_a_result_is_given_out_when_this_broker_has_it_too(world: World, comes: str) -> None:
    """Or a client whose topic was made would not find it here."""
    applied = 4
    world.link.applied = lambda: applied
    world.link.leader_changed(2)
    world.send()
    done = world.peers[2].calls.pop()[1]
    done(ControllerCommandResponse(error_code=0, index=5, result=encode_result(RESULT)))
    world.link.pump(world.now)
    assert world.outcomes == []
    assert world.link.deadline == 10.0 + COMMAND_TIMEOUT_S
    if comes == "in time":
        applied = 5
    else:
        world.now = 10.0 + COMMAND_TIMEOUT_S
    world.link.pump(world.now)
    assert world.outcomes == [RESULT]
    assert world.link.deadline == math.inf


STATE = PartitionState(bytes(15) + b"t", (1, 2, 3), (1, 2), 1, 4, 11)
WANTED = IsrChange(STATE.topic_id, 0, 4, 10, (ProposedMember(1, 11), ProposedMember(2, 12)))
ALTER = AlterPartition(1, 11, (WANTED,))
MOVE = AlterReassignments((Reassignment("t", 0, (1, 2)),))


def outcome(state: PartitionState | None = STATE, *, partition: int = 0) -> PartitionsAltered:
    return PartitionsAltered((PartitionAltered(STATE.topic_id, partition, KafkaErrorCode.NONE, "", state),))


IMPOSSIBLE: dict[str, tuple[Command, CommandResult | bytes]] = {
    "no result at all": (COMMAND, b"garbage"),
    "the result of another command": (COMMAND, Registered(7)),
    "ids from below 0": (COMMAND, ProducerIdsAllocated(-1, 1000)),
    "more ids than a block has": (COMMAND, ProducerIdsAllocated(1000, 2**40)),
    "a registration before all": (RegisterBroker(1, bytes(16), "h", 1), Registered(NO_EPOCH)),
    "no partition": (ALTER, PartitionsAltered()),
    "another partition": (ALTER, outcome(partition=1)),
    "no state": (ALTER, outcome(None)),
    "another leader": (ALTER, outcome(attrs.evolve(STATE, leader=2))),
    "another leader epoch": (ALTER, outcome(attrs.evolve(STATE, leader_epoch=5))),
    "a partition epoch to come": (ALTER, outcome(attrs.evolve(STATE, partition_epoch=2**30))),
    "another ISR": (ALTER, outcome(attrs.evolve(STATE, isr=(1,)))),
    "an ISR beyond the replicas": (ALTER, outcome(attrs.evolve(STATE, replicas=(1,)))),
    "a move of another partition": (MOVE, ReassignmentsAltered((PartitionReassigned("t", 1),))),
    "another topic": (CreateTopics((NewTopic("t", bytes(16)),), 0), TopicsCreated((TopicCreated("u", bytes(16)),))),
}


@pytest.mark.parametrize("claim", IMPOSSIBLE)
def test_an_answer_that_no_controller_gives_ends_its_link_and_leaves_the_outcome_unknown(
    world: World, claim: str
) -> None:
    command, result = IMPOSSIBLE[claim]
    world.link.leader_changed(2)
    world.link.send(command, world.outcomes.append, at_once=True)
    answer = result if isinstance(result, bytes) else encode_result(result)
    with pytest.raises(WireError, match=f"no controller answers a {type(command).__name__} so"):
        world.peers[2].calls.pop()[1](ControllerCommandResponse(error_code=0, index=5, result=answer))
    assert [each.definite for each in world.outcomes] == [False]


MOVED = attrs.evolve(STATE, replicas=(1, 2), leader_epoch=5)
POSSIBLE: dict[str, tuple[Command, CommandResult]] = {
    "the ISR that was wanted": (ALTER, outcome()),
    "a refusal of all": (ALTER, PartitionsAltered(error=KafkaErrorCode.STALE_BROKER_EPOCH)),
    "a reassignment that is complete": (ALTER, outcome(MOVED)),
    "a reassignment that replaces its leader": (ALTER, outcome(attrs.evolve(MOVED, replicas=(2,), isr=(2,), leader=2))),
    "a reassignment that begins": (MOVE, ReassignmentsAltered((PartitionReassigned("t", 0),))),
}


@pytest.mark.parametrize("claim", POSSIBLE)
def test_an_answer_that_a_controller_may_give_is_handed_on(world: World, claim: str) -> None:
    command, result = POSSIBLE[claim]
    world.link.leader_changed(2)
    world.link.send(command, world.outcomes.append, at_once=True)
    world.peers[2].calls.pop()[1](ControllerCommandResponse(error_code=0, index=5, result=encode_result(result)))
    assert world.outcomes == [result]


def test_a_broker_that_is_not_the_controller_answers_no_heartbeat(world: World) -> None:
    world.link.leader_changed(2)
    world.link.heartbeat(11, 5, world.outcomes.append, wants_shutdown=True, timeout_s=9.0)
    may_end = BrokerHeartbeatResponse(error_code=0, is_fenced=True, should_shut_down=True)
    for broker in (3, 2):
        world.heartbeat_peers[broker].calls.pop()[1](may_end)
        assert world.outcomes == ([] if broker == 3 else [may_end])

"""This process is the controller from when it has applied what came before its leadership, until another leads."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_compat.broker.controller_node import ControllerNode
from kafka_compat.protocol.apis.controller import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.model import EntryKind, LogIndex, NodeId, Offset, Term
from raft.net.errors import WireError
from raft.subscription import CommittedEntry, LeaderChanged
from tests.kafka_compat.broker.world import OWN, world

OTHER = OWN + 1


@pytest.fixture
def node() -> Iterator[ControllerNode]:
    with world() as parts:
        yield ControllerNode(parts.context, lambda command, reason: None)


def entry(index: int, term: int) -> CommittedEntry:
    return CommittedEntry(LogIndex(index), Term(term), 0, EntryKind.NOOP, Offset(0), 0, b"")


def led_by(leader: int | None, term: int) -> LeaderChanged:
    return LeaderChanged(None if leader is None else NodeId(leader), Term(term))


def test_a_leader_is_the_controller_once_the_first_entry_of_its_term_is_applied(node: ControllerNode) -> None:
    assert not node.leader_changed(led_by(OWN, 3))
    catching_up = []
    for index, term in ((7, 2), (8, 3), (9, 3)):
        node.note_committed(entry(index, term))
        catching_up.append(node.is_catching_up)
    assert catching_up == [False, True, True], "the first entry is another leader's"
    assert [(node.note_applied(index), node.leads) for index in (7, 8, 9)] == [
        (False, False),
        (True, True),
        (False, True),
    ]


def test_a_follower_never_becomes_the_controller(node: ControllerNode) -> None:
    node.leader_changed(led_by(OTHER, 3))
    node.note_committed(entry(8, term=3))
    assert not node.note_applied(8)
    assert not node.leads


def test_a_leadership_that_ends_before_it_has_caught_up_makes_no_controller(node: ControllerNode) -> None:
    node.leader_changed(led_by(OWN, 3))
    node.note_committed(entry(8, term=3))
    assert not node.leader_changed(led_by(None, 4))
    assert not node.note_applied(8)
    assert not node.leads


def test_the_controller_resigns_when_another_leads(node: ControllerNode) -> None:
    node.leader_changed(led_by(OWN, 3))
    node.note_committed(entry(8, term=3))
    node.note_applied(8)
    assert node.leader_changed(led_by(OTHER, 4))
    assert not node.leads


def test_a_broker_that_has_applied_what_no_log_has_loses_its_connection(node: ControllerNode) -> None:
    node.leader_changed(led_by(OWN, 3))
    node.note_committed(entry(8, term=3))
    node.note_applied(8)
    node.last_index = lambda: 8
    answers: list[BrokerHeartbeatResponse] = []
    for applied_index in (8, 9):
        request = BrokerHeartbeatRequest(
            cluster_id="c", broker_id=OTHER, broker_epoch=5, applied_index=applied_index, wants_shutdown=False
        )
        connection: Any = object()
        if applied_index == 8:
            node.heartbeat(connection, request, answers.append)
        else:
            with pytest.raises(WireError, match="has applied 9, which is not in the log"):
                node.heartbeat(connection, request, answers.append)
    assert [each.error_code for each in answers] == [KafkaErrorCode.STALE_BROKER_EPOCH]

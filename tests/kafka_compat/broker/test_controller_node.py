"""This process is the controller from when it has applied what came before its leadership, until another leads."""

from collections.abc import Iterator

import pytest

from kafka_compat.broker.controller_node import ControllerNode
from raft.model import EntryKind, LogIndex, NodeId, Offset, Term
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

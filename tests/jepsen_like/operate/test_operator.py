"""An operator's steps on a group that is played: in which order they are taken, when they wait, and how they end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from jepsen_like.operate.log import GroupAccess
from jepsen_like.operate.members import Operator
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.port.wires import Address
from raft.client import Unreachable
from raft.errors import Busy, OutcomeUnknown, RaftError
from raft.membership import AddLearner, Change, ChangeVoters, Promote, Remove

AT = {node: ("127.0.0.1", 4000 + node) for node in range(1, 8)}


@attrs.define
class PlayedGroup:
    """Three voters, of which 1 leads; the other nodes are there, and no members."""

    voters: set[int] = attrs.field(factory=lambda: {1, 2, 3})
    learners: set[int] = attrs.field(factory=set)
    match: dict[int, int] = attrs.field(factory=lambda: {2: 9, 3: 9})
    lacks: dict[int, str] = attrs.field(factory=dict)
    assigned: dict[int, str] = attrs.field(factory=dict)
    directories: dict[int, int] = attrs.field(factory=dict)
    down: set[int] = attrs.field(factory=set)
    answers_as: dict[int, int] = attrs.field(factory=dict)
    changes: list[Change] = attrs.field(factory=list)
    looks: int = 0
    on_look: Callable[[int], None] = lambda looks: None
    refusal: RaftError | None = None
    """The end of each change, if not what was asked for."""

    def status(self, node: int) -> dict[str, Any]:
        return {
            "node": node,
            "role": "leader" if node == 1 else "follower",
            "term": 1,
            "commit_index": 9,
            "last_index": 9,
            "voters": sorted(self.voters),
            "learners": sorted(self.learners),
            "outgoing": [],
            "directory_id": self.directories.get(node, 0),
            "directory_ids": {},
            "addresses": {f"{each}": "{}:{}".format(*AT[each]) for each in self.voters | self.learners},
            "followers": {f"{each}": {"match_index": at, "silent_s": 0.0} for each, at in self.match.items()},
            "lacks": self.lacks.get(node, ""),
            "assigned": {f"{each}": what for each, what in self.assigned.items()},
        }


@attrs.define
class PlayedClient:
    """The part of a client that operators need."""

    group: PlayedGroup

    async def tail(self) -> None:
        await trio.lowlevel.checkpoint()

    async def status(self) -> dict[str, Any]:
        self.group.looks += 1
        self.group.on_look(self.group.looks)
        return self.group.status(1)

    async def change_members(self, change: Change) -> None:
        await trio.lowlevel.checkpoint()
        if self.group.refusal is not None:
            raise self.group.refusal
        self.group.changes.append(change)
        match change:
            case AddLearner(node):
                self.group.voters.discard(node)
                self.group.learners.add(node)
            case Promote(node):
                self.group.learners.remove(node)
                self.group.voters.add(node)
            case Remove(node):
                self.group.voters.discard(node)
            case ChangeVoters():
                raise AssertionError("no command asks for it")


@attrs.frozen
class PlayedConnection:
    node_id: int
    group: PlayedGroup

    async def status(self) -> dict[str, Any]:
        return self.group.status(self.node_id)


@attrs.frozen
class PlayedAccess(GroupAccess):
    """Reaches the nodes of a played group."""

    group: PlayedGroup = attrs.field(factory=PlayedGroup)

    @asynccontextmanager
    async def connection(self, address: Address) -> AsyncIterator[Any]:
        await trio.lowlevel.checkpoint()
        node = address[1] - 4000
        if node in self.group.down:
            raise Unreachable("there", "refused")
        yield PlayedConnection(self.group.answers_as.get(node, node), self.group)


def operator_of(group: PlayedGroup) -> Operator:
    client: Any = PlayedClient(group)
    return Operator(PlayedAccess((AT[1],), "c", 3.0, group=group), client, "the same")


async def test_a_learner_is_promoted_once_it_has_all_that_is_committed_and_lacks_nothing(
    autojump_clock: MockClock,
) -> None:
    group = PlayedGroup(lacks={4: "half of it"})

    def goes_on(looks: int) -> None:
        group.match[4] = min(looks, 9)
        if looks == 30:
            group.lacks.clear()

    group.on_look = goes_on
    await operator_of(group).add(4, AT[4], counts=True)
    assert group.changes == [AddLearner(4, "127.0.0.1:4004"), Promote(4)]
    assert group.looks >= 30


async def test_a_node_that_gets_no_further_is_given_up_and_stays_a_learner(autojump_clock: MockClock) -> None:
    group = PlayedGroup(match={2: 9, 3: 9, 4: 5})
    with pytest.raises(NotDone, match="node 4 is a learner; node 4 has 5 of 9 entries; it gets no further"):
        await operator_of(group).add(4, AT[4], counts=True)
    assert group.changes == [AddLearner(4, "127.0.0.1:4004")]


@pytest.mark.parametrize("down", [False, True])
async def test_nothing_is_changed_unless_the_new_node_answers_under_its_id(
    down: bool, autojump_clock: MockClock
) -> None:
    group = PlayedGroup(answers_as={4: 5}, down={4} if down else set())
    with pytest.raises(NotDone, match="start it there"):
        await operator_of(group).add(4, AT[4], counts=True)
    assert not group.changes


@pytest.mark.parametrize("leaves", [Operator.remove, Operator.demote])
async def test_a_voter_leaves_only_while_a_majority_of_those_that_stay_lacks_nothing(
    leaves: Any, autojump_clock: MockClock
) -> None:
    group = PlayedGroup(lacks={2: "half of it"}, down={3})
    with pytest.raises(NotDone, match="node 1 is still needed; node 2: half of it, node 3: no answer"):
        await leaves(operator_of(group), 1)
    assert not group.changes
    group.voters.add(4)
    group.down.clear()
    await leaves(operator_of(group), 1)
    assert len(group.changes) == 1


async def test_a_voter_with_another_directory_than_it_is_counted_with_is_waited_for_and_promoted(
    autojump_clock: MockClock,
) -> None:
    group = PlayedGroup(directories={3: 77})

    def notices(looks: int) -> None:
        if looks == 10:
            group.voters.discard(3)
            group.learners.add(3)

    group.on_look = notices
    await operator_of(group).add(3, None, counts=True)
    assert group.changes == [Promote(3)]


async def test_a_voter_that_is_to_be_added_and_does_not_answer_is_named(autojump_clock: MockClock) -> None:
    group = PlayedGroup(down={3})
    with pytest.raises(NotDone, match="node 3 is a voter, and does not answer at 127"):
        await operator_of(group).add(3, None, counts=True)
    assert not group.changes


@pytest.mark.parametrize(
    ("refusal", "end"), [(Busy("another change is under way"), NotDone), (OutcomeUnknown("it broke"), PerhapsDone)]
)
async def test_a_change_that_was_refused_until_the_end_is_told_from_one_that_may_be_made(
    refusal: RaftError, end: type[Exception], autojump_clock: MockClock
) -> None:
    group = PlayedGroup(refusal=refusal)
    with pytest.raises(end, match="see who"):
        await operator_of(group).remove(2)
    assert 2 in group.voters


@pytest.mark.parametrize("node", [3, 4], ids=["voter", "learner"])
async def test_a_member_that_keeps_something_besides_the_log_does_not_leave(
    node: int, autojump_clock: MockClock
) -> None:
    group = PlayedGroup(learners={4}, assigned={node: "two copies; move them"})
    with pytest.raises(NotDone, match=f"node {node} is still needed.*two copies; move them.*the same"):
        await operator_of(group).remove(node)
    assert not group.changes
    group.assigned.clear()
    await operator_of(group).remove(node)
    assert group.changes == [Remove(node)]

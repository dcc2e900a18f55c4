"""The invariants that hold after every step, whatever happened: checked in production too.

A broken rule becomes a crash instead of a wrong answer, and the simulator turns crashes into seeds. These are the rules
that one node can see; those that need the whole cluster (election safety, log matching, leader completeness) are the
simulator's.
"""

from typing import TYPE_CHECKING, NamedTuple

from raft.effects import RoleName
from raft.membership import ORIGINAL, Configuration
from raft.model import NO_POSITION, NO_TERM, LogIndex, NodeId, Term
from raft.quorum import quorums_meet

if TYPE_CHECKING:
    from raft.core import RaftCore


class Snapshot(NamedTuple):
    """The part of a node's state that may only move one way."""

    term: Term
    vote: NodeId | None
    commit_index: LogIndex
    start_index: LogIndex
    configuration: Configuration

    @classmethod
    def of(cls, core: "RaftCore") -> "Snapshot":
        """The state before a step."""
        return cls(core.term, core.vote, core.commit_index, core.log.start_index, core.membership.current)


def check(before: Snapshot, core: "RaftCore") -> None:
    """Raises `AssertionError` if the step broke a rule; the node must then end, and report its state."""
    term, commit_index, log, floor = core.term, core.commit_index, core.log, core.floor
    start_index, last_index = log.start_index, log.last_index
    assert term >= before.term, "the term fell"
    assert term > before.term or before.vote in (None, core.vote), "a second vote in one term"
    assert commit_index >= before.commit_index, "the commit index fell"
    assert commit_index <= last_index, "more is committed than is in the log"
    assert start_index >= before.start_index, "what had left the log is back"
    assert start_index <= commit_index, "what is not committed has left the log"
    assert log.durable_index <= last_index, "more is durable than is in the log"
    assert log.last_term <= term, "an entry comes from a later term"
    assert core._staged is None or core._staged.term == term, "a snapshot of another term is kept"
    assert core.recall is None or (term == NO_TERM and last_index == 0 and core.role_name is RoleName.FOLLOWER), (
        "a node that remembers nothing takes part"
    )
    assert floor is NO_POSITION or floor == NO_POSITION or core.role_name is RoleName.FOLLOWER, (
        "a node below its floor campaigns"
    )
    if core.membership.current is not before.configuration:
        _check_members(before.configuration, core)


def _check_members(before: Configuration, core: "RaftCore") -> None:
    """The rules for a change of the members: a leader makes one at a time, between configurations whose quorums meet."""
    membership = core.membership
    indexes = [entry.index for entry in membership.known]
    assert indexes == sorted(set(indexes)), "the configurations are not in the order of the log"
    if core.role_name is not RoleName.LEADER:
        return  # it may have got several at once, or lost some
    assert len(membership.known) <= 2, "a second change of the members before the first is committed"
    assert quorums_meet(_voters_of(before), _voters_of(core.configuration)), "two majorities without a common voter"


def _voters_of(configuration: Configuration) -> list[frozenset[tuple[NodeId, int]]]:
    """Returns the groups of voters; one with another directory is another voter."""
    known = configuration.directory_ids
    return [frozenset((node, known.get(node, ORIGINAL)) for node in group) for group in configuration.groups]

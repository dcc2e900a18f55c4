"""Configurations: which quorums meet, what a change makes of one, and which of them a log has in force."""

from collections.abc import Iterator, Sequence, Set
from itertools import chain, combinations, pairwise

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft import changes
from raft.membership import (
    AddLearner,
    Change,
    ChangeVoters,
    Configuration,
    InvalidConfiguration,
    Membership,
    Promote,
    Remove,
    decode_stored,
    make_change,
    without_outgoing,
)
from raft.model import NOOP, Entry, LogIndex, NodeId, Offset, Term
from raft.quorum import is_quorum, quorums_meet
from tests.raft.conversation import Conversation

NODES = [NodeId(node) for node in range(1, 7)]
ids = st.sampled_from(NODES)
voter_sets = st.frozensets(ids, min_size=1, max_size=5)
group_lists = st.lists(voter_sets, min_size=1, max_size=2)
any_changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(AddLearner, ids, st.sampled_from(["", "h:1"])),
    st.builds(Promote, ids),
    st.builds(Remove, ids),
    st.builds(ChangeVoters, voter_sets),
)


def quorums_of(groups: Sequence[Set[int]]) -> Iterator[frozenset[int]]:
    nodes = sorted(frozenset[int]().union(*groups))
    for chosen in chain.from_iterable(combinations(nodes, size) for size in range(len(nodes) + 1)):
        if is_quorum(frozenset(chosen), groups):
            yield frozenset(chosen)


@given(group_lists, group_lists)
def test_quorums_meet_if_no_two_are_apart(groups: list[frozenset[int]], others: list[frozenset[int]]) -> None:
    apart = any(not one & other for one in quorums_of(groups) for other in quorums_of(others))
    if len(groups) == len(others) == 1:
        assert quorums_meet(groups, others) == (not apart)
    else:
        assert not (quorums_meet(groups, others) and apart), "two groups that meet are enough"


@given(st.lists(any_changes, max_size=12))
def test_every_change_leads_to_a_configuration_whose_quorums_meet_those_of_the_one_before(steps: list[Change]) -> None:
    present = Configuration(NODES[:3])
    for step, change in enumerate(steps):
        try:
            following = make_change(present, change, dict.fromkeys(NODES, step + 1))
        except InvalidConfiguration:
            continue
        made = [present, following, *([without_outgoing(following)] if following.is_joint else [])]
        for before, after in pairwise(made):
            assert quorums_meet(before.groups, after.groups)
            assert after.directory_ids.keys() <= after.nodes
            assert not after.learners & (after.voters | after.outgoing)
            assert Configuration.decode(after.encode()) == after
        assert not following.is_joint or len(present.voters ^ following.voters) > 1
        present = made[-1]


@given(st.lists(any_changes, min_size=1, max_size=12))
def test_who_becomes_a_voter_was_a_learner_and_is_counted_with_the_directory_it_has_named(steps: list[Change]) -> None:
    present = Configuration(NODES[:3])
    for step, change in enumerate(steps):
        try:
            following = make_change(present, change, dict.fromkeys(NODES, step + 1))
        except InvalidConfiguration:
            continue
        for node in following.voters - present.voters:
            assert node in present.learners
            assert following.counts(node, step + 1)
            assert not following.counts(node, 0)
        present = without_outgoing(following) if following.is_joint else following


@given(
    st.binary(max_size=60) | st.recursive(st.integers(-9, 2**63) | st.binary() | st.text(), st.lists).map(msgpack.packb)
)
def test_bytes_that_are_no_configuration_are_refused(data: bytes) -> None:
    for read in (Configuration.decode, decode_stored):
        try:
            read(data)
        except InvalidConfiguration:
            pass
        else:
            assert not data or read is decode_stored or Configuration.decode(data).voters


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="no members"),
        pytest.param([(1, 4, 0, "")], id="no voters"),
        pytest.param([(1, 1, 0, ""), (1, 1, 0, "")], id="a member twice"),
        pytest.param([(1, 5, 0, "")], id="a voter that is a learner"),
        pytest.param([(0, 1, 0, "")], id="an id that is none"),
        pytest.param([(1, 1, -1, "")], id="a directory that is none"),
        pytest.param([(1, 1, 0, "x" * 257)], id="an address too long"),
        pytest.param([(node, 1, 0, "") for node in range(1, 66)], id="too many"),
    ],
)
def test_a_configuration_that_no_leader_makes_is_refused(rows: list[object]) -> None:
    with pytest.raises(InvalidConfiguration):
        Configuration.decode(msgpack.packb((1, rows)))


class LogOfConfigurations:
    """A log, what its node knows of its members, and what is stored: as the core writes it, in the order of the disk."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.committed = 0
        self.initial = Configuration(NODES[:3])
        self.membership = Membership.restore(self.initial, b"", self.holds)
        self.disks: list[tuple[bytes, list[Entry]]] = [(b"", [])]
        """The states in which a crash may leave the disk, from the last write that is surely durable on."""

    def holds(self, index: LogIndex, term: Term) -> bool:
        return index <= len(self.log) and self.log[index - 1].term == term

    def append(self, first: int, entries: list[Entry]) -> None:
        replaced = self.membership.append(entries)
        self.disks.append((self.membership.encode(replaced), self.log))
        self.log = [*self.log[: first - 1], *entries]
        self.disks.append((self.disks[-1][0], self.log))
        if replaced:
            self.disks.append((self.membership.encode(), self.log))

    def last_in(self, log: Sequence[Entry]) -> Configuration:
        """The last configuration in the log, straight from its entries."""
        found = [entry for entry in log if entry.batch != NOOP]
        return Configuration.decode(bytes(found[-1].batch.data)) if found else self.initial


steps_of_logs = st.lists(
    st.tuples(st.sampled_from(["append", "replace", "commit"]), st.lists(st.booleans(), min_size=1, max_size=3), ids),
    max_size=12,
)


@given(steps_of_logs)
def test_in_force_is_the_last_configuration_of_the_log_also_after_a_crash_at_any_write(
    steps: list[tuple[str, list[bool], NodeId]],
) -> None:
    node = LogOfConfigurations()
    for number, (kind, contents, which) in enumerate(steps, start=1):
        if kind == "commit":
            node.committed = len(node.log)
            node.membership.settle(LogIndex(node.committed))
        else:
            first = node.committed + 1 if kind == "replace" else len(node.log) + 1
            batches = [
                Configuration({which, NodeId(at)}, directory_ids={which: number}).to_batch()
                if changes_members
                else NOOP
                for at, changes_members in enumerate(contents, start=1)
            ]
            term = Term(number)
            node.append(first, [Entry(LogIndex(first + at), term, Offset(0), each) for at, each in enumerate(batches)])
        assert node.membership.current == node.last_in(node.log)
        for stored, log in node.disks:
            if len(log) < node.committed:
                continue  # not after a commit, which waits for the disk of a majority; this node may be one of the others
            restored = Membership.restore(
                node.initial,
                stored,
                lambda index, term, log=log: index <= len(log) and log[index - 1].term == term,  # type: ignore[misc]
            )
            assert restored.current == node.last_in(log)
        node.disks = node.disks[-3:] if kind == "commit" else node.disks


def leading(nodes: int) -> Conversation:
    """A group whose node 1 leads, and has committed an entry."""
    group = Conversation()
    group.command(f"nodes {nodes}")
    group.command("elect 1")
    return group


def test_a_second_change_before_the_first_is_committed_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    group = leading(3)
    monkeypatch.setattr(changes, "_may_change", lambda core, leader: True)
    group.command("learner 1 4")
    with pytest.raises(AssertionError, match="a second change of the members before the first is committed"):
        group.command("learner 1 5")


def test_two_majorities_without_a_common_voter_break_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    group = leading(3)
    others = Configuration([NodeId(1), NodeId(4), NodeId(5)])
    monkeypatch.setattr(changes, "make_change", lambda present, change, directories: others)
    monkeypatch.setattr(changes, "_keeps_up", lambda core, leader, node: True)
    monkeypatch.setattr(changes, "_is_answered", lambda core, leader, configuration: True)
    with pytest.raises(AssertionError, match="two majorities without a common voter"):
        group.command("learner 1 4")


def test_a_change_that_was_made_already_is_committed_at_its_place() -> None:
    group = leading(3)
    group.command("learner 1 4")
    group.command("settle")
    assert group.command("learner 1 4") == ["n1 answers #2: committed 2@1 at offset 0"]
    assert group.command("remove 1 5") == ["n1 answers #3: committed 2@1 at offset 0"]


def test_a_change_to_voters_that_do_not_answer_is_refused() -> None:
    group = leading(3)
    group.command("cut 1 2")
    for _ in range(6):
        group.command("wait 0.3")
        group.command("timeout 1")
        group.command("stabilize 1 2")
    assert group.command("remove 1 2")[-1] == "n1 answers #1: rejected, silent, leader 1"
    assert "has the members 1 2" in group.command("remove 1 3")[1]

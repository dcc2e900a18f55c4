"""The members of the group, and how they change (dissertation sections 4.1 to 4.4).

A configuration takes effect when its entry is appended, not when it is committed, and is undone when that entry is
truncated. So all that counts votes or copies looks at `Membership.current`.

- Voters are counted. Learners get all entries, are never counted, and never campaign. A voter was a learner first, so
  every first change of a group is committed by its old majority.
- One voter is added or removed at a time, since then any majority of before and any of after share a voter. For more at
  once there is joint consensus: in between, a majority of the old voters and one of the new ones must agree.
- A voter is a node with its directory. A node that has lost its directory has another `directory_id`, and is counted
  only once the group has made it a voter again: what the lost voter promised, it does not know.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import attrs
import crc32c
import msgpack

from log.values import frozen
from raft.model import NO_INDEX, NO_TERM, Batch, Entry, EntryKind, LogIndex, NodeId, Term

ADDRESS_LENGTH_MAX = 256
MEMBERS_MAX = 64
ORIGINAL = 0
"""The `directory_id` of the voters with which a group begins."""

_FORMAT = 1


class InvalidConfiguration(ValueError):
    """Bytes that are no configuration, or a change that does not fit the present one."""


def _as_frozenset(ids: object) -> frozenset[NodeId]:
    if not isinstance(ids, set | frozenset | list | tuple):
        raise TypeError("voters must be a collection of node ids")
    return frozenset(ids)


def _as_sorted(values: Mapping[NodeId, object]) -> dict[NodeId, object]:
    return {node: values[node] for node in sorted(values)}


@attrs.frozen
class Configuration:
    """The nodes whose votes and copies count, and those that only get copies.

    While `outgoing` is not empty it is joint: `voters` and `outgoing` must both agree. `addresses` are where nodes dial
    each other; the voters with which a group begins have theirs from settings.

    Raises `ValueError` unless there is at least one voter and all ids are positive.
    """

    voters: frozenset[NodeId] = attrs.field(converter=_as_frozenset)
    learners: frozenset[NodeId] = attrs.field(default=frozenset(), converter=_as_frozenset)
    outgoing: frozenset[NodeId] = attrs.field(default=frozenset(), converter=_as_frozenset)
    directory_ids: Mapping[NodeId, int] = attrs.field(factory=dict, converter=_as_sorted)
    addresses: Mapping[NodeId, str] = attrs.field(factory=dict, converter=_as_sorted)

    def __attrs_post_init__(self) -> None:
        if not self.voters or min(self.nodes) < 1:
            raise ValueError("a configuration needs at least one voter, with ids from 1 up")

    @property
    def nodes(self) -> frozenset[NodeId]:
        """All that get entries."""
        return self.voters | self.outgoing | self.learners

    @property
    def groups(self) -> tuple[frozenset[NodeId], ...]:
        """The groups of voters of which each needs a majority."""
        return (self.voters, self.outgoing) if self.outgoing else (self.voters,)

    @property
    def is_joint(self) -> bool:
        """True between two sets of voters."""
        return bool(self.outgoing)

    def counts(self, node: NodeId, directory_id: int) -> bool:
        """Returns True if the node with this directory is a voter."""
        is_voter = node in self.voters or node in self.outgoing
        return is_voter and self.directory_ids.get(node, ORIGINAL) == directory_id

    def peers(self, node_id: NodeId) -> tuple[NodeId, ...]:
        """Returns all other voters, in a fixed order, because the order of a set differs from run to run."""
        return tuple(sorted((self.voters | self.outgoing) - {node_id}))

    def others(self, node_id: NodeId) -> tuple[NodeId, ...]:
        """Returns all other nodes, in a fixed order."""
        return tuple(sorted(self.nodes - {node_id}))

    def to_batch(self) -> Batch:
        """Returns the content of the entry that brings it into force."""
        data = self.encode()
        return Batch(EntryKind.CONFIGURATION, span=0, timestamp_ms=0, data=data, crc=crc32c.crc32c(data))

    def encode(self) -> bytes:
        """Returns it as bytes."""
        nodes = [
            (node, self._parts(node), self.directory_ids.get(node, ORIGINAL), self.addresses.get(node, ""))
            for node in sorted(self.nodes)
        ]
        packed: bytes = msgpack.packb((_FORMAT, nodes))
        return packed

    def _parts(self, node: NodeId) -> int:
        return (node in self.voters) | (node in self.outgoing) << 1 | (node in self.learners) << 2

    @classmethod
    def decode(cls, data: bytes) -> "Configuration":
        """Returns the configuration in these bytes. Raises `InvalidConfiguration` if they are none."""
        match _unpack(data):
            case [1, list(rows)] if rows and all(_is_member(row) for row in rows):
                members = {NodeId(row[0]): row for row in rows}
            case _:
                raise InvalidConfiguration("this is no configuration")
        voters, outgoing, learners = ([node for node, row in members.items() if row[1] & part] for part in (1, 2, 4))
        if not voters or len(members) != len(rows) or set(learners) & {*voters, *outgoing}:
            raise InvalidConfiguration("a configuration without voters, or with a member that is two")
        directory_ids = {node: row[2] for node, row in members.items() if row[2] != ORIGINAL}
        addresses = {node: row[3] for node, row in members.items() if row[3]}
        return cls(voters, learners, outgoing, directory_ids, addresses)


def _unpack(data: bytes) -> object:
    try:
        return msgpack.unpackb(data, max_array_len=MEMBERS_MAX, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return None


def _is_member(row: object) -> bool:
    match row:
        case [int(node), int(parts), int(directory_id), str(address)]:
            in_range = 1 <= node < 2**31 and 1 <= parts <= 7 and 0 <= directory_id < 2**62
            return in_range and len(address) <= ADDRESS_LENGTH_MAX
        case _:
            return False


# -------------------------------------------------------------------- changes


@frozen
class AddLearner:
    """A node gets all entries from now on. A voter becomes a learner by it, and is counted no more.

    An empty `address` keeps the known one.
    """

    node: int
    address: str = ""


@frozen
class Promote:
    """A learner becomes a voter."""

    node: int


@frozen
class Remove:
    """A voter or a learner leaves the group."""

    node: int


@frozen
class ChangeVoters:
    """Any number of voters is replaced at once; who is no voter any more leaves the group."""

    voters: frozenset[int]


Change = AddLearner | Promote | Remove | ChangeVoters


def make_change(present: Configuration, change: Change, directories: Mapping[NodeId, int]) -> Configuration:
    """Returns the configuration that `change` makes of `present`; it is joint if several voters change at once.

    `directories` has the `directory_id` of each node that is about to become a voter. Raises `InvalidConfiguration` if the
    change does not fit.
    """
    if present.is_joint:
        raise InvalidConfiguration("the voters are just being replaced")
    voters, learners, addresses = present.voters, present.learners, dict(present.addresses)
    match change:
        case AddLearner(address=address):
            node = NodeId(change.node)
            if not 1 <= node < 2**31 or len(address) > ADDRESS_LENGTH_MAX or len(present.nodes | {node}) > MEMBERS_MAX:
                raise InvalidConfiguration(f"node {node} cannot be a member")
            voters, learners = voters - {node}, learners | {node}
            addresses |= {node: address} if address else {}
        case Promote():
            node = NodeId(change.node)
            _require_learners({node} - voters, learners)
            voters, learners = voters | {node}, learners - {node}
        case Remove():
            voters, learners = voters - {NodeId(change.node)}, learners - {NodeId(change.node)}
        case ChangeVoters():
            wanted = frozenset(map(NodeId, change.voters))
            _require_learners(wanted - voters, learners)
            voters, learners = wanted, learners - wanted
        case _:
            assert_never(change)
    if not voters:
        raise InvalidConfiguration("no voter would be left")
    outgoing: frozenset[NodeId] = present.voters if len(voters ^ present.voters) > 1 else frozenset()
    nodes = voters | learners | outgoing
    directory_ids = {node: number for node, number in present.directory_ids.items() if node in voters | outgoing}
    directory_ids |= {node: directories[node] for node in voters - present.voters}
    return Configuration(
        voters, learners, outgoing, directory_ids, {node: at for node, at in addresses.items() if node in nodes}
    )


def _require_learners(nodes: set[NodeId] | frozenset[NodeId], learners: frozenset[NodeId]) -> None:
    if missing := sorted(nodes - learners):
        raise InvalidConfiguration(f"node {missing[0]} is no learner: add it as one first, so that it can catch up")


def without_outgoing(joint: Configuration) -> Configuration:
    """Returns C_new of a joint configuration (section 4.3)."""
    nodes = joint.voters | joint.learners
    return Configuration(
        joint.voters,
        joint.learners,
        frozenset(),
        {node: number for node, number in joint.directory_ids.items() if node in nodes},
        {node: address for node, address in joint.addresses.items() if node in nodes},
    )


# -------------------------------------------------------------------- the configurations of a log


@frozen
class ConfigurationEntry:
    """A configuration and the place of its entry; the one with which a group begins has index 0."""

    index: LogIndex
    term: Term
    configuration: Configuration


@attrs.define
class Membership:
    """The configurations that one node knows of: the last committed one, and those in its log behind it.

    `known` is never empty, and in the order of the log. What is asked at each entry is kept as a value.
    """

    known: list[ConfigurationEntry]
    settled_index: LogIndex = NO_INDEX
    """All up to here is known to be committed."""
    current: Configuration = attrs.field(init=False)
    """The configuration in force."""
    is_moving: bool = attrs.field(init=False)
    """True while the configuration in force is not known to be committed, or is joint."""
    last_index: LogIndex = attrs.field(init=False)
    """The index of the entry of the configuration in force."""

    def __attrs_post_init__(self) -> None:
        self._keep()

    def _keep(self) -> None:
        last = self.known[-1]
        self.current, self.last_index = last.configuration, last.index
        self.is_moving = len(self.known) > 1 or last.configuration.is_joint

    @classmethod
    def restore(cls, initial: Configuration, stored: bytes, holds: Callable[[LogIndex, Term], bool]) -> "Membership":
        """Returns that of a node whose hard state has `stored`, and whose log `holds` an index with a term.

        Of the configurations that were stored, the first is committed. Of the others those count whose entry is in the
        log: an entry may have been replaced since, or never have been written.
        """
        found = decode_stored(stored)
        if not found:
            return cls([ConfigurationEntry(NO_INDEX, NO_TERM, initial)])
        first, *rest = found
        kept = [entry for entry in rest if entry.index > first.index and holds(entry.index, entry.term)]
        return cls([first, *kept], first.index)

    @property
    def has_changed(self) -> bool:
        """True if the group has, or may have, other members than those it began with."""
        return self.known[-1].index > NO_INDEX

    @property
    def is_known(self) -> bool:
        """True if the members have changed, and are known to be committed."""
        return self.has_changed and self.is_settled

    @property
    def is_settled(self) -> bool:
        """True if the configuration in force is known to be committed."""
        return len(self.known) == 1

    def may_campaign(self, node: NodeId, directory_id: int) -> bool:
        """Returns True if the node is a voter, or was one before an entry that may not be committed.

        The others may still need the node that has that entry to lead, until it is committed (section 4.2.2).
        """
        entries = self.known[-2:]
        return any(entry.configuration.counts(node, directory_id) for entry in entries)

    def touches(self, entries: Sequence[Entry]) -> bool:
        """Returns True if an append of `entries` changes the configuration in force."""
        if entries[0].index <= self.last_index:
            return True
        return EntryKind.CONFIGURATION in [entry.batch.kind for entry in entries]

    def append(self, entries: Sequence[Entry]) -> tuple[ConfigurationEntry, ...]:
        """The log is about to have `entries`, from the first of which on it may have had others.

        Returns the configurations that they replace. Until they are durable, these may be in the log.
        """
        replaced = tuple(
            [entry for entry in self.known if entry.index > self.settled_index and entry.index >= entries[0].index]
        )
        del self.known[len(self.known) - len(replaced) :]
        for entry in entries:
            if entry.batch.kind is EntryKind.CONFIGURATION and entry.index > self.settled_index:
                configuration = Configuration.decode(bytes(entry.batch.data))
                self.known.append(ConfigurationEntry(entry.index, entry.term, configuration))
        self._keep()
        return replaced

    def settle(self, commit_index: LogIndex) -> bool:
        """All up to `commit_index` is committed. Returns True if a configuration has become so by it."""
        before = len(self.known)
        while len(self.known) > 1 and self.known[1].index <= commit_index:
            del self.known[0]
        self.settled_index = self.known[0].index
        self._keep()
        return len(self.known) < before

    def reset(self, committed: bytes) -> tuple[ConfigurationEntry, ...]:
        """The log is replaced by a snapshot; `committed` is its leader's last committed configuration.

        Returns what was known before, which may be in the log until the reset is durable; nothing if that stays. Also a
        configuration that has only become committed is to be stored so: its entry leaves the log.
        """
        before = tuple(self.known)
        found = decode_stored(committed)
        if found and found[0].index > self.settled_index:
            self.known, self.settled_index = found[:1], found[0].index
        else:
            del self.known[1:]
        self._keep()
        return before if tuple(self.known) != before else ()

    def snapshot(self) -> bytes:
        """Returns the last committed configuration as bytes, for a snapshot; none if it is the first."""
        return _encode_entries(self.known[:1])

    def encode(self, replaced: Sequence[ConfigurationEntry] = ()) -> bytes:
        """Returns all that is known as bytes, for the hard state; none if nothing has changed yet."""
        return _encode_entries([self.known[0], *replaced, *self.known[1:]])


def _encode_entries(entries: Sequence[ConfigurationEntry]) -> bytes:
    if len(entries) == 1 and entries[0].index == NO_INDEX:
        return b""
    packed: bytes = msgpack.packb([(entry.index, entry.term, entry.configuration.encode()) for entry in entries])
    return packed


def decode_stored(stored: bytes) -> list[ConfigurationEntry]:
    """Returns what `Membership.encode` has encoded. Raises `InvalidConfiguration` for other bytes."""
    if not stored:
        return []
    rows = _unpack(stored)
    if not isinstance(rows, list) or not rows:
        raise InvalidConfiguration("these are no configurations")
    found: list[ConfigurationEntry] = []
    for row in rows:
        match row:
            case [int(index), int(term), bytes(data)] if index >= 0 <= term:
                found.append(ConfigurationEntry(LogIndex(index), Term(term), Configuration.decode(data)))
            case _:
                raise InvalidConfiguration("this is no place of a configuration")
    return found

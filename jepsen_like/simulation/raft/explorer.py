"""Every state that a small group can reach: the real core and its writes, explored breadth first.

A *state* is what three nodes are, know and have on disk, the messages between them, and what may still happen. From
each state every single thing that can happen next is tried: any message is delivered (so any order, and any loss: a
message that is never delivered), any disk completes its next write, any follower loses patience, a leader sends
heartbeats (none unless the scope asks for them), the leader takes an entry, a node loses power. Timers need no clock:
any follower may lose patience at any moment, which is worse than any real clock. Where a scope asks for trims, a node
may let any part leave of what it has committed and has on disk; its disk knows at once. Where it asks for changes, any
leader may be asked for any change of the members, or to hand over. Not searched: leaders that step
down for want of a quorum, connections that end, loads from the disk, and reads.

What makes it fast enough to be useful in Python:

- nodes do not share anything, so a node's reaction is computed once for each of *its* states and remembered: most of
  the search is looking up integers;
- states that differ only in the names of the nodes are one state (`fingerprint` takes a renaming);
- what can matter no more is left out (`reduction`), and so is an action that changes nothing and sends nothing: the
  state before it can do all that the state after it can, for a message need not be delivered and a budget not be used.

Checked in every state: one leader a term; equal terms at an index mean equal logs before it; what a node takes for
committed is what leaders have committed, and stays so; a leader holds what leaders of earlier terms committed. Checked
on every message as it leaves: the audits A1 (a vote or candidacy is durable, and the only one in its term) and A2 (what
is acknowledged is durable). Checked at every commit: A3 (a majority has it on disk); and then, as often as a disk
changes, A4 (no node without it could be elected by what is on the disks).
"""

import copy
import functools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations
from typing import Any, NamedTuple

import attrs

from jepsen_like.simulation.kernel.explorer import BrokenPromise, Explorer
from jepsen_like.simulation.raft.record import as_recent, have_majorities
from jepsen_like.simulation.raft.reduction import Prospects, attainable_by, is_spent, leaderships_that_matter, told_by
from jepsen_like.simulation.raft.scope import Scope
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.effects import Persist, Send
from raft.events import ChangeMembers, Event, Persisted, Propose, Receive, Tick, TransferLeadership, Trimmed
from raft.fingerprint import (
    fingerprint,
    message_fingerprint,
    outbox_fingerprint,
    persist_fingerprint,
    start_fingerprint,
)
from raft.log_view import LogView
from raft.membership import AddLearner, ChangeVoters, Configuration, Promote, Remove
from raft.messages import AppendAccepted, Message, RequestVote, VoteReply
from raft.model import (
    NO_POSITION,
    ORIGIN,
    Batch,
    Entry,
    EntryKind,
    HardState,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Term,
    Token,
)
from raft.outbox import Outbox
from raft.quorum import majority
from raft.render import render
from raft.roles import Leader

PATIENCE_S = 1000.0
"""Between any two events, so that no promise of patience ever holds."""
CACHE_BYTES = 1 << 30


def _entries_of(terms: tuple[int, ...]) -> list[Entry]:
    return [
        Entry(LogIndex(at), Term(term), Offset(at - 1), Batch(EntryKind.RECORDS, 1, 0, b"%d@%d" % (at, term), 0))
        for at, term in enumerate(terms, start=1)
    ]


class _Earliest(random.Random):
    """Draws nothing: timers fire when the search decides."""

    def uniform(self, a: float, b: float) -> float:
        return a


@attrs.define
class ExplorerNode:
    """A core, its outbox, and a disk that completes one write at a time; the disk's `log` follows its `start`."""

    core: RaftCore
    log: list[Entry]
    hard_state: HardState
    outbox: Outbox = attrs.field(factory=Outbox)
    writes: deque[Persist] = attrs.field(factory=deque)
    start: LogStart = ORIGIN

    def position(self) -> Position:
        """Returns the end of the durable log."""
        return Position(self.log[-1].index, self.log[-1].term) if self.log else self.start.position

    def count_kept(self, last_index: int) -> int:
        """Returns the number of entries of the durable log up to `last_index`."""
        return max(0, last_index - self.start.index)

    def floor(self) -> Position:
        """Returns the former end of the durable log, if damage has cut it since and it holds less; else (0, 0)."""
        floor = self.hard_state.floor
        return NO_POSITION if as_recent(self.position(), floor) else floor


def _has(node: ExplorerNode, index: int, term: Term) -> bool:
    """Returns True if the entry is on the node's disk, or was committed and has left it."""
    start = node.start
    if index <= start.index:
        return index < start.index or start.position.term == term
    at = node.count_kept(index) - 1
    return len(node.log) > at and node.log[at].term == term


def _view_of(start: LogStart, log: list[Entry]) -> LogView:
    if start == ORIGIN:
        return LogView.of(log, cache_bytes_max=CACHE_BYTES)
    runs: list[tuple[LogIndex, Term]] = []
    for entry in log:
        if not runs or runs[-1][1] != entry.term:
            runs.append((entry.index, entry.term))
    return LogView.restore(
        runs=runs,
        last_index=log[-1].index if log else start.index,
        end_offset=log[-1].end_offset if log else start.offset,
        cache_bytes_max=CACHE_BYTES,
        entries=log,
        start=start,
    )


def _waiting(node: ExplorerNode) -> list[Send]:
    """Returns the messages that the outbox will send; it is going to drop those that it holds from older terms."""
    return [send for send in node.outbox._held if send.message.term >= node.core.term]


def _terms_to(node: ExplorerNode, last_index: int) -> Iterator[tuple[LogIndex, Term]]:
    """Index and term of all that the disk tells of its log up to `last_index`."""
    if 0 < node.start.index <= last_index:
        yield node.start.index, node.start.position.term
    for entry in node.log[: node.count_kept(last_index)]:
        yield entry.index, entry.term


def _entries_behind(log: LogView, index: LogIndex) -> tuple[Entry, ...]:
    if log.last_index == index:
        return ()
    entries = log.cached_entries(LogIndex(index + 1), CACHE_BYTES)
    assert entries is not None, "all of a small log is in memory"
    return entries


@functools.lru_cache
def _changes_of(nodes: int) -> tuple[Event, ...]:
    """Returns all that a leader may be asked for, of so many nodes."""
    ids = [NodeId(node) for node in range(1, nodes + 1)]
    sets = [frozenset(chosen) for size in range(1, nodes + 1) for chosen in combinations(ids, size)]
    changes = [kind(node) for node in ids for kind in (Remove, AddLearner, Promote)]
    asked = [*changes, *map(ChangeVoters, sets)]
    events = [ChangeMembers(Token(1), change) for change in asked]
    return (*events, *(TransferLeadership(Token(1), node) for node in ids))


class Posted(NamedTuple):
    """A message on its way."""

    sender: NodeId
    to: NodeId
    message: Message


class ExplorerAction(NamedTuple):
    """One thing that happens to one node; `posted` is the message or the change, or counts what damage leaves or a trim
    takes."""

    kind: str
    node: int
    posted: int = -1


class Reaction(NamedTuple):
    """The reaction of one node to an event."""

    local: int
    posted: tuple[int, ...]
    committed: int
    """The new commit index of a leader; 0 if it did not commit."""
    settled: int
    """The commit index of any node, if it or the log below has changed; else 0."""
    crowned: bool
    """True if it became a leader."""


class State(NamedTuple):
    """One global state. `locals_` by node; `network` sorted."""

    locals_: tuple[int, ...]
    network: tuple[int, ...]
    timeouts: int
    entries: int
    crashes: int
    heartbeats: int
    damages: int
    trims: int
    changes: int
    committed: tuple[tuple[int, int, int], ...]
    """Every (index, term) that any leader has committed, in order, and the term of that leader."""
    leaders: tuple[tuple[int, int], ...]
    """(term, node) of every leadership so far."""


class RaftExplorer(Explorer[State, ExplorerAction]):
    """One search. `make_core` builds the cores, so that a test can search a core with a deliberate bug.

    `reduced=False` leaves nothing out, so that a test can see whether that makes a difference. What is left out is not
    taken on trust: each message that is found to be spent is delivered once all the same (`_prove_spent`).
    """

    def __init__(self, scope: Scope, *, make_core: Callable[..., RaftCore] = RaftCore, reduced: bool = True) -> None:
        super().__init__()
        self.scope = scope
        self._make_core = make_core
        # What can matter no more is proved for disks that only grow or are overwritten.
        self._reduced = reduced and not scope.damages
        # One entry a message: an old entry can then become a majority's before the leader's own first one does.
        self._config = RaftConfig(append_bytes_max=1, cache_bytes_max=CACHE_BYTES)
        self._ids = [NodeId(node) for node in range(1, scope.nodes + 1)]
        self._configuration = Configuration(frozenset(self._ids))
        orders = (
            [tuple(self._ids)] if scope.changes else permutations(self._ids)
        )  # entries of members have names in them
        self._renamings = [dict(zip(self._ids, order, strict=True)) for order in orders]
        self._identity = self._renamings[0]
        # How a renaming reorders: `_slots[r][new]` is the old place of the node that is now at `new`.
        self._slots = [
            tuple(sorted(range(scope.nodes), key=lambda old, r=rename: r[self._ids[old]]))  # type: ignore[misc]
            for rename in self._renamings
        ]
        self._node_ids: dict[tuple[Any, ...], int] = {}
        self._renamed_ids: dict[tuple[Any, ...], int] = {}
        self._node_names: list[tuple[int, ...]] = []
        self._views: list[ExplorerNode] = []
        self._posted: list[Posted] = []
        self._posted_ids: dict[Posted, int] = {}
        self._posted_terms: list[int] = []
        self._posted_names: list[tuple[int, ...]] = []
        self._reactions: dict[ExplorerAction | tuple[ExplorerAction, int], Reaction | str] = {}
        self._pairs: dict[tuple[int, int], str] = {}
        self._electable: dict[tuple[Any, ...], str] = {}
        self._spent: dict[tuple[int, int, int, Prospects], bool] = {}
        self._ceilings: dict[tuple[int, ...], int] = {}
        self._least: dict[tuple[int, ...], tuple[int, list[int]]] = {}

    def words(self, action: ExplorerAction) -> str:
        """For example `persist n2`."""
        node = self._ids[action.node]
        if action.kind == "damage":
            return f"damage n{node} down to {action.posted} entries"
        if action.kind == "trim":
            return f"trim n{node} up to {action.posted}"
        if action.kind == "change":
            return f"change n{node}: {_changes_of(len(self._ids))[action.posted]}"
        if action.kind != "deliver":
            return f"{action.kind} n{node}"
        posted = self._posted[action.posted]
        return f"deliver n{posted.sender}→n{posted.to} {posted.message}"

    # ---------------------------------------------------------------- states

    def starts(self) -> Iterator[State]:
        """From empty logs, from logs that diverge, or from the scope's own logs."""
        return map(self._first_state, self.scope.starts)

    def _first_state(self, terms_of_logs: tuple[tuple[int, ...], ...]) -> State:
        logs = [_entries_of(terms) for terms in terms_of_logs]
        newest = Term(max((entry.term for log in logs for entry in log), default=0))
        state = HardState(newest)
        nodes = [
            ExplorerNode(self._start(node, ORIGIN, log, state, 0.0), log, state)
            for node, log in zip(self._ids, logs, strict=True)
        ]
        places = tuple(self._intern_node(node) for node in nodes)
        scope = self.scope
        committed = self._committed_before(nodes) if scope.damages else ()
        faults = (scope.crashes, scope.heartbeats, scope.damages, scope.trims, scope.changes)
        budgets = (scope.timeouts, scope.entries, *faults)
        return State(places, (), *budgets, committed, ())

    @staticmethod
    def _committed_before(nodes: list[ExplorerNode]) -> tuple[tuple[int, int, int], ...]:
        """Returns the entries that a majority holds at first: with damaged disks, an earlier leader committed them."""
        held = sorted({(entry.index, entry.term) for node in nodes for entry in node.log})
        return tuple(
            (index, term, term)
            for index, term in held
            if sum(_has(node, index, term) for node in nodes) >= majority(len(nodes))
        )

    def _start(self, node: NodeId, start: LogStart, log: list[Entry], hard_state: HardState, now: float) -> RaftCore:
        return self._make_core(
            node_id=node,
            configuration=self._configuration,
            config=self._config,
            log=_view_of(start, log),
            hard_state=hard_state,
            rng=_Earliest(),
            now=now,
            founded=True,
        )

    def possible(self, state: State) -> Iterator[ExplorerAction]:
        """Every single thing that can happen next, as far as the scope goes."""
        last = -1
        for posted in state.network:
            if posted != last:
                yield ExplorerAction("deliver", self._posted[posted].to - 1, posted)
                last = posted
        for place, local in enumerate(state.locals_):
            node = self._views[local]
            leads = isinstance(node.core.role, Leader)
            if node.writes:
                yield ExplorerAction("persist", place)
            if state.timeouts and not leads:
                yield ExplorerAction("timeout", place)
            if state.entries and leads:
                yield ExplorerAction("propose", place)
            if state.heartbeats and leads:
                yield ExplorerAction("heartbeat", place)
            if state.changes and leads:
                for which in range(len(_changes_of(len(self._ids)))):
                    yield ExplorerAction("change", place, which)
            if state.crashes:
                yield ExplorerAction("crash", place)
            if state.damages:
                for kept in range(len(node.log)):
                    yield ExplorerAction("damage", place, kept)
            if state.trims:
                core = node.core
                for last in range(core.log.start.index + 1, min(core.commit_index, core.log.durable_index) + 1):
                    yield ExplorerAction("trim", place, last)

    def after(self, state: State, action: ExplorerAction) -> State:
        """The state after `action`; `state` itself if that changes nothing and sends nothing."""
        place = action.node
        reaction = self._react(state.locals_[place], action)
        if isinstance(reaction, str):
            raise BrokenPromise(reaction)
        if self._reduced and reaction.local == state.locals_[place] and not reaction.posted:
            return state
        locals_ = (*state.locals_[:place], reaction.local, *state.locals_[place + 1 :])
        timeouts = state.timeouts - (action.kind == "timeout")
        crashes = state.crashes - (action.kind == "crash")
        network = list(state.network)
        if action.kind == "deliver":
            network.remove(action.posted)
        network += reaction.posted
        committed, leaders = state.committed, state.leaders
        if reaction.crowned:
            leaders = self._add_leader(leaders, self._views[reaction.local], committed)
        if reaction.committed > len(committed):
            committed = self._add_committed(committed, self._views[reaction.local], reaction.committed, locals_)
        if reaction.settled:
            self._check_settled(committed, self._views[reaction.local].core, reaction.settled)
        if committed and (action.kind == "persist" or committed is not state.committed):
            self._check_electable(committed, locals_)
        for other, local in enumerate(locals_):
            if other != place:
                self._compare(reaction.local, local)
        if self._reduced:
            # Each change may have one node campaign without a timeout, and so may each heartbeat of one that hands over.
            asked = self.scope.changes + state.heartbeats if self.scope.changes else 0
            prospects = Prospects(self._ceiling(locals_, network, timeouts + asked), timeouts, crashes)
            network = [posted for posted in network if not self._is_spent(posted, locals_, prospects)]
            leaders = leaderships_that_matter(leaders, [self._views[local] for local in locals_], prospects)
        network.sort()
        entries = state.entries - (action.kind == "propose")
        heartbeats = state.heartbeats - (action.kind == "heartbeat")
        damages = state.damages - (action.kind == "damage")
        trims, changes = state.trims - (action.kind == "trim"), state.changes - (action.kind == "change")
        budgets = (timeouts, entries, crashes, heartbeats, damages, trims, changes)
        return State(locals_, tuple(network), *budgets, committed, leaders)

    def key(self, state: State) -> int:
        """One number for the state and all its namesakes."""
        least, renamings = self._least_names(state.locals_)
        names, key = self._posted_names, None
        for which in renamings:
            rename = self._renamings[which]
            network = tuple(sorted([names[posted][which] for posted in state.network]))
            renamed = (network, tuple([(term, rename[NodeId(node)]) for term, node in state.leaders]))
            if key is None or renamed < key:
                key = renamed
        faults = (state.crashes, state.heartbeats, state.damages, state.trims, state.changes)
        return hash((least, key, state.timeouts, state.entries, *faults, state.committed))

    def _least_names(self, locals_: tuple[int, ...]) -> tuple[int, list[int]]:
        """The least of all renamings of three nodes, as a hash, and which ones give it: mostly one."""
        known = self._least.get(locals_)
        if known is None:
            renamed = [
                tuple(self._node_names[locals_[old]][which] for old in slots) for which, slots in enumerate(self._slots)
            ]
            least = min(renamed)
            known = hash(least), [which for which, names in enumerate(renamed) if names == least]
            self._least[locals_] = known
        return known

    def _ceiling(self, locals_: tuple[int, ...], network: list[int], timeouts: int) -> Term:
        known = self._ceilings.get(locals_)
        if known is None:
            known = self._ceilings[locals_] = max(attainable_by(self._views[local].core) for local in locals_)
        told = self._posted_terms
        return Term(max([known, *[told[posted] for posted in network]]) + timeouts)

    def _is_spent(self, posted: int, locals_: tuple[int, ...], prospects: Prospects) -> bool:
        sent = self._posted[posted]
        sender, receiver = locals_[sent.sender - 1], locals_[sent.to - 1]
        key = (posted, sender, receiver, prospects)
        known = self._spent.get(key)
        if known is None:
            known = is_spent(sent.message, self._views[sender], self._views[receiver], prospects)
            self._spent[key] = known
            if known:
                self._prove_spent(posted, sender, receiver, prospects)
        return known

    def _prove_spent(self, posted: int, sender: int, receiver: int, prospects: Prospects) -> None:
        """Deliver what `is_spent` leaves out by a rule whose breach the search should find: old terms are ignored.

        The receiver must not change, but for answers that wait for a write, and every answer must be spent as well.
        """
        delivery = ExplorerAction("deliver", self._posted[posted].to - 1, posted)
        reaction = self._react(receiver, delivery)
        if isinstance(reaction, str):
            raise BrokenPromise(reaction)
        before, after = self._views[receiver], self._views[reaction.local]
        waiting = _waiting(before)
        if self._without_outbox(before) != self._without_outbox(after) or _waiting(after)[: len(waiting)] != waiting:
            raise BrokenPromise(f"reduction: {self.words(delivery)} was left out, and changes its receiver")
        answers = [self._posted[answer] for answer in reaction.posted]
        answers += [Posted(after.core.node_id, send.to, send.message) for send in _waiting(after)[len(waiting) :]]
        for answer in answers:
            asker = self._views[sender]
            if answer.to != asker.core.node_id or not is_spent(answer.message, after, asker, prospects):
                raise BrokenPromise(f"reduction: {self.words(delivery)} was left out, and draws {answer.message}")

    def _without_outbox(self, node: ExplorerNode) -> tuple[Any, ...]:
        return self._node_fingerprint(attrs.evolve(node, outbox=Outbox()), self._identity)

    # ---------------------------------------------------------------- one node

    def _react(self, local: int, action: ExplorerAction) -> Reaction | str:
        known = self._reactions.get((action, local))
        if known is None:
            node = copy.deepcopy(self._views[local])
            try:
                known = self._carry_out(node, action)
            except AssertionError as error:
                known = f"invariant: {error} ({render(node.core)})"
            except BrokenPromise as broken:
                known = str(broken)
            self._reactions[action, local] = known
        return known

    def _carry_out(self, node: ExplorerNode, action: ExplorerAction) -> Reaction:
        before, start, end, led = (
            node.core.commit_index,
            node.core.log.start,
            node.core.log.position,
            node.core.term if isinstance(node.core.role, Leader) else None,
        )
        posted: list[int] = []
        match action.kind:
            case "deliver":
                delivered = self._posted[action.posted]
                self._step(node, Receive(delivered.sender, delivered.message), posted)
            case "persist":
                self._complete_write(node, posted)
            case "timeout":
                self._step(node, Tick(), posted)
            case "heartbeat":
                self._send_heartbeats(node, posted)
            case "trim":
                self._trim(node, LogIndex(action.posted), posted)
            case "change":
                self._step(node, _changes_of(len(self._ids))[action.posted], posted)
            case "propose":
                data = b"%d" % node.core.log.end_offset
                self._step(node, Propose(Token(1), Batch(EntryKind.RECORDS, 1, 0, data, 0)), posted)
            case _:
                now = node.core._now
                if action.kind == "damage":
                    end, floor = node.position(), node.hard_state.floor
                    del node.log[action.posted :]
                    higher = end if as_recent(end, floor) else floor
                    node.hard_state = attrs.evolve(node.hard_state, floor=higher)
                core = self._start(node.core.node_id, node.start, node.log, node.hard_state, now)
                node = ExplorerNode(core, node.log, node.hard_state, start=node.start)
        leads = isinstance(node.core.role, Leader)
        reached, log = node.core.commit_index, node.core.log
        committed = reached if leads and reached > before else 0
        has_changed = reached != before or log.start != start or not log.matches(end.index, end.term)
        settled = reached if has_changed else 0
        return Reaction(self._intern_node(node), tuple(posted), committed, settled, leads and node.core.term != led)

    def _send_heartbeats(self, node: ExplorerNode, posted: list[int]) -> None:
        """Its timer fires; that a leader without answers of a majority steps down is left out."""
        role = node.core.role
        assert isinstance(role, Leader)
        role.heartbeat_due, role.quorum_check_due = node.core._now, float("inf")
        self._step(node, Tick(), posted)

    def _trim(self, node: ExplorerNode, last_index: LogIndex, posted: list[int]) -> None:
        """Everything up to `last_index` leaves the log; what became of the state machine is no matter of the core's."""
        last = node.log[node.count_kept(last_index) - 1]
        position = Position(last_index, last.term)
        start = LogStart(position, last.end_offset, position)
        del node.log[: node.count_kept(last_index)]
        node.start = start
        self._step(node, Trimmed(start), posted)

    def _step(self, node: ExplorerNode, event: Event, posted: list[int]) -> None:
        if isinstance(event, Receive):  # every message here is a correct node's
            assert (objection := node.core.objection(event.sender, event.message)) is None, objection
        for effect in node.core.step(node.core._now + PATIENCE_S, event):
            match effect:
                case Persist():
                    node.writes.append(effect)
                case Send():
                    if not node.outbox.hold(effect):
                        self._post(node, effect, posted)
                case _:
                    pass  # what a search does not look at: answers, commits (the core tells its index), roles

    def _complete_write(self, node: ExplorerNode, posted: list[int]) -> None:
        write = node.writes.popleft()
        if write.hard_state is not None:
            self._check_vote(node, write.hard_state)
            node.hard_state = write.hard_state
        if write.start is not None:
            node.start, node.log = write.start, []
        if write.entries:
            del node.log[node.count_kept(write.entries[0].index - 1) :]
            node.log.extend(write.entries)
        self._step(node, Persisted(write.write_id), posted)
        for send in node.outbox.release(write.write_id, node.core.term):
            self._post(node, send, posted)

    def _post(self, node: ExplorerNode, send: Send, posted: list[int]) -> None:
        self._audit(node, send)
        posted.append(self._intern_posted(Posted(node.core.node_id, send.to, send.message)))

    # ---------------------------------------------------------------- names

    def _intern_node(self, node: ExplorerNode) -> int:
        print_ = self._node_fingerprint(node, self._identity)
        known = self._node_ids.get(print_)
        if known is None:
            known = self._node_ids[print_] = len(self._views)
            self._views.append(node)
            self._node_names.append(
                tuple(self._name(self._node_fingerprint(node, rename)) for rename in self._renamings)
            )
        return known

    def _intern_posted(self, posted: Posted) -> int:
        known = self._posted_ids.get(posted)
        if known is None:
            known = self._posted_ids[posted] = len(self._posted)
            self._posted.append(posted)
            self._posted_terms.append(told_by(posted.message))
            message = message_fingerprint(posted.message)
            self._posted_names.append(
                tuple(self._name((r[posted.sender], r[posted.to], message)) for r in self._renamings)
            )
        return known

    def _name(self, print_: tuple[Any, ...]) -> int:
        return self._renamed_ids.setdefault(print_, len(self._renamed_ids))

    @staticmethod
    def _node_fingerprint(node: ExplorerNode, rename: dict[NodeId, NodeId]) -> tuple[Any, ...]:
        vote = node.hard_state.vote
        return (
            fingerprint(node.core, rename),
            node.hard_state.term,
            rename[vote] if vote is not None else 0,
            (node.hard_state.floor.term, node.hard_state.floor.index),
            start_fingerprint(node.start),
            tuple((entry.term, entry.base_offset, entry.batch.data) for entry in node.log),
            outbox_fingerprint(node.outbox, node.core.term, rename),
            tuple(persist_fingerprint(write, rename) for write in node.writes),
        )

    # ---------------------------------------------------------------- promises

    @staticmethod
    def _check_vote(node: ExplorerNode, new: HardState) -> None:
        """A1: the disk has one vote in a term, and its term does not fall."""
        old = node.hard_state
        if new.term < old.term or (new.term == old.term and old.vote not in (None, new.vote)):
            now = f"for n{new.vote} in term {new.term}"
            raise BrokenPromise(f"A1: n{node.core.node_id} voted for n{old.vote} in term {old.term}, and now {now}")

    @staticmethod
    def _audit(node: ExplorerNode, send: Send) -> None:
        """A1 and A2: what a message promises is on this disk as it leaves."""
        durable, message = node.hard_state, send.message
        me = node.core.node_id
        match message:
            case RequestVote(term=term):
                if (durable.term, durable.vote) != (term, me):
                    raise BrokenPromise(f"A1: n{me} asks for votes in term {term} before its own vote is durable")
            case VoteReply(term=term, granted=True):
                if (durable.term, durable.vote) != (term, send.to):
                    raise BrokenPromise(f"A1: n{me} votes for n{send.to} in term {term} before that is durable")
            case AppendAccepted(term=term, match_index=match_index):
                view = node.core.log
                held = node.position().index >= match_index and all(
                    view.matches(index, term) for index, term in _terms_to(node, match_index)
                )
                if not held or durable.term < term:
                    raise BrokenPromise(f"A2: n{me} acknowledges {match_index} in term {term} before that is durable")
            case _:
                pass

    def _add_leader(
        self, leaders: tuple[tuple[int, int], ...], node: ExplorerNode, committed: tuple[tuple[int, int, int], ...]
    ) -> tuple[tuple[int, int], ...]:
        """At most one leader in each term; and a new leader holds what was committed before its term."""
        term, me = node.core.term, node.core.node_id
        known = dict(leaders)
        if known.setdefault(term, me) != me:
            raise BrokenPromise(f"election safety: n{known[term]} and n{me} both lead in term {term}")
        for index, entry_term, leader_term in committed:
            if leader_term < term and not node.core.log.matches(LogIndex(index), Term(entry_term)):
                raise BrokenPromise(
                    f"leader completeness: n{me} leads in term {term} without the committed {index}@{entry_term}"
                )
        return tuple(sorted(known.items()))

    def _add_committed(
        self, committed: tuple[tuple[int, int, int], ...], node: ExplorerNode, upto: int, locals_: tuple[int, ...]
    ) -> tuple[tuple[int, int, int], ...]:
        """A3 for what a leader has just committed, and no node leads in a later term without it."""
        nodes = [self._views[local] for local in locals_]
        term, leader_term = node.core.log.term_at(LogIndex(upto)), node.core.term
        newest = Position(LogIndex(upto), term)
        # A copy that damage took away counts while a floor stands for it.
        having = [n.core.node_id for n in nodes if _has(n, upto, term) or as_recent(n.floor(), newest)]
        if not have_majorities(having, self._members_in(_entries_behind(node.core.log, node.core.log.start.index))):
            raise BrokenPromise(f"A3: n{node.core.node_id} commits {upto}@{term}, which the disks of {having} hold")
        for other in nodes:
            later = isinstance(other.core.role, Leader) and other.core.term > leader_term
            if later and not other.core.log.matches(LogIndex(upto), term):
                raise BrokenPromise(
                    f"leader completeness: n{other.core.node_id} leads without the committed {upto}@{term}"
                )
        new = range(len(committed) + 1, upto + 1)
        return committed + tuple((index, node.core.log.term_at(LogIndex(index)), leader_term) for index in new)

    @staticmethod
    def _check_settled(committed: tuple[tuple[int, int, int], ...], core: RaftCore, upto: int) -> None:
        """Check that a leader committed what a node takes for committed, and that the node holds all of it."""
        if upto > len(committed):
            raise BrokenPromise(
                f"state-machine safety: n{core.node_id} takes {upto} for committed, which no leader has committed"
            )
        for index, term, _ in committed[:upto]:
            if not core.log.matches(LogIndex(index), Term(term)):
                raise BrokenPromise(
                    f"state-machine safety: n{core.node_id} has committed another entry than {index}@{term}"
                )

    def _check_electable(self, committed: tuple[tuple[int, int, int], ...], locals_: tuple[int, ...]) -> None:
        """A4: no node without the last committed entry could win by the logs that are on the disks."""
        upto, term, _ = committed[-1]
        key = (locals_, upto, term)
        sentence = self._electable.get(key)
        if sentence is None:
            sentence = self._electable[key] = self._pretender(
                [self._views[local] for local in locals_], upto, Term(term)
            )
        if sentence:
            raise BrokenPromise(sentence)

    def _members_in(self, entries: Sequence[Entry]) -> Configuration:
        """Returns the last configuration in these entries, of a log that was not trimmed."""
        for entry in reversed(entries if self.scope.changes else ()):
            if entry.batch.kind is EntryKind.CONFIGURATION:
                return Configuration.decode(bytes(entry.batch.data))
        return self._configuration

    def _pretender(self, nodes: list[ExplorerNode], upto: int, term: Term) -> str:
        for candidate in nodes:
            if not _has(candidate, upto, term) and candidate.floor() == NO_POSITION:
                own = candidate.position()
                votes = [
                    voter.core.node_id
                    for voter in nodes
                    if as_recent(own, voter.position()) and as_recent(own, voter.floor())
                ]
                if have_majorities(votes, self._members_in(candidate.log)):
                    return f"A4: {upto}@{term} is committed, but n{candidate.core.node_id} can be elected without it"
        return ""

    def _compare(self, one: int, other: int) -> None:
        """Log matching and equal committed prefixes, once for each pair of node states."""
        pair = (one, other) if one < other else (other, one)
        sentence = self._pairs.get(pair)
        if sentence is None:
            sentence = self._pairs[pair] = self._difference(self._views[one].core, self._views[other].core)
        if sentence:
            raise BrokenPromise(sentence)

    @staticmethod
    def _difference(one: RaftCore, other: RaftCore) -> str:
        """Returns the difference between two logs: their common entries, and the later of their two starts."""
        begun = LogIndex(max(one.log.start.index, other.log.start.index))
        if begun > min(one.log.last_index, other.log.last_index):
            return ""
        mine, theirs = _entries_behind(one.log, begun), _entries_behind(other.log, begun)
        if one.log.term_at(begun) != other.log.term_at(begun):
            agreed = begun - 1
        else:
            same = next((at for at in range(min(len(mine), len(theirs))) if mine[at] != theirs[at]), None)
            if same is None:
                return ""
            mine, theirs, agreed = mine[same:], theirs[same:], begun + same
        if any(a.term == b.term for a, b in zip(mine, theirs, strict=False)):
            return f"log matching: n{one.node_id} and n{other.node_id} differ at {agreed + 1}, and agree on a term behind it"
        if min(one.commit_index, other.commit_index) > agreed:
            return f"n{one.node_id} and n{other.node_id} have committed different entries at {agreed + 1}"
        return ""

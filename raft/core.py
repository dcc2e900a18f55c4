"""RaftCore: who leads, what is committed, and what must be durable before a message about it is sent.

The one decider of this package. `step(now, event)` takes a fact and returns orders (effects); it owns no socket, file,
clock or random source, so a test, a simulator and the Trio driver run the very same code. Everything that changes the
node's term, vote, role, log or commit index lives here; the rules are in quorum, log_view, progress, read_index.

What it holds to (paper sections 5.1-5.4, 8; dissertation 6.4, 9.6, 10.2.1; persistence rules in brackets):

- A vote leaves, and a candidate's own vote counts, once the vote is durable [P1]; a term before its entries [P2].
- A follower acknowledges what is durable, and never more than this leader's messages have proved [P3].
- The leader writes to its disk in parallel with replication (dissertation 10.2.1): it sends before it writes, and
  counts its own copy only once that is flushed [P4].
- Entries are replaced only where a term proves a conflict, never at or below the commit index [P5].
- A leader commits by counting copies only of its own term's entries (section 5.4.2), so it begins with an empty one.
- Pre-vote, check-quorum and stickiness together keep a node that receives from few other nodes from unseating a leader.
- A read needs a commit in this leader's term and a majority that still recognizes this leader [P12].
- Only committed entries leave a log. A follower that lacks entries which the leader no longer has is reset to the
  leader's snapshot and log start.
- A node that remembers nothing takes part once every other member has answered what bounds it (`raft.recall`).
- A node whose log was truncated because of damage neither campaigns nor votes for a log shorter than its own was, until
  it holds as much again.
- Every proposal is answered once: committed, rejected (certainly not appended) or unknown [P14].
- A message that no correct peer can have sent changes nothing (`raft.objections`). No message moves the term further
  than `TERM_STEP_MAX`.

- All that counts votes or copies asks the configuration in force (`raft.membership`); a leader changes it, and hands
  over, by the rules of `raft.changes`.

Not here: client sessions, which are a rule of the state machine.
"""

import random
from collections import deque
from collections.abc import Sequence
from typing import assert_never

import attrs

from raft import changes, interruptions, invariants
from raft.config import RaftConfig
from raft.effects import (
    Answer,
    Commit,
    Committed,
    Effect,
    LoadEntries,
    MembersChanged,
    Persist,
    ReadReady,
    ReadRejected,
    Refusal,
    Rejected,
    RoleChanged,
    RoleName,
    Send,
    Unknown,
)
from raft.events import (
    ChangeMembers,
    Disconnected,
    Event,
    Loaded,
    Overslept,
    Persisted,
    Propose,
    ReadRequest,
    Receive,
    StepDown,
    Tick,
    TransferLeadership,
    Trimmed,
)
from raft.log_view import LogView
from raft.membership import Configuration, ConfigurationEntry, Membership
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestStanding,
    RequestVote,
    SnapshotReceived,
    StandingReply,
    TimeoutNow,
    VoteReply,
)
from raft.model import (
    NO_INDEX,
    NO_POSITION,
    NO_TERM,
    NO_WRITE,
    NOOP,
    Batch,
    Entry,
    HardState,
    LogIndex,
    LogStart,
    NodeId,
    Position,
    Term,
    Token,
    WriteId,
    entry_bytes,
)
from raft.objections import TERM_STEP_MAX, objection_to
from raft.progress import Progress
from raft.quorum import is_quorum, majority
from raft.recall import Recall
from raft.roles import Candidate, Follower, Leader, Pending, PendingWrite, PreCandidate, Role
from raft.staging import StagedSnapshot


class RaftCore:
    """One node of a group. Construct it with what the disk held; then feed it events in the order they happen.

    Unless it `takes_snapshots`, it refuses them while its own log is whole: where every log is whole, no leader has one
    to send. A node in term 0 has lost what it promised unless the group is `founded`, that is, known to have no other
    past; it then begins blank (`raft.recall`), and may know that it `was_member`. `rng` draws election timeouts, and
    the number of a blank node's question. `now` is seconds of any clock that does not run backwards; safety needs none.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        configuration: Configuration,
        config: RaftConfig,
        log: LogView,
        hard_state: HardState,
        rng: random.Random,
        now: float,
        takes_snapshots: bool = True,
        founded: bool = False,
        was_member: bool = False,
    ) -> None:
        self.node_id = node_id
        self.directory_id = hard_state.directory_id
        self.membership = Membership.restore(configuration, hard_state.configurations, log.holds)
        self.config = config
        self.log = log
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.floor = hard_state.floor
        self.commit_index = log.start.index
        self.membership.settle(self.commit_index)
        self.role: Role = Follower(now + rng.uniform(config.election_timeout_s_min, config.election_timeout_s_max))
        self._takes_snapshots = takes_snapshots
        self._rng = rng
        self._now = now
        self._leader_contact_at: float | None = None
        self._last_write = NO_WRITE
        self._durable_write = NO_WRITE
        self._hard_state_write = NO_WRITE
        self._pending_writes: deque[PendingWrite] = deque()
        self._staged: StagedSnapshot | None = None
        """The parts received so far of the snapshot that the leader of this term sends; None if there are none."""
        self._effects: list[Effect] = []
        self._told = (RoleName.FOLLOWER, self.term, self.leader)
        assert hard_state.term >= log.last_term, "the term must be durable before its entries (P2)"
        self._leave_floor()
        self.recall: Recall | None = None
        """The answers that this node has collected while it is blank; None once it takes part."""
        joins = node_id not in configuration.voters
        others = configuration.peers(node_id)
        if others and hard_state.term == NO_TERM and (joins or not founded):
            self.recall = Recall.of(rng, others, was_member=was_member, joins=joins)
            self.role = Follower(now)

    # ---------------------------------------------------------------- what one may ask

    @property
    def deadline(self) -> float:
        """The time at which the next `Tick` is due."""
        return self.role.deadline

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self.membership.current

    @property
    def leader(self) -> NodeId | None:
        """The leader of the present term, as far as this node knows."""
        match self.role:
            case Leader():
                return self.node_id
            case Follower(leader=leader):
                return leader
            case PreCandidate() | Candidate():
                return None
            case _:
                assert_never(self.role)

    @property
    def role_name(self) -> RoleName:
        """The role."""
        return self.role.name

    def objection(self, sender: NodeId, message: Message) -> str | None:
        """Returns why no correct peer can have sent `message` to this node, or None if `sender` may have.

        The caller should close the link of the sender. `step` ignores such a message in any case.
        """
        return objection_to(self, sender, message)

    # ---------------------------------------------------------------- the one dispatch

    def step(self, now: float, event: Event) -> list[Effect]:
        """Process one event. Returns the effects to carry out, in this order. Every event is accepted in every role."""
        before = invariants.Snapshot.of(self)
        self._now = now
        match event:
            case Receive(sender=sender, message=message):
                # Even of nodes that are not in the configuration, since those that are may not be known yet (section 4.1).
                if sender != self.node_id and objection_to(self, sender, message) is None:
                    self._on_message(sender, message)
            case Persisted(write_id=write_id):
                self._on_persisted(write_id)
            case Propose(token=token, batch=batch):
                self._on_propose(token, batch)
            case ChangeMembers(token=token, change=change):
                changes.on_change(self, token, change)
            case TransferLeadership(token=token, target=target):
                changes.on_transfer(self, token, target)
            case Tick():
                self._on_tick()
            case ReadRequest(token=token):
                self._on_read(token)
            case Loaded(peer=peer, entries=entries):
                self._on_loaded(peer, entries)
            case Trimmed(start=start):
                self._on_trimmed(start)
            case Disconnected(peer=peer):
                interruptions.on_disconnected(self, peer)
            case Overslept():
                interruptions.on_overslept(self)
            case StepDown(patience_s=patience_s):
                if isinstance(self.role, Leader):
                    self._become_follower(self.term, leader=None, patience_s=patience_s)
            case _:
                assert_never(event)
        self._tell_role()
        invariants.check(before, self)
        effects, self._effects = self._effects, []
        return effects

    def _on_message(self, sender: NodeId, message: Message) -> None:
        if self.recall is not None:
            self._effects += [Send(to, answer) for to, answer in self.recall.receive(sender, message)]
            if not self.recall.may_end:
                return
            is_new = self.recall.is_new
            self._begin_after(self.recall)
            if not is_new:
                return
        if message.term > self.term + TERM_STEP_MAX and self._learns_term_from(message):
            self._become_follower(Term(self.term + TERM_STEP_MAX), leader=None)
            return
        match message:
            case AppendEntries():
                self._on_append_entries(sender, message)
            case AppendAccepted() | AppendRejected() | SnapshotReceived():
                self._on_append_reply(sender, message)
            case RequestPreVote():
                self._on_request_pre_vote(sender, message)
            case PreVoteReply():
                self._on_pre_vote_reply(sender, message)
            case RequestVote():
                self._on_request_vote(sender, message)
            case VoteReply():
                self._on_vote_reply(sender, message)
            case InstallSnapshot():
                self._on_install_snapshot(sender, message)
            case TimeoutNow():
                changes.on_timeout_now(self, sender, message)
            case RequestStanding(question=question):
                self._tell_standing(sender, question)
            case StandingReply():
                pass  # to a question of an earlier life
            case _:
                assert_never(message)

    def _learns_term_from(self, message: Message) -> bool:
        """Returns True if this node takes over the term of `message` whenever that is newer."""
        match message:
            case RequestPreVote() | RequestStanding() | StandingReply():
                return False  # it only asks, or answers a node that had no term
            case PreVoteReply(granted=granted):
                return not granted
            case RequestVote():
                return not changes.is_disruptive(self, message)
            case _:
                return True

    # ---------------------------------------------------------------- a node that remembers nothing (see raft.recall)

    def hurry(self, now: float) -> None:
        """Have the next tick begin an election, or as soon as a blank node may, if this node knows no leader.

        A matter of liveness alone: no rule of safety looks at it.
        """
        if isinstance(self.role, Follower) and self.role.leader is None:
            self.role.deadline = now
            if self.recall is not None:
                self.recall.campaigns_next = True

    def _tell_standing(self, sender: NodeId, question: int) -> None:
        end = self.log.position  # not the floor: what it stands for is no copy, and would be waited for in vain
        reply = StandingReply(self.term, question, end.index, end.term, has_changed=self.membership.has_changed)
        self._effects.append(Send(sender, reply, after=self._write_covering(self.log.last_index)))

    def _begin_after(self, recall: Recall) -> None:
        """Take part, as all answers allow. In a new group no leader can be there that one would have to wait for."""
        self.recall = None
        state = recall.conclusion(self.node_id, majority(len(self.configuration.voters)))
        if state.term == NO_TERM:
            deadline = self._now + self._rng.uniform(0, self.config.election_timeout_s_min)
        else:
            deadline = self._election_deadline()
            self.term, self.vote, self.floor = state.term, state.vote, state.floor
            self.directory_id = state.directory_id
            self._persist(hard_state=state)
        self.role = Follower(self._now if recall.campaigns_next else deadline)
        for candidate, request in recall.pre_votes.items():
            self._on_request_pre_vote(candidate, request)

    # ---------------------------------------------------------------- time

    def _on_tick(self) -> None:
        if self.recall is not None:
            self._effects += [Send(to, question) for to, question in self.recall.questions()]
            self.role = Follower(self._now + self.config.heartbeat_s / 2)
            return
        match self.role:
            case Leader() as leader:
                self._on_leader_tick(leader)
            case Follower(deadline=deadline) | PreCandidate(deadline=deadline) | Candidate(deadline=deadline):
                if self._now < deadline:
                    return
                if self.may_campaign():
                    self._become_pre_candidate()
                else:
                    self._leader_contact_at = None
                    self.role = Follower(self._election_deadline())
            case _:
                assert_never(self.role)

    def _on_leader_tick(self, leader: Leader) -> None:
        if self._now >= leader.quorum_check_due:
            leader.was_spared = False
            leader.quorum_check_due = self._now + self.config.election_timeout_s_min
            silent_since = self._now - self.config.election_timeout_s_max
            if not all(group.is_in_contact(silent_since) for group in leader.groups):
                self._become_follower(self.term, leader=None)
                return
        if self._now >= leader.heartbeat_due:
            self._heartbeat(leader)
            changes.on_heartbeat(self, leader)

    def _election_deadline(self) -> float:
        return self._now + self._rng.uniform(self.config.election_timeout_s_min, self.config.election_timeout_s_max)

    def _trusts_a_leader(self) -> bool:
        """Stickiness: a node that leads, or has received from a leader within the minimum election timeout, grants no
        vote and no pre-vote (paper section 6, dissertation 9.6)."""
        if isinstance(self.role, Leader):
            return True
        return (
            self._leader_contact_at is not None
            and self._now - self._leader_contact_at < self.config.election_timeout_s_min
        )

    # ---------------------------------------------------------------- roles

    def _become_follower(self, term: Term, leader: NodeId | None, *, patience_s: float = 0.0) -> None:
        """Follow in `term`, which may be new. Proposals and reads that waited for its leadership are answered now."""
        assert term >= self.term
        old, is_newer = self.role, term > self.term
        if is_newer:
            self.term = term
            self.vote = None
            self._staged = None
            self._persist(hard_state=self.hard_state())
        match old:
            case Follower(deadline=deadline):
                # The deadline stays: another node's candidacy is no sign of life from a leader.
                self.role = Follower(deadline, leader)
            case PreCandidate() | Candidate() | Leader():
                self.role = Follower(self._election_deadline() + patience_s, leader)
            case _:
                assert_never(old)
        if isinstance(old, Leader):
            changes.end(self, old, leader, is_replaced=is_newer)
            self._end_leadership(old, leader)

    def _end_leadership(self, leader: Leader, successor: NodeId | None) -> None:
        for pending in leader.pending:
            self._effects.append(Answer(pending.token, Unknown(pending.index, successor)))
        for token in leader.reads.drain():
            self._effects.append(ReadRejected(token, successor))

    def _become_pre_candidate(self) -> None:
        """Ask first (section 9.6): a node that could not win must not raise the term of those that are well."""
        assert not isinstance(self.role, Leader)
        self._leader_contact_at = None
        self.role = PreCandidate(self._election_deadline(), {self.node_id})
        request = RequestPreVote(Term(self.term + 1), self.log.last_index, self.log.last_term)
        for peer in self.configuration.peers(self.node_id):
            self._effects.append(Send(peer, request))
        if is_quorum(self.role.granted, self.configuration.groups):
            self._become_candidate()

    def _become_candidate(self, *, is_transfer: bool = False) -> None:
        assert is_transfer or isinstance(self.role, PreCandidate)
        self.term = Term(self.term + 1)
        self.vote = self.node_id
        self._staged = None
        write = self._persist(hard_state=self.hard_state())
        self.role = Candidate(self._election_deadline(), write)
        request = RequestVote(self.term, self.log.last_index, self.log.last_term, is_transfer)
        for peer in self.configuration.peers(self.node_id):
            self._effects.append(Send(peer, request, after=write))

    def _become_leader(self) -> None:
        assert isinstance(self.role, Candidate)
        next_index = LogIndex(self.log.last_index + 1)
        leader = Leader(
            first_index=next_index,
            heartbeat_due=self._now + self.config.heartbeat_s,
            quorum_check_due=self._now + self.config.election_timeout_s_min,
            progress={},
        )
        self.role = leader
        changes.adopt(self, leader)
        # An entry of the new term commits everything before it (section 5.4.2) and opens the way for reads (section 8).
        self._append_own(leader, NOOP)

    def _tell_role(self) -> None:
        now_told = (self.role_name, self.term, self.leader)
        if now_told != self._told:
            self._told = now_told
            self._effects.append(RoleChanged(*now_told))

    def hard_state(self, replaced: Sequence[ConfigurationEntry] = ()) -> HardState:
        """Returns what must survive a restart, as it is now; `replaced` ones may be in the log until the next write."""
        return HardState(self.term, self.vote, self.floor, self.directory_id, self.membership.encode(replaced))

    def adopt(self) -> None:
        """The configuration in force is another one."""
        self._effects.append(MembersChanged(self.configuration))
        if isinstance(self.role, Leader):
            changes.adopt(self, self.role)

    # ---------------------------------------------------------------- elections

    def may_campaign(self) -> bool:
        """Returns True if this node's candidacy may count."""
        return self.floor == NO_POSITION and self.membership.may_campaign(self.node_id, self.directory_id)

    def _may_lead(self, last_index: LogIndex, last_term: Term) -> bool:
        """Section 5.4.1, against the greater of this log and the floor.

        Why that keeps leader completeness when damage has cut this log: say it had acknowledged a committed entry e,
        and think of the first candidate that could win without e. The floor is where the log L ended that held e. A
        candidate at or above the floor ends either in the floor's term and not before it: then it holds all of L (log
        matching); or in a later term: then it has its last entry from that term's leader, which held e. Both hold e, so
        a vote of the cut log is worth as much as one of L. By the same argument this log holds e again once it has
        reached the floor, and its own end is guard enough from then on; as it is for whatever it acknowledges
        meanwhile. It must not campaign below the floor: its own vote would go to a log that is below it.
        """
        asked = Position(last_index, last_term)
        return asked.up_to_date_with(self.log.position) and asked.up_to_date_with(self.floor)

    def _leave_floor(self) -> None:
        """Forget the floor once the durable log has reached it; the disk forgets it with the next hard state."""
        durable_index = self.log.durable_index
        if Position(durable_index, self.log.term_at(durable_index)).up_to_date_with(self.floor):
            self.floor = NO_POSITION

    def _on_request_pre_vote(self, sender: NodeId, request: RequestPreVote) -> None:
        granted = (
            request.term > self.term
            and not self._trusts_a_leader()
            and self._may_lead(request.last_index, request.last_term)
        )
        # A refusal carries our own term: a candidate that is behind learns it and can ask for a term that is new to us.
        reply = PreVoteReply(request.term if granted else self.term, granted, self.directory_id)
        self._effects.append(Send(sender, reply))

    def _on_pre_vote_reply(self, sender: NodeId, reply: PreVoteReply) -> None:
        if not reply.granted:
            if reply.term > self.term:
                self._become_follower(reply.term, leader=None)
        elif isinstance(self.role, PreCandidate) and reply.term == self.term + 1:
            if self.configuration.counts(sender, reply.directory_id):
                self.role.granted.add(sender)
            if is_quorum(self.role.granted, self.configuration.groups):
                self._become_candidate()

    def _on_request_vote(self, sender: NodeId, request: RequestVote) -> None:
        if request.term < self.term:
            self._effects.append(Send(sender, VoteReply(self.term, False, self.directory_id)))
            return
        if request.term > self.term:
            if changes.is_disruptive(self, request):
                return  # not even the term is taken over
            self._become_follower(request.term, leader=None)
        granted = (
            self.leader is None
            and self.vote in (None, sender)
            and self._may_lead(request.last_index, request.last_term)
        )
        if granted:
            self.role = Follower(self._election_deadline())
            if self.vote is None:
                self.vote = sender
                self._persist(hard_state=self.hard_state())
        reply = VoteReply(self.term, granted, self.directory_id)
        self._effects.append(Send(sender, reply, after=self._hard_state_write))

    def _on_vote_reply(self, sender: NodeId, reply: VoteReply) -> None:
        if reply.term > self.term:
            self._become_follower(reply.term, leader=None)
        elif reply.term == self.term and reply.granted and isinstance(self.role, Candidate):
            if self.configuration.counts(sender, reply.directory_id):
                self.role.granted.add(sender)
            if is_quorum(self.role.granted, self.configuration.groups):
                self._become_leader()

    # ---------------------------------------------------------------- the log of a follower

    def _on_append_entries(self, sender: NodeId, request: AppendEntries) -> None:
        if request.term < self.term:
            # The round is that of an older leadership: if the sender leads again by now, it must confirm no newer read.
            self._reject(sender, Position(request.prev_index, request.prev_term), answered_round=0)
            return
        follower = self._on_leader_contact(sender, request.term)
        if not self.log.matches(request.prev_index, request.prev_term):
            assert request.prev_index > self.commit_index, "a committed entry differs from the leader's (P5)"
            self._reject(sender, Position(request.prev_index, request.prev_term), request.round)
            return
        missing = self.log.missing_from(request.entries)
        if missing:
            assert missing[0].index > self.commit_index, "a committed entry would be replaced (P5)"
            self._append(missing)
        self._accept(sender, follower, request.last_index, request.round)
        self._commit(min(request.commit_index, follower.verified_index))

    def _on_install_snapshot(self, sender: NodeId, request: InstallSnapshot) -> None:
        """Reset to the leader's snapshot and log start, unless this log reaches that far (section 7)."""
        start = request.start
        if request.term < self.term:
            self._reject(sender, start.position, answered_round=0)
            return
        follower = self._on_leader_contact(sender, request.term)
        if not self.log.matches(start.index, start.position.term):
            self._staged = (self._staged or StagedSnapshot.of(request)).with_part(request)
            if not self._staged.is_whole:
                parts = self._staged.received
                received = SnapshotReceived(self.term, start.index, parts, request.round, self.directory_id)
                self._effects.append(Send(sender, received, after=self._hard_state_write))
                return
            self._reset_to_snapshot(self._staged.join_parts(), request.configuration)
        self._accept(sender, follower, start.index, request.round)
        self._commit(start.index)

    def staged_with(self, last: InstallSnapshot) -> StagedSnapshot | None:
        """Returns what `last` would complete of a snapshot, without taking it; None if this node has no use for it."""
        is_of_use = self.recall is None and not self.log.matches(last.start.index, last.start.position.term)
        return (self._staged or StagedSnapshot.of(last)).with_part(last) if is_of_use else None

    def _on_leader_contact(self, sender: NodeId, term: Term) -> Follower:
        assert term > self.term or self.leader in (None, sender), "two leaders in one term"
        if not isinstance(self.role, Follower) or term > self.term or self.role.leader != sender:
            self._become_follower(term, sender)
        assert isinstance(self.role, Follower)
        self.role.deadline = self._election_deadline()
        self.role.was_spared = False
        self._leader_contact_at = self._now
        return self.role

    def _reject(self, sender: NodeId, asked: Position, answered_round: int) -> None:
        hint = self.log.last_position_within(asked.index, asked.term)
        refusal = AppendRejected(self.term, asked.index, hint.index, hint.term, answered_round, self.directory_id)
        self._effects.append(Send(sender, refusal))

    def _accept(self, sender: NodeId, follower: Follower, last_index: LogIndex, answered_round: int) -> None:
        """The log equals the leader's up to `last_index` at least: acknowledge that, once it is durable."""
        follower.verified_index = max(follower.verified_index, last_index)
        # What earlier messages of this leader proved, and the disk has, counts too, because the acknowledgement of that
        # may have been lost, and the leader's window would then stay full.
        match_index = max(last_index, min(follower.verified_index, self.log.durable_index))
        accepted = AppendAccepted(self.term, match_index, follower.verified_index, answered_round, self.directory_id)
        self._effects.append(Send(sender, accepted, after=self._write_covering(match_index)))

    def _append(self, entries: Sequence[Entry]) -> None:
        """Into the view and, as one write, to disk; entries that conflict are replaced by the same write (P5)."""
        if self.membership.touches(entries):
            changes.append_as_follower(self, entries)
        else:
            self._put(entries)

    def _put(self, entries: Sequence[Entry]) -> None:
        first = entries[0].index
        if first <= self.log.last_index:
            self._discount(LogIndex(first - 1))
        self.log.append(entries)
        self._persist(entries=tuple(entries))

    def _reset_to_snapshot(self, start: LogStart, configuration: bytes) -> None:
        self._staged = None
        in_force = self.membership.last_index
        replaced = self.membership.reset(configuration)
        if replaced:
            self._persist(hard_state=self.hard_state(replaced))
        self._discount(NO_INDEX)
        self.log.reset(start)
        self._persist(start=start)
        if self.membership.last_index != in_force:
            self.adopt()

    def _discount(self, kept: LogIndex) -> None:
        """Stop counting what older writes made durable above `kept`, even if those writes complete later (P9)."""
        self._pending_writes = deque(
            attrs.evolve(write, last_index=min(write.last_index, kept)) for write in self._pending_writes
        )

    def _persist(
        self, hard_state: HardState | None = None, entries: tuple[Entry, ...] = (), start: LogStart | None = None
    ) -> WriteId:
        self._last_write = WriteId(self._last_write + 1)
        if hard_state is not None:
            self._hard_state_write = self._last_write
        self._pending_writes.append(PendingWrite(self._last_write, self.log.last_index))
        self._effects.append(Persist(self._last_write, hard_state, entries, start))
        return self._last_write

    def _write_covering(self, index: LogIndex) -> WriteId:
        """The write after which the present term and the log up to `index` are durable."""
        if index <= self.log.durable_index:
            return self._hard_state_write
        covering = next(write.write_id for write in self._pending_writes if write.last_index >= index)
        return max(covering, self._hard_state_write)

    def _on_persisted(self, write_id: WriteId) -> None:
        while self._pending_writes and self._pending_writes[0].write_id <= write_id:
            self.log.durable_index = max(self.log.durable_index, self._pending_writes.popleft().last_index)
        self._durable_write = max(self._durable_write, write_id)
        if self.floor != NO_POSITION:
            self._leave_floor()
        match self.role:
            case Candidate(vote_write=vote_write, granted=granted):
                if vote_write <= write_id:
                    granted.add(self.node_id)
                    if is_quorum(granted, self.configuration.groups):
                        self._become_leader()
            case Leader() as leader:
                if self.log.durable_index > self.commit_index:
                    self._commit_by_majority(leader)
            case Follower() | PreCandidate():
                pass
            case _:
                assert_never(self.role)

    # ---------------------------------------------------------------- the log of a leader

    def _on_propose(self, token: Token, batch: Batch) -> None:
        if not isinstance(self.role, Leader):
            self._effects.append(Answer(token, Rejected(Refusal.NOT_LEADER, self.leader)))
            return
        size = entry_bytes(batch)
        is_full = self.role.pending and self.role.pending_bytes + size > self.config.uncommitted_bytes_max
        if is_full or self.role.transfer is not None:
            self._effects.append(Answer(token, Rejected(Refusal.BUSY, self.node_id)))
            return
        pending = Pending(LogIndex(self.log.last_index + 1), token, self.log.end_offset, size)
        self.role.pending.append(pending)
        self.role.pending_bytes += size
        self._append_own(self.role, batch)

    def _append_own(self, leader: Leader, batch: Batch) -> None:
        log, entries = self.log, (Entry(LogIndex(self.log.last_index + 1), self.term, self.log.end_offset, batch),)
        message = AppendEntries(self.term, log.last_index, log.last_term, self.commit_index, leader.round, entries)
        log.append(entries)
        for peer, progress in leader.progress.items():
            if progress.lacks_only(log.last_index) and self._has_room(progress):
                # The usual case: all followers that keep up are sent the same message.
                self._effects.append(Send(peer, message))
                progress.note_sent(log.last_index, entry_bytes(batch), leader.round)
            else:
                self._replicate(leader, peer, progress)
        self._persist(entries=entries)  # after the messages: the others can begin while it is written here

    def _replicate(self, leader: Leader, peer: NodeId, progress: Progress) -> None:
        """Send what the window allows; while probing, one message."""
        config = self.config
        if progress.next_index <= self.log.start.index and not progress.probing:
            progress.probe_from(progress.next_index)
        if progress.probing:
            installing = progress.next_index <= self.log.start.index
            if not (progress.probe_sent or (installing and self._now < progress.install_due)):
                progress.note_probed(leader.round, installing=installing)
                self._probe(leader, peer, progress)
            return
        while progress.next_index <= self.log.last_index and not progress.loading:
            if not self._has_room(progress):
                return
            cached = self._cached_after(progress.next_index, config.append_bytes_max)
            if cached is None:
                progress.loading = True
                self._effects.append(LoadEntries(peer, progress.next_index, config.append_bytes_max))
                return
            self._pipeline(leader, peer, progress, cached)

    def _has_room(self, progress: Progress) -> bool:
        return progress.has_room(self.config.inflight_messages_max, self.config.inflight_bytes_max)

    def _probe(self, leader: Leader, peer: NodeId, progress: Progress) -> None:
        """Ask where the logs agree; or see to it that they do, if the follower lacks what this log no longer has.

        Should that message get lost, the next probe asks about the same place, and its refusal leads back here.
        """
        start = self.log.start
        if progress.installing:
            progress.install_due = self._now + self.config.election_timeout_s_min
            progress.next_index = LogIndex(start.index + 1)
            self._send_snapshot_part(leader, peer, progress.snapshot_offset)
            return
        entries = self._cached_after(progress.next_index, self.config.append_bytes_max) or ()
        self._send_entries(leader, peer, LogIndex(progress.next_index - 1), entries)

    def _send_snapshot_part(self, leader: Leader, peer: NodeId, offset: int) -> None:
        start = self.log.start
        part = start.snapshot[offset : offset + self.config.snapshot_part_bytes_max]
        bytes_left = len(start.snapshot) - offset - len(part)
        part_of_start = attrs.evolve(start, snapshot=part)
        configuration = self.membership.snapshot()
        message = InstallSnapshot(self.term, part_of_start, leader.round, offset, bytes_left, configuration)
        self._effects.append(Send(peer, message))

    def _cached_after(self, next_index: LogIndex, bytes_max: int) -> tuple[Entry, ...] | None:
        if next_index > self.log.last_index:
            return ()
        return self.log.cached_entries(next_index, bytes_max)

    def _pipeline(self, leader: Leader, peer: NodeId, progress: Progress, entries: tuple[Entry, ...]) -> None:
        self._send_entries(leader, peer, LogIndex(progress.next_index - 1), entries)
        progress.note_sent(entries[-1].index, sum(entry_bytes(entry.batch) for entry in entries), leader.round)

    def _send_entries(
        self, leader: Leader, peer: NodeId, prev_index: LogIndex, entries: tuple[Entry, ...] = ()
    ) -> None:
        prev_term = self.log.term_at(prev_index)
        message = AppendEntries(self.term, prev_index, prev_term, self.commit_index, leader.round, entries)
        self._effects.append(Send(peer, message))

    def _heartbeat(self, leader: Leader) -> None:
        """Send an empty AppendEntries to all, anchored where each is known to match: no disk delays the answer."""
        leader.round += 1
        leader.heartbeat_due = self._now + self.config.heartbeat_s
        for peer, progress in leader.progress.items():
            self._send_entries(leader, peer, changes.anchor_of(self, progress))

    def _on_append_reply(self, sender: NodeId, reply: AppendAccepted | AppendRejected | SnapshotReceived) -> None:
        if reply.term > self.term:
            self._become_follower(reply.term, leader=None)
            return
        leader = self.role
        if reply.term < self.term or not isinstance(leader, Leader) or sender not in leader.progress:
            return
        progress = leader.progress[sender]
        if progress.directory_id != reply.directory_id:
            changes.note_directory(self, leader, sender, reply.directory_id)
        progress.contact_at = self._now
        progress.acked_round = max(progress.acked_round, reply.round)
        match reply:
            case AppendAccepted():
                self._on_accepted(leader, progress, reply)
            case AppendRejected():
                self._on_rejected(progress, reply)
            case SnapshotReceived():
                self._on_snapshot_received(progress, reply)
            case _:
                assert_never(reply)
        if self.role is not leader:
            return  # what this has committed has removed it
        self._replicate(leader, sender, progress)
        self._confirm_reads(leader)
        if leader.transfer is not None:
            changes.hand_over(self, leader, leader.transfer)

    def _on_accepted(self, leader: Leader, progress: Progress, reply: AppendAccepted) -> None:
        progress.accepted_round = max(progress.accepted_round, reply.round)
        if progress.note_accepted(reply.match_index):
            if reply.match_index > self.commit_index:
                self._commit_by_majority(leader)
        elif progress.probing and reply.round > progress.probe_round:
            progress.probe_sent = False  # alive, but the probe or its answer was lost: ask again
        if progress.lost_before(reply.round, reply.verified_index):
            progress.probe_from(LogIndex(progress.match_index + 1))

    def _on_rejected(self, progress: Progress, reply: AppendRejected) -> None:
        if reply.prev_index <= progress.match_index:
            if reply.round <= progress.accepted_round:
                return  # an answer to a message sent before the newest one that was accepted
            # A refusal newer than all it accepted: the follower has restarted with a shorter log, after a repair. An
            # answer sent before its restart may still arrive and raise the match index again; the next heartbeat
            # corrects that.
            progress.reset(progress.next_index)
        elif progress.probing and (progress.installing or reply.prev_index != progress.next_index - 1):
            return  # an answer to an earlier question; a snapshot of this term is never refused
        agreed = self.log.last_position_within(min(reply.hint_index, reply.prev_index), reply.hint_term)
        progress.probe_from(LogIndex(min(agreed.index + 1, max(reply.prev_index, 1))))

    def _on_snapshot_received(self, progress: Progress, reply: SnapshotReceived) -> None:
        start = self.log.start
        if reply.start_index != start.index or progress.match_index >= start.index:
            return  # of a log that began elsewhere, or late: it has begun there since
        if reply.received < len(start.snapshot):  # else invalid: the last part is answered with AppendAccepted
            progress.snapshot_received(start.index, reply.received)

    def _on_trimmed(self, start: LogStart) -> None:
        assert start.index <= self.commit_index, "only what is committed may leave the log"
        self.log.trim(start)
        if isinstance(self.role, Leader):
            for progress in self.role.progress.values():
                progress.snapshot_offset = 0  # those were of the snapshot before

    def _on_loaded(self, peer: NodeId, entries: tuple[Entry, ...]) -> None:
        leader = self.role
        if not isinstance(leader, Leader) or peer not in leader.progress:
            return
        progress = leader.progress[peer]
        progress.loading = False
        if not entries or progress.probing or entries[0].index != progress.next_index:
            return  # nothing to be had, or no longer what this follower needs; its next answer asks again
        if progress.next_index <= self.log.start.index:
            return  # what was read has left the log since
        if self.log.matches(entries[-1].index, entries[-1].term):
            self._pipeline(leader, peer, progress, entries)
            self._replicate(leader, peer, progress)

    # ---------------------------------------------------------------- commit

    def _commit_by_majority(self, leader: Leader) -> None:
        """Sections 5.3 and 5.4.2; the leader's own copy counts as far as it is durable."""
        reached = LogIndex(leader.count_copies(self.log.durable_index))
        if reached > self.commit_index and self.log.term_at(reached) == self.term:
            self._commit(reached)

    def _commit(self, index: LogIndex) -> None:
        if index <= self.commit_index:
            return
        self.commit_index = index
        self._effects.append(Commit(index))
        if isinstance(self.role, Leader):
            self._answer_committed(self.role)
            self._begin_reads(self.role)
        if self.membership.is_moving:
            has_settled = self.membership.settle(index)
            if has_settled:
                self._persist(hard_state=self.hard_state())  # before its entry can leave the log
            if isinstance(self.role, Leader):
                changes.on_settled(self, self.role)
            if has_settled and self.membership.is_settled:
                self._effects.append(MembersChanged(self.configuration, is_settled=True))

    def _answer_committed(self, leader: Leader) -> None:
        while leader.pending and leader.pending[0].index <= self.commit_index:
            done = leader.pending.popleft()
            leader.pending_bytes -= done.size
            self._effects.append(Answer(done.token, Committed(done.index, self.term, done.base_offset)))

    # ---------------------------------------------------------------- reads

    def _on_read(self, token: Token) -> None:
        if not isinstance(self.role, Leader):
            self._effects.append(ReadRejected(token, self.leader))
            return
        self.role.reads.add(token)
        self._begin_reads(self.role)

    def _begin_reads(self, leader: Leader) -> None:
        """Start a round once this leader has committed an entry of its term: before, its commit index may be old."""
        if leader.reads.can_begin() and self.commit_index >= leader.first_index:
            leader.reads.begin(leader.round + 1, self.commit_index)
            self._heartbeat(leader)
            self._confirm_reads(leader)

    def _confirm_reads(self, leader: Leader) -> None:
        if leader.reads.under_way is None:
            return
        done = leader.reads.confirm(leader.confirmed_round())
        if done is not None:
            for token in done.tokens:
                self._effects.append(ReadReady(token, done.read_index))
            self._begin_reads(leader)

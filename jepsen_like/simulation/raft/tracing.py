"""Events, messages, effects and nodes of a Raft group in a few words each, for the lines of a trace."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from raft.effects import (
    Answer,
    Commit,
    Committed,
    Effect,
    HandedOver,
    LoadEntries,
    MembersChanged,
    Persist,
    ReadReady,
    ReadRejected,
    Rejected,
    RoleChanged,
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
from raft.model import NO_WRITE

if TYPE_CHECKING:
    from jepsen_like.simulation.raft.machine import SimulatedMachine

COLUMNS = f"{'role':<9} {'term':>4} {'commit':>6} {'last/durable':>12}"
"""The columns of `describe_state`."""
ROLE_WORDS = {"pre_candidate": "pre-cand"}


def describe_state(machine: "SimulatedMachine | None") -> str:
    """The columns of one node; blank for none."""
    core = None if machine is None else machine.core
    if core is None:
        role = "" if machine is None else "down"
        return f"{role:<9} {'':>4} {'':>6} {'':>12}"
    role = "paused" if machine is not None and machine.paused else core.role_name.value
    ends = f"{core.log.last_index}/{core.log.durable_index}"
    return f"{ROLE_WORDS.get(role, role):<9} {core.term:>4} {core.commit_index:>6} {ends:>12}"


def describe_event(event: Event) -> str:
    """For example `n2: append 3@1 +2 commit=2 round=7`."""
    match event:
        case Receive(sender=sender, message=message):
            return f"n{sender}: {describe_message(message)}"
        case Persisted(write_id=write_id):
            return f"persisted {write_id}"
        case Propose(token=token, batch=batch):
            return f"propose #{token} ({batch.span} records, {len(batch.data)} B)"
        case ReadRequest(token=token):
            return f"read #{token}"
        case ChangeMembers(token=token, change=change):
            return f"change #{token} {change}"
        case TransferLeadership(token=token, target=target):
            return f"transfer #{token} to n{target}"
        case Tick():
            return "tick"
        case Loaded(peer=peer, entries=entries):
            return f"loaded {_range([entry.index for entry in entries])} for n{peer}"
        case Trimmed(start=start):
            return f"trimmed up to {start.index}@{start.position.term}"
        case Disconnected(peer=peer):
            return f"disconnected from n{peer}"
        case StepDown():
            return "step down"
        case Overslept():
            return "overslept"
        case _:
            assert_never(event)


def describe_message(message: Message) -> str:
    """The message in a few words."""
    match message:
        case RequestPreVote(term=term, last_index=index, last_term=last_term):
            return f"pre-vote? term={term} last={index}@{last_term}"
        case PreVoteReply(term=term, granted=granted):
            return f"pre-vote {'yes' if granted else 'no'} term={term}"
        case RequestVote(term=term, last_index=index, last_term=last_term):
            return f"vote? term={term} last={index}@{last_term}"
        case VoteReply(term=term, granted=granted):
            return f"vote {'yes' if granted else 'no'} term={term}"
        case AppendEntries():
            after = f"{message.prev_index}@{message.prev_term}"
            what = f"append after {after} +{len(message.entries)}" if message.entries else f"heartbeat at {after}"
            return f"{what} term={message.term} commit={message.commit_index} round={message.round}"
        case AppendAccepted(term=term, match_index=match, verified_index=verified, round=number):
            return f"accepted match={match} verified={verified} term={term} round={number}"
        case AppendRejected():
            hint = f"{message.hint_index}@{message.hint_term}"
            return f"rejected prev={message.prev_index} hint={hint} term={message.term} round={message.round}"
        case InstallSnapshot(term=term, start=start, round=number):
            applied = f"applied={start.applied.index}@{start.applied.term}"
            part = f"{message.offset}+{len(start.snapshot)}/{message.total}"
            return f"begin after {start.index}@{start.position.term} {applied} part={part} term={term} round={number}"
        case SnapshotReceived(term=term, start_index=start_index, received=received, round=number):
            return f"received {received} of snapshot at {start_index} term={term} round={number}"
        case TimeoutNow(term=term):
            return f"campaign now term={term}"
        case RequestStanding(question=question):
            return f"asks for the standing, question {question}"
        case StandingReply(term=term, last_index=index, last_term=last_term):
            return f"stands at {index}@{last_term} term={term}"
        case _:
            assert_never(message)


def describe_effect(effect: Effect) -> str:
    """The effect in a few words."""
    match effect:
        case Persist(write_id=write_id, hard_state=hard_state, entries=entries, start=start):
            parts = [] if hard_state is None else [f"term={hard_state.term} vote={hard_state.vote or '-'}"]
            parts += [_range([entry.index for entry in entries])] if entries else []
            parts += [] if start is None else [f"begin after {start.index}@{start.position.term}"]
            return f"persist {write_id}: {' '.join(parts)}"
        case Send(to=to, message=message, after=after):
            held = "" if after == NO_WRITE else f" after {after}"
            return f"n{to}: {describe_message(message)}{held}"
        case LoadEntries(peer=peer, first_index=first_index):
            return f"load {first_index}.. for n{peer}"
        case Commit(commit_index=commit_index):
            return f"commit {commit_index}"
        case Answer(token=token, outcome=outcome):
            return f"answer #{token} {_outcome(outcome)}"
        case ReadReady(token=token, read_index=read_index):
            return f"read #{token} at {read_index}"
        case ReadRejected(token=token, leader_hint=hint):
            return f"read #{token} rejected, leader {hint or '?'}"
        case RoleChanged(role=role, term=term, leader=leader):
            return f"{role.value} in {term}, leader {leader or '?'}"
        case MembersChanged(configuration=configuration):
            groups = "→".join(" ".join(map(str, sorted(group))) for group in reversed(configuration.groups))
            return f"members {groups} learners {sorted(configuration.learners)}"
        case _:
            assert_never(effect)


def _outcome(outcome: Committed | Rejected | Unknown | HandedOver) -> str:
    match outcome:
        case Committed(index=index, base_offset=base_offset):
            return f"committed at {index}, offset {base_offset}"
        case Rejected(reason=reason):
            return f"rejected, {reason.value}"
        case Unknown(index=index):
            return f"unknown, was {index}"
        case HandedOver(target=target):
            return f"handed over to n{target}"
        case _:
            assert_never(outcome)


def _range(indexes: Sequence[int]) -> str:
    if not indexes:
        return "nothing"
    return f"{indexes[0]}" if len(indexes) == 1 else f"{indexes[0]}..{indexes[-1]}"

"""The state of a core as a plain tuple: cores with equal tuples behave alike from here on, at any time of the clock.

Exhaustive search stands on it: it hashes states, and takes states that differ only in the names of the nodes for one.
What a step cannot depend on is left out or made relative: times (a search lets every timer fire), the draws of the
random source, write ids (only their distance to the newest durable one counts) and the cache.

It is part of this package because it must know all of the core's state, as `invariants` and `render` do.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from raft.codec import APPEND_ENTRIES, INSTALL_SNAPSHOT, PLAIN
from raft.core import RaftCore
from raft.effects import Persist
from raft.messages import AppendEntries, InstallSnapshot, Message
from raft.model import Entry, LogIndex, LogStart, NodeId, Term, WriteId
from raft.outbox import Outbox
from raft.recall import Recall
from raft.roles import Candidate, Follower, Leader, PreCandidate

Renaming = Mapping[NodeId, NodeId]


def fingerprint(core: RaftCore, rename: Renaming) -> tuple[Any, ...]:
    """Returns the core's state with its nodes renamed.

    Of the log, only cached entries count, as (term, data): search small logs.
    """
    start = core.log.start
    held = core.log.last_index - start.index
    entries = core.log.cached_entries(LogIndex(start.index + 1), 1 << 62) or () if held else ()
    assert len(entries) == held, "a log too large for its cache cannot be told from others"
    return (
        rename[core.node_id],
        core.term,
        rename[core.vote] if core.vote is not None else 0,
        (core.floor.term, core.floor.index),
        core.commit_index,
        start_fingerprint(start),
        entries_fingerprint(entries),
        core.log.durable_index,
        tuple((_outstanding(core, write.write_id), write.last_index) for write in core._pending_writes),
        _outstanding(core, core._hard_state_write),
        _role_fingerprint(core, rename),
        ()
        if core._staged is None
        else (start_fingerprint(core._staged.start), core._staged.total, core._staged.received),
        () if core.recall is None else _recall_fingerprint(core.recall, rename),
        core.directory_id,
        core.membership.encode() if core.membership.has_changed else b"",
    )


def outbox_fingerprint(outbox: Outbox, term: Term, rename: Renaming) -> tuple[Any, ...]:
    """Returns what the outbox of a node in `term` will release; it will drop messages of older terms."""
    return tuple(
        (rename[send.to], send.after - outbox.durable, message_fingerprint(send.message))
        for send in outbox._held
        if send.message.term >= term
    )


def persist_fingerprint(persist: Persist, rename: Renaming) -> tuple[Any, ...]:
    """Returns a write that is under way, without its id, which follows from its place in the queue."""
    state = persist.hard_state
    vote = rename[state.vote] if state is not None and state.vote is not None else 0
    floor = (state.floor.term, state.floor.index) if state is not None else (0, 0)
    start = start_fingerprint(persist.start) if persist.start is not None else ()
    members = (state.directory_id, state.configurations) if state is not None else ()
    term = state.term if state is not None else -1
    return (term, vote, floor, start, entries_fingerprint(persist.entries), members)


def entries_fingerprint(entries: tuple[Entry, ...]) -> tuple[Any, ...]:
    """Returns the entries by term, place and content."""
    return tuple((entry.index, entry.term, entry.base_offset, entry.batch.data) for entry in entries)


def start_fingerprint(start: LogStart) -> tuple[Any, ...]:
    """Returns where a log begins, without the snapshot, because no step depends on its content."""
    return (start.index, start.position.term, start.offset)


def message_fingerprint(message: Message) -> tuple[Any, ...]:
    """Returns a message; none names a node, so nothing is renamed."""
    match message:
        case AppendEntries():
            place = (message.term, message.prev_index, message.prev_term, message.commit_index, message.round)
            return (APPEND_ENTRIES, *place, entries_fingerprint(message.entries))
        case InstallSnapshot(term=term, start=start, round=round_):
            rest = (round_, message.offset, message.total, message.bytes_left)
            return (INSTALL_SNAPSHOT, term, start_fingerprint(start), *rest, message.configuration)
        case _:
            message_type, values_of = PLAIN[type(message)]
            return (message_type, *values_of(message))


def _outstanding(core: RaftCore, write_id: WriteId) -> int:
    return max(0, write_id - core._durable_write)


def _role_fingerprint(core: RaftCore, rename: Renaming) -> tuple[Any, ...]:
    match core.role:
        case Follower(leader=leader, verified_index=verified_index):
            return (1, rename[leader] if leader is not None else 0, verified_index)
        case PreCandidate(granted=granted):
            return (2, tuple(sorted(rename[node] for node in granted)))
        case Candidate(granted=granted, vote_write=vote_write):
            return (3, tuple(sorted(rename[node] for node in granted)), _outstanding(core, vote_write))
        case Leader() as leader:
            transfer = leader.transfer
            handing = () if transfer is None else (rename[transfer.target], transfer.was_sent)
            rest = (_progress_fingerprint(leader, rename), handing, leader.joint_token is not None)
            return (4, leader.first_index, leader.round, len(leader.pending), *rest)
        case _:
            assert_never(core.role)


def _recall_fingerprint(recall: Recall, rename: Renaming) -> tuple[Any, ...]:
    heard = sorted((rename[sender], message_fingerprint(reply)) for sender, reply in recall.answers.items())
    asked = sorted((rename[sender], message_fingerprint(request)) for sender, request in recall.pre_votes.items())
    known = (recall.question, recall.was_member, recall.joins, recall.unknown_term)
    return (*known, tuple(heard), tuple(asked), recall.campaigns_next)


def _progress_fingerprint(leader: Leader, rename: Renaming) -> tuple[Any, ...]:
    assert not leader.reads.waiting, "reads are not searched"
    assert leader.reads.under_way is None, "reads are not searched"
    return tuple(
        sorted(
            (
                rename[peer],
                progress.match_index,
                progress.next_index,
                progress.probing,
                progress.probe_round if progress.probe_sent else -1,
                progress.installing,
                progress.snapshot_offset,
                progress.loading,
                progress.acked_round,
                progress.accepted_round,
                progress.directory_id,
                tuple((inflight.last_index, inflight.size, inflight.round) for inflight in progress.inflight),
            )
            for peer, progress in leader.progress.items()
        )
    )

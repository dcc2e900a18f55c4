"""The broker's copy of the commit log in a raft group (DLedger mode): replaces `ReplicatedLog`.

The leader gives records their offsets when it proposes them, after all earlier proposals of its leadership. Several
proposals are under way at once. They are acknowledged when they are committed and applied here. Every node appends
committed records to its commit log, so every record in a commit log is committed.

The commit log is derived from the raft log, and need not be durable for an acknowledgement. A restart applies missing
records again. That is sound because the raft log keeps its entries until

- the records of the entries are durable in this node's commit log: a snapshot flushes that first, and
- the commit log is complete. A node that was reset to a snapshot copies missing records from its peers (`CatchUp`).
  Until then it takes no snapshot of its own, applies records only to the state, and is never master.

A command that is applied again finds its records in place, and recognizes them by physical offset and term. The group
may lose commands (`ack=page-cache`, and a power cut). Their records are cut when the first command arrives that was not
in this node's raft log at its start.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from log.errors import NoSpace
from raft.errors import InvalidRequest, RaftError
from raft.results import Applied
from raft.subscription import Delivered, LeaderChanged, Subscriber
from rocketmq_compat.broker.context import Context, DiskWork
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.full_disk import FullDiskNotes
from rocketmq_compat.broker.puts import NotStored, OutcomeOpen, PutDone, StoredMessages
from rocketmq_compat.broker.raft_tables import RaftTables
from rocketmq_compat.raft_state import (
    BadGroupCommand,
    BeginLeadership,
    BrokerGroupState,
    ChangeTables,
    GroupCommand,
    StoreRecords,
    TableChanges,
    decode_group_command,
    encode_group_command,
)
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.replication.acks import SendStatus
from rocketmq_compat.storage.dispatch import BadRecord, QueueKey, QueueRun, Walk, assign, walk

IN_FLIGHT_BYTES_MAX: Final = 24 * 1024 * 1024
"""The limit of proposed bytes before they are committed; above, puts are refused.

It is below the bounds of the group itself, which would leave gaps between proposals.
"""
AHEAD_BYTES_MAX: Final = 24 * 1024 * 1024
"""The limit of applied bytes that are kept for a commit log that lacks what is before them."""
DONE: Final = b"\1"
NO_EFFECT: Final = b"\0"
BEGIN_RETRY_S: Final = 0.05
LEADERSHIP_ALONE: Final = 2**62
"""A subscription behind this index is given changes of leadership, and no entries."""


class GroupPort(Protocol):
    """The part of the raft group that the copy needs: a `RaftGroup`."""

    def status(self) -> dict[str, object]:
        """See `RaftGroup`."""

    def subscribe(self, subscriber: Subscriber, after_index: int = 0) -> object:
        """See `RaftGroup`."""

    def propose(self, command: bytes, done: Callable[[Applied | RaftError], None]) -> None:
        """See `RaftGroup`."""


@attrs.define
class ForeignCommitLog(Exception):
    """There is a commit log without a raft log: all of it would have to be thrown away."""

    directory: str

    def __str__(self) -> str:
        return f"{self.directory} holds messages, but not those of this raft group: keep it, and give this broker another directory"


@attrs.define(eq=False)
class _Leadership:
    """The counts of this node's leadership."""

    term: int
    end: int
    """The physical end once everything proposed is applied."""
    nexts: dict[QueueKey, int] = attrs.field(factory=dict)
    """The next offset of queues to which something was proposed."""
    puts: int = 0
    """Proposals under way, and their bytes."""
    put_bytes: int = 0
    is_broken: bool = False
    """True once a proposal has failed.

    The proposals behind it have no effect, and the next one waits until all of them are settled.
    """
    deletions: int = 0
    """Deletions of topics under way: the offsets of their queues begin again."""


@attrs.define(eq=False)
class _Missing:
    """The newest commands behind what a commit log lacks: else it would never reach the end of a busy one."""

    noticed: trio.Event = attrs.field(factory=trio.Event)
    ahead: deque[StoreRecords] = attrs.field(factory=deque)
    ahead_bytes: int = 0

    def keep(self, command: StoreRecords) -> None:
        """Keep a command that was applied; the oldest ones are dropped without room for it."""
        self.ahead.append(command)
        self.ahead_bytes += len(command.payload)
        while self.ahead_bytes > AHEAD_BYTES_MAX:
            self.drop_first()

    def drop_first(self) -> None:
        """Drop the oldest command."""
        self.ahead_bytes -= len(self.ahead.popleft().payload)

    def forget(self) -> None:
        """Drop all commands."""
        self.ahead.clear()
        self.ahead_bytes = 0


class RaftCopy:
    """The state machine of the group, and the log of the broker. `open_on` gives it the group."""

    def __init__(
        self,
        context: Context,
        node_id: int,
        disk: DiskWork,
        delays: DelayedMessages,
        on_dispatched: Callable[[list[QueueRun]], None],
    ) -> None:
        """`on_dispatched` is called once a round with the runs that have become visible to consumers."""
        self.state = BrokerGroupState()
        self.tables = RaftTables(context, self.state, delays, self._propose_tables, self._dispatch)
        self._missing = _Missing()
        self.leader: int | None = None
        """The node that leads the group, if known."""
        self._context = context
        self._store = context.store
        self._node_id = node_id
        self._disk = disk
        self._on_dispatched = on_dispatched
        self._full_disk = FullDiskNotes(context)
        self._group: GroupPort | None = None
        self._proposing: bytes | None = None
        """The command that this node is proposing. Commands from clients of the native wire are refused."""
        self._replay_to = 0
        """The last index that the raft log held when it was opened."""
        self._leadership: _Leadership | None = None
        self._elected_in: int | None = None
        """The term of a leadership of this node that is not over."""
        self._begun_in: int | None = None
        """The same, once everything from before it is applied."""
        self._begin_due = math.inf
        self._told: tuple[str, int] | None = None
        self._flushing = False
        self._flush_due = math.inf

    @property
    def epoch(self) -> int:
        """The term of the newest master whose beginning this node has applied."""
        return self.state.term

    @property
    def confirmed(self) -> int:
        """The end of the committed records that this node has applied."""
        return self.state.end

    @property
    def incomplete(self) -> trio.Event:
        """Set while the commit log lacks records that the state stands for."""
        return self._missing.noticed

    @property
    def lacks(self) -> str:
        """See `PartialMachine`."""
        if not self.incomplete.is_set():
            return ""
        return f"its commit log ends at {self._store.log.end_offset} of {self.state.end}"

    def open_on(self, group: GroupPort) -> None:
        """Take the opened group, before it has decided anything."""
        last_index = group.status()["last_index"]
        assert isinstance(last_index, int), "an index is a number"
        self._group = group
        self._replay_to = last_index
        group.subscribe(self._on_delivered, after_index=LEADERSHIP_ALONE)

    def close(self) -> None:
        """Stop with the group: this node no longer leads."""
        self._group = None
        self._resign()

    # ---------------------------------------------------------------- the state machine of the group

    def check(self, command: bytes, *, read_only: bool) -> None:
        """See `StateMachine`."""
        if command is not self._proposing:
            raise InvalidRequest("a broker group is asked through its brokers")

    def query(self, command: bytes) -> bytes:
        """See `StateMachine`."""
        raise InvalidRequest("a broker group is asked through its brokers")

    def apply(self, index: int, command: bytes) -> bytes:
        """See `StateMachine`."""
        decoded = _decode(command)
        if isinstance(decoded, StoreRecords) and not self.incomplete.is_set():
            self._store.reserve_bytes(len(decoded.payload))  # before anything has changed
        if index > self._replay_to:
            self._cut_to_state()
            self._begin_quiet_queues()
            self._replay_to = 2**63
        if not self.state.apply(decoded):
            return NO_EFFECT
        match decoded:
            case StoreRecords():
                self._append(decoded)
            case ChangeTables(changes=changes):
                self._delete_topics(changes)
                self.tables.has_changed = True
            case BeginLeadership():
                pass
        return DONE

    def snapshot(self) -> bytes | None:
        """See `SnapshotMachine`."""
        if self.incomplete.is_set():
            return None
        self._store.flush()
        if self._store.log.end_offset == self.state.end:
            queues = [each.key for each in self._store.derived.queues if each.key[0] in self.state.tables.topics]
            self.state.nexts.update((key, self._store.next_offset(key)) for key in queues)
        return self.state.snapshot()

    def check_snapshot(self, snapshot: bytes) -> None:
        """See `CheckedMachine`."""
        BrokerGroupState().restore(snapshot)

    def restore(self, snapshot: bytes) -> None:
        """See `SnapshotMachine`."""
        self.state.restore(snapshot)
        self._missing.forget()
        self.tables.has_changed = True
        if self._group is not None:
            self._cut_to_state()
        self._compare_ends()

    def _append(self, command: StoreRecords) -> None:
        log = self._store.log
        held = log.end_offset - command.base
        if held or self.incomplete.is_set():  # else its queues are derived from the log
            with suppress(BadRecord):
                self.state.nexts.update((run.key, run.next) for run in walk(command.payload, command.base).runs)
        if self.incomplete.is_set():
            self._missing.keep(command)
            return
        if held > 0 and log.start_offset <= command.base and not self._is_of(command.term, command.base):
            self._store.truncate(command.base)
            held = 0
        payload = command.payload if held <= 0 else memoryview(command.payload)[held:]
        if held < 0:
            self._compare_ends()
        elif payload:
            offset = command.end - len(payload)
            try:
                self._store.append_assigned(payload, offset=offset, epoch=command.term)
            except BadRecord:
                # Only a broken leader proposes what is no record. Every member keeps it, and no consumer sees it.
                self._store.append_copy(payload, offset=offset, epoch=command.term)

    def _append_ahead(self) -> None:
        """Append what was kept, once the log has come to it. Raises `NoSpace` without room."""
        missing = self._missing
        while missing.ahead and missing.ahead[0].base <= self._store.log.end_offset:
            command = missing.ahead[0]
            if command.base == self._store.log.end_offset:
                self._store.reserve_bytes(len(command.payload))
                self._store.append_copy(command.payload, offset=command.base, epoch=command.term)
            missing.drop_first()

    def _is_of(self, term: int, offset: int) -> bool:
        """Returns True if the batch at this offset of the commit log was proposed in this term."""
        log = self._store.log
        found, before = log.end_of_epoch(term), log.end_of_epoch(term - 1)
        return found is not None and found[0] == term and offset < found[1] and (before is None or before[1] <= offset)

    def _delete_topics(self, changes: TableChanges) -> None:
        """Delete topics, unless the commit log already holds later records, which were appended after the deletion."""
        if self._store.log.end_offset <= self.state.end:
            for topic in changes.deleted_topics:
                self._store.delete_topic(topic)

    def _cut_to_state(self) -> None:
        if self._store.log.end_offset > self.state.end:
            self._context.tell("commit_log_cut", end=self.state.end, was=self._store.log.end_offset)
            self._store.truncate(self.state.end)

    # ---------------------------------------------------------------- what the commit log lacks

    def _compare_ends(self) -> None:
        if self._store.log.end_offset < self.state.end and not self.incomplete.is_set():
            self._context.tell("commit_log_incomplete", end=self._store.log.end_offset, wanted=self.state.end)
            self.incomplete.set()

    def append_missing(self, payload: bytes, *, offset: int, epoch: int) -> None:
        """Append a peer's bytes at the end of this commit log.

        Raises `ValueError` for uncommitted ones, and `NoSpace` without room for them.
        """
        if offset + len(payload) > self.state.end:
            raise ValueError(f"{len(payload)} bytes at {offset} are more than is committed, up to {self.state.end}")
        self._store.append_copy(payload, offset=offset, epoch=epoch)
        self._append_ahead()
        self._note_complete()

    def reset_to(self, start: int) -> None:
        """Begin the log at `start`, because all peers lack the records before it."""
        self._store.reset(start)
        self._append_ahead()
        self._note_complete()

    def _note_complete(self) -> None:
        if self._store.log.end_offset == self.state.end:
            self._missing = _Missing()
            self._begin_quiet_queues()
            self.tables.has_changed = True  # delay offsets were cut at the ends of queues that were not there yet
            self._dispatch()
            for topic in {each.key[0] for each in self._store.derived.queues} - self.state.tables.topics.keys():
                self._store.delete_topic(topic)  # it was deleted while its messages were missing here
            self._context.tell("commit_log_complete", end=self.state.end)

    def _begin_quiet_queues(self) -> None:
        """Begin the queues whose messages all precede this commit log behind them: their offsets are not given again."""
        if not self.incomplete.is_set():
            topics = self.state.tables.topics
            self._store.begin_queues({key: each for key, each in self.state.nexts.items() if key[0] in topics})

    # ---------------------------------------------------------------- roles

    def _on_delivered(self, news: Delivered) -> None:
        if not isinstance(news, LeaderChanged):
            return
        self.leader = news.leader
        self._resign()
        if news.leader == self._node_id:
            self._elected_in = news.term
            self._begin()
        elif news.leader is not None:
            self._tell_role("slave", news.term)

    def _begin(self) -> None:
        self._begin_due = math.inf
        if self._elected_in is not None:
            self._propose(BeginLeadership(self._elected_in), partial(self._on_begun, self._elected_in))

    def _on_begun(self, term: int, outcome: Applied | RaftError) -> None:
        if self._elected_in != term:
            return
        if isinstance(outcome, Applied):
            self._begun_in = term
        else:
            self._begin_due = self._context.clock() + BEGIN_RETRY_S

    def _lead_if_ready(self) -> None:
        """Become master: everything of earlier terms is applied, and in the commit log."""
        term = self._begun_in
        if term is None or self._leadership is not None or self.incomplete.is_set():
            return
        self._leadership = _Leadership(term, self.state.end)
        self._context.leads = True
        self.tables.begin(term)
        self._tell_role("master", term)

    def _resign(self) -> None:
        self._elected_in = self._begun_in = None
        self._begin_due = math.inf
        if self._leadership is not None:
            self._leadership = None
            self._context.leads = False
            self.tables.end()

    def _tell_role(self, role: str, term: int) -> None:
        if self._told != (role, term):
            self._told = role, term
            self._context.tell("role", role=role, epoch=term, broker=self._context.broker_name)

    # ---------------------------------------------------------------- proposals

    def put(self, records: Sequence[bytes], done: PutDone, *, wait: bool = True) -> None:
        """See `MessagePort`. A put waits for its majority in any case."""
        leadership = self._leadership
        if leadership is None:
            done(NotStored(ResponseCode.SERVICE_NOT_AVAILABLE, "this broker is not the master of its group: ask that"))
            return
        self.tables.propose_names()  # the topic of a message is known before it
        size = sum(map(len, records))
        if leadership.is_broken or leadership.deletions:
            done(NotStored(ResponseCode.SERVICE_NOT_AVAILABLE, "an earlier change is not settled yet: try again"))
            return
        if leadership.put_bytes and leadership.put_bytes + size > IN_FLIGHT_BYTES_MAX:
            done(NotStored(ResponseCode.SYSTEM_BUSY, f"{leadership.put_bytes} bytes wait for a majority"))
            return
        try:
            self._store.reserve_bytes(leadership.put_bytes + size)
        except NoSpace as error:
            self._full_disk.note(error)
            done(NotStored(ResponseCode.SERVICE_NOT_AVAILABLE, f"the broker's disk is full: {error}"))
            return
        batch = assign(records, leadership.end, lambda key: leadership.nexts.get(key) or self._store.next_offset(key))
        command = StoreRecords(leadership.term, leadership.end, bytes(batch.payload))
        leadership.end = batch.found.end
        leadership.nexts.update((run.key, run.next) for run in batch.found.runs)
        leadership.puts += 1
        leadership.put_bytes += size
        self._propose(command, partial(self._put_settled, leadership, size, batch.found, done))

    def _put_settled(
        self, leadership: _Leadership, size: int, found: Walk, done: PutDone, outcome: Applied | RaftError
    ) -> None:
        leadership.puts -= 1
        leadership.put_bytes -= size
        is_stored = isinstance(outcome, Applied) and outcome.result == DONE
        leadership.is_broken |= not is_stored
        if leadership.puts == 0 and self._leadership is leadership:
            leadership.end, leadership.is_broken = self.state.end, False
            leadership.nexts.clear()
        if is_stored:
            done(StoredMessages(SendStatus.SEND_OK, found.physical_offsets, found.queue_offsets))
        elif isinstance(outcome, RaftError) and not outcome.definite:
            done(OutcomeOpen(ResponseCode.SYSTEM_ERROR, f"the outcome is not known: {outcome}"))
        else:
            reason = str(outcome) if isinstance(outcome, RaftError) else "an earlier message was not stored"
            done(NotStored(ResponseCode.SERVICE_NOT_AVAILABLE, reason))

    def _propose_tables(self, term: int, changes: TableChanges, done: Callable[[str | None], None]) -> None:
        leadership, deleted = self._leadership, changes.deleted_topics
        if leadership is not None and deleted:
            leadership.deletions += 1

        def on_settled(outcome: Applied | RaftError) -> None:
            if leadership is not None and deleted:
                leadership.deletions -= 1
                leadership.nexts = {key: each for key, each in leadership.nexts.items() if key[0] not in deleted}
            if isinstance(outcome, RaftError):
                done(str(outcome))
            else:
                done(None if outcome.result == DONE else "its leadership has ended")

        self._propose(ChangeTables(term, changes), on_settled)

    def _propose(self, command: GroupCommand, settled: Callable[[Applied | RaftError], None]) -> None:
        assert self._group is not None, "a group that has ended has no leader"
        self._proposing = encode_group_command(command)
        try:
            self._group.propose(self._proposing, settled)
        except RaftError as error:
            settled(error)
        finally:
            self._proposing = None

    # ---------------------------------------------------------------- rounds

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return min(self._begin_due, self.tables.deadline, self._flush_due if not self._flushing else math.inf)

    def tick(self, now: float) -> None:
        """Once a round: advance roles and tables, and dispatch to consumers."""
        if self._begin_due <= now:
            self._begin()
        self._lead_if_ready()
        self.tables.tick()
        self._dispatch()

    def _dispatch(self) -> None:
        runs = self._store.dispatch()
        if runs:
            self._on_dispatched(runs)

    def flush_if_due(self, now: float) -> None:
        """Once a round: flush the commit log now and then, so that a snapshot finds little to flush."""
        if self._flushing:
            return
        if not self._store.is_dirty:
            self._flush_due = math.inf  # a snapshot, or a cut, has flushed it meanwhile
        elif self._flush_due <= now:
            self._begin_flush()
        elif self._flush_due == math.inf:
            self._flush_due = now + self._context.properties.seconds("flushIntervalCommitLog")

    def _begin_flush(self) -> None:
        self._flushing = True
        self._flush_due = math.inf
        flush = self._store.begin_flush()

        def on_flushed(error: BaseException | None) -> None:
            self._flushing = False
            if error is not None:
                raise error
            self._store.end_flush(flush)

        self._disk.submit(flush.run, on_flushed)


def _decode(command: bytes) -> GroupCommand:
    try:
        return decode_group_command(command)
    except BadGroupCommand as error:
        raise InvalidRequest(str(error)) from None

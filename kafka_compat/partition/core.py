"""PartitionReplica: one replica of one partition with Kafka's replication by in-sync replicas.

The one decider of this package. `step(now, event)` takes a fact and returns orders (effects). The shell carries them
out at once and in order. The decider owns no socket, file or clock, so that a broker, the simulator and a test run the
same code. `leader` has the rules of a leader, `follower` the rules of a follower, and `replica_log` the facts that both
keep about their log. This module changes the roles:

- The controller's committed state of the partition decides the role. The replica ignores states older than the one it
  knows.
- A new leader epoch makes a new role object, even for the same leader: knowledge of followers and a fetch under way
  belong to the old epoch.
- A role change waits while the log is being truncated: only `Truncated` reports the new log end and its producers.
- A leader that resigns answers all requests that wait.

The shell calls `step` at every event, and gives it `TimePassed` when `deadline` is reached. It stores the properties
`log_start`, `log_end`, `high_watermark`, `leader_epochs` and `producer_snapshot` with the log end that they belong to.
"""

import math
from collections.abc import Sequence
from typing import assert_never

from kafka_compat.model import NO_EPOCH, NO_LEADER, PartitionState, TopicPartition
from kafka_compat.partition import invariants
from kafka_compat.partition.effects import (
    AnswerEpochEnd,
    AnswerFetch,
    AnswerLatestOffset,
    AnswerLogStart,
    AnswerProduce,
    AnswerVerification,
    CloseConnection,
    Effect,
    HighWatermarkMoved,
    PartitionRole,
    PartitionRoleChanged,
    TransactionHangs,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    BrokersChanged,
    ConsumerFetch,
    EpochEndAsked,
    Event,
    FetchAnswered,
    FetchWaitOver,
    Flushed,
    FollowerFetch,
    LatestOffsetAsked,
    LogStartDue,
    PartitionConfigChanged,
    PartitionRemoved,
    PartitionStateChanged,
    Produce,
    ProducerExpiryDue,
    TimePassed,
    Truncated,
    VerificationAsked,
)
from kafka_compat.partition.follower import FollowerReplica
from kafka_compat.partition.leader import LeaderReplica, epoch_error
from kafka_compat.partition.model import (
    NO_OFFSET,
    ComparedLog,
    EpochBegin,
    PartitionConfig,
    PartitionError,
    ProducerSnapshot,
    RecoveredReplica,
    TransactionsSnapshot,
)
from kafka_compat.partition.replica_log import ReplicaContext, ReplicaLog
from kafka_compat.partition.waits import Waits
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen

LeaderRequest = Produce | VerificationAsked | FollowerFetch | ConsumerFetch | EpochEndAsked | LatestOffsetAsked
ClientRequest = LeaderRequest | LogStartDue


@frozen
class OfflineReplica:
    """The role before the first metadata, or after the removal (`removed`). It refuses all requests."""

    removed: bool = False
    epoch: int = NO_EPOCH
    error: KafkaErrorCode = KafkaErrorCode.NOT_LEADER_OR_FOLLOWER
    """The refusal: others lead a partition that has moved, and no one leads one whose topic is gone."""


class PartitionReplica:
    """One replica. `partition` is only its name, for logs.

    If `checked` is true, every step ends with a check of the invariants, which takes a few microseconds. A broken
    invariant raises `AssertionError`.
    """

    __slots__ = ("_checked", "_context", "_next_request", "_next_state", "log", "partition", "role", "state")

    def __init__(
        self,
        broker_id: int,
        partition: TopicPartition,
        config: PartitionConfig,
        recovered: RecoveredReplica,
        now: float,
        *,
        checked: bool = True,
    ) -> None:
        self.partition = partition
        self.role: LeaderReplica | FollowerReplica | OfflineReplica = OfflineReplica()
        self.state: PartitionState | None = None
        self.log = ReplicaLog.of(recovered, config, now)
        """The replica's view of its log. Callers only read it."""
        self._context = ReplicaContext(broker_id, config, self.log, {})
        self._next_state: PartitionState | None = None
        self._next_request = 1
        self._checked = checked

    # ------------------------------------------------------------ what the shell may look at

    @property
    def broker_id(self) -> int:
        """The broker of this replica."""
        return self._context.broker_id

    @property
    def log_start(self) -> int:
        """The offset of the first record that is kept."""
        return self.log.log_start

    @property
    def log_end(self) -> int:
        """The offset of the next record (LEO)."""
        return self.log.log_end

    @property
    def high_watermark(self) -> int:
        """The end of the records that this replica knows to be committed."""
        return self.log.high_watermark

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the present role, NO_EPOCH if there was none yet."""
        return self.role.epoch

    @property
    def is_leader(self) -> bool:
        """True while this replica leads and serves clients."""
        return isinstance(self.role, LeaderReplica)

    @property
    def leader_epochs(self) -> tuple[EpochBegin, ...]:
        """The leader epoch cache as plain data."""
        return self.log.epochs.entries()

    @property
    def compared_log(self) -> ComparedLog | None:
        """Returns the reach of the log, for an election that compares logs.

        Returns None while a leader is known or the log may still change. A truncation under way ends before the replica
        learns that it has no leader.
        """
        state = self.state
        if state is None or state.leader != NO_LEADER or isinstance(self.role, OfflineReplica):
            return None
        return ComparedLog(self.role.epoch, self.log.epochs.last, self.log.log_end)

    def producer_snapshot(self, now: float) -> tuple[ProducerSnapshot, ...]:
        """Returns the idempotent producers at `log_end`, as plain data."""
        return self.log.producers.snapshot(now)

    def transactions_snapshot(self) -> TransactionsSnapshot:
        """Returns the transactions at `log_end`, as plain data."""
        return self.log.producers.transactions.snapshot()

    @property
    def last_stable_offset(self) -> int:
        """The end of the records whose transactions are decided and committed."""
        return self.log.last_stable_offset

    def nearest_replica(self, near: frozenset[int], offset: int) -> int | None:
        """Returns the replica from which a consumer near these brokers should read; None if this one does not lead."""
        return self.role.nearest_replica(near, offset) if isinstance(self.role, LeaderReplica) else None

    @property
    def deadline(self) -> float:
        """The time at which `TimePassed` is due next; infinity if nothing waits for time."""
        return math.inf if isinstance(self.role, OfflineReplica) else self.role.deadline

    # ------------------------------------------------------------ the only entrance

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        """Take a fact and return the orders for the shell, in order. `now` never falls.

        Raises `PartitionError` for an event that cannot follow the orders given so far.
        """
        out: list[Effect] = []
        before = invariants.PartitionFacts.of(self) if self._checked else None
        self._handle(now, event, out)
        if before is not None:
            invariants.check(before, self)
        return out

    def _handle(self, now: float, event: Event, out: list[Effect]) -> None:
        match event:
            case (
                Produce()
                | VerificationAsked()
                | FollowerFetch()
                | ConsumerFetch()
                | EpochEndAsked()
                | LatestOffsetAsked()
            ):
                self._request(now, event, out)
            case FetchAnswered():
                if isinstance(self.role, FollowerReplica):
                    self.role.fetch_answered(event, now, out)
            case Flushed():
                self._on_flushed(now, event.end, out)
            case TimePassed():
                if not isinstance(self.role, OfflineReplica):
                    self.role.time_passed(now, out)
            case FetchWaitOver():
                if isinstance(self.role, LeaderReplica):
                    self.role.fetch_wait_over(event, out)
            case LogStartDue():
                self._log_start_due(event, out)
            case AlterPartitionAnswered():
                if isinstance(self.role, LeaderReplica):
                    self.state = self.role.alter_partition_answered(event, now, out) or self.state
            case PartitionStateChanged():
                self._state_changed(now, event.state, out)
            case BrokersChanged():
                self._context.brokers = event.brokers
                if isinstance(self.role, LeaderReplica):
                    self.role.brokers_changed(now, out)
            case PartitionConfigChanged():
                self._context.config = event.config
                if isinstance(self.role, LeaderReplica):
                    self.role.on_configured(now, out)
            case Truncated():
                self._on_truncated(now, event, out)
            case ProducerExpiryDue():
                self._expire_producers(now, out)
            case PartitionRemoved():
                self._remove(out, moved=event.moved)
            case _:
                assert_never(event)

    def _expire_producers(self, now: float, out: list[Effect]) -> None:
        producers, config = self.log.producers, self._context.config
        producers.expire(now, config.producer_expiry_s)
        if isinstance(self.role, LeaderReplica) and producers.transactions.open:
            out.extend(TransactionHangs(*each) for each in producers.hanging(now, config.hanging_after_s))

    # ------------------------------------------------------------ requests

    def _request(self, now: float, event: LeaderRequest, out: list[Effect]) -> None:
        role = self.role
        if isinstance(role, FollowerReplica) and isinstance(event, ConsumerFetch) and event.follower_answers:
            role.consumer_fetch(event, out)
            return
        if not isinstance(role, LeaderReplica):
            self._refuse(event, out)
            return
        match event:
            case Produce():
                role.produce(event, now, out)
            case VerificationAsked():
                role.verification_asked(event, out)
            case FollowerFetch():
                role.follower_fetch(event, now, out)
            case ConsumerFetch():
                role.consumer_fetch(event, now, out)
            case EpochEndAsked():
                role.epoch_end(event, out)
            case LatestOffsetAsked():
                role.latest_offset(event, out)
            case _:
                assert_never(event)

    def _refuse(self, event: ClientRequest, out: list[Effect]) -> None:
        """Refuse a request, because this replica does not lead.

        A wrong leader epoch in the request is reported first.
        """
        code = KafkaErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(self.role, OfflineReplica):
            code = self.role.error
        elif not isinstance(event, Produce | VerificationAsked | LogStartDue) and event.leader_epoch != NO_EPOCH:
            code = epoch_error(self.role.epoch, event.leader_epoch) or code
        match event:
            case Produce(token=token, acks=0):
                out.append(CloseConnection(token, code))
            case Produce(token=token):
                out.append(AnswerProduce(token, code, NO_OFFSET, NO_OFFSET))
            case VerificationAsked(token=token):
                out.append(AnswerVerification(token, code, 0))
            case FollowerFetch(token=token) | ConsumerFetch(token=token):
                out.append(AnswerFetch(token, code, NO_OFFSET, NO_OFFSET, NO_OFFSET, NO_OFFSET))
            case EpochEndAsked(token=token):
                out.append(AnswerEpochEnd(token, code, NO_EPOCH, NO_OFFSET))
            case LatestOffsetAsked(token=token):
                out.append(AnswerLatestOffset(token, code, NO_OFFSET, NO_OFFSET, NO_EPOCH))
            case LogStartDue(token=token):
                if token is not None:
                    out.append(AnswerLogStart(token, code, NO_OFFSET))
            case _:
                assert_never(event)

    def _log_start_due(self, event: LogStartDue, out: list[Effect]) -> None:
        """Move the log start.

        Every replica carries out its own retention, and only the leader a client's DeleteRecords.
        """
        if isinstance(self.role, LeaderReplica):
            self.role.log_start_due(event, out)
        elif event.token is not None:
            self._refuse(event, out)
        elif not self._is_truncating:
            self.log.move_start(event.offset, out)

    # ------------------------------------------------------------ the log

    @property
    def _is_truncating(self) -> bool:
        return isinstance(self.role, FollowerReplica) and self.role.truncating_to is not None

    def _on_flushed(self, now: float, end: int, out: list[Effect]) -> None:
        log = self.log
        if end <= log.flushed_end:
            return
        log.flushed_end = min(end, log.log_end)
        if not log.before_ack:
            return
        match self.role:
            case LeaderReplica():
                self.role.on_flushed(now, out)
            case FollowerReplica():
                self.role.on_flushed(out)
            case OfflineReplica():
                pass
            case _:
                assert_never(self.role)

    def _on_truncated(self, now: float, event: Truncated, out: list[Effect]) -> None:
        role = self.role
        if isinstance(role, OfflineReplica) and role.removed:
            return
        if not isinstance(role, FollowerReplica) or role.truncating_to is None:
            raise PartitionError(f"{self.partition} was truncated to {event.end}, which it was not told to be")
        if not self.log.log_start <= event.end <= role.truncating_to:
            raise PartitionError(f"{self.partition} was truncated to {event.end} instead of {role.truncating_to}")
        self.log.record_truncation(event.end, event.producers, event.transactions, now)
        if self.log.high_watermark > event.end:
            self.log.high_watermark = event.end
            out.append(HighWatermarkMoved(event.end))
        role.truncating_to = None
        state, self._next_state = self._next_state, None
        if state is not None:
            self._adopt(now, state, out)
        if self.role is role:  # also after news of the same leader epoch, which changed nothing here
            role.fetch(out)

    # ------------------------------------------------------------ roles

    def _state_changed(self, now: float, state: PartitionState, out: list[Effect]) -> None:
        known = self._next_state or self.state
        if isinstance(self.role, OfflineReplica) and self.role.removed:
            return
        if known is not None:
            if state.topic_id != known.topic_id:
                raise PartitionError(f"{self.partition} is of another topic now; a replica keeps its topic id")
            if state.partition_epoch <= known.partition_epoch or state.leader_epoch < known.leader_epoch:
                return
        if self._is_truncating:
            self._next_state = state
        else:
            self._adopt(now, state, out)

    def _adopt(self, now: float, state: PartitionState, out: list[Effect]) -> None:
        is_news = self.state is None or state.leader_epoch != self.role.epoch
        self.state = state
        if self.broker_id not in state.replicas:
            self._remove(out, moved=True)
        elif isinstance(self.role, LeaderReplica) and not is_news and state.leader == self.broker_id:
            self.role.adopt(state, now, out)
        elif is_news and state.leader == self.broker_id:
            self._lead(now, state, out)
        elif is_news or (isinstance(self.role, LeaderReplica) and state.leader != self.broker_id):
            self._follow(state, out)

    def _lead(self, now: float, state: PartitionState, out: list[Effect]) -> None:
        waits = Waits()
        if isinstance(self.role, LeaderReplica):
            waits, self._next_request = self.role.waits, self.role.next_request
        elif isinstance(self.role, FollowerReplica):
            self.role.stop(out)
        self.role = LeaderReplica(self._context, state, waits, self._next_request, now)
        out.append(PartitionRoleChanged(PartitionRole.LEADER, state.leader, state.leader_epoch, self.log.log_end))
        self.role.begin(now, out)

    def _follow(self, state: PartitionState, out: list[Effect]) -> None:
        if isinstance(self.role, LeaderReplica):
            self._next_request = self.role.next_request
            self.role.resign(KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, out)
        elif isinstance(self.role, FollowerReplica):
            self.role.stop(out)
        self.role = FollowerReplica(self._context, state.leader, state.leader_epoch)
        out.append(PartitionRoleChanged(PartitionRole.FOLLOWER, state.leader, state.leader_epoch))
        self.role.fetch(out)

    def _remove(self, out: list[Effect], *, moved: bool) -> None:
        error = KafkaErrorCode.NOT_LEADER_OR_FOLLOWER if moved else KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if isinstance(self.role, LeaderReplica):
            self.role.resign(error, out)
        elif isinstance(self.role, FollowerReplica):
            self.role.stop(out)
        self._next_state = None
        self.role = OfflineReplica(removed=True, epoch=self.role.epoch, error=error)
        out.append(PartitionRoleChanged(PartitionRole.OFFLINE, NO_LEADER, self.role.epoch))

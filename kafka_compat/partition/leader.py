"""A replica that leads: it appends, serves fetches, moves the high watermark and proposes ISR changes.

Rules, with their sources:

- A follower's fetch counts only if both believe in the same leader epoch, from the newest process of its broker, and if
  its log does not diverge; a diverging one changes nothing (KIP-101, KIP-279, KIP-903, KAFKA-14704).
- The high watermark is the least end of leader, maximal ISR and followers about to join it. It never falls while one
  replica leads. With `strict_min_isr` it stands still while the committed ISR is below the min ISR (KAFKA-15583).
- The leader computes it again after every append, flush, fetch and ISR change, also after a late answer (KAFKA-13091).
- The ISR changes one AlterPartition at a time (KIP-497).
- While replicas outside of the ISR are eligible to lead, the high watermark stands still. If an ISR of at least the min
  ISR could commit more, the leader asks the controller to go on without them, and moves the high watermark when that is
  committed (KIP-966).
- A new leader knows nothing about its followers' logs until they fetch in its epoch.
- An acknowledgement with acks=-1 means: the whole maximal ISR, of at least the min ISR, holds the batch.
"""

import math
from collections.abc import Iterable

from kafka_compat.model import NO_EPOCH, PartitionState
from kafka_compat.partition import acks
from kafka_compat.partition.acks import WaitingProduce, WaitingProduces
from kafka_compat.partition.effects import (
    AnswerEpochEnd,
    AnswerFetch,
    AnswerLatestOffset,
    AnswerLogStart,
    AnswerProduce,
    AnswerVerification,
    AppendBatches,
    CloseConnection,
    Effect,
    HighWatermarkMoved,
    SendAlterPartition,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    ConsumerFetch,
    EpochEndAsked,
    FetchWaitOver,
    FollowerFetch,
    LatestOffsetAsked,
    LogStartDue,
    Produce,
    VerificationAsked,
)
from kafka_compat.partition.follower_state import FollowerState
from kafka_compat.partition.high_watermark import compute_high_watermark, effective_min_isr
from kafka_compat.partition.isr import (
    AlterOutcome,
    IsrState,
    PendingIsr,
    may_join,
    out_of_sync,
    outcome_of,
    with_broker_epochs,
)
from kafka_compat.partition.model import NO_OFFSET, EpochEnd
from kafka_compat.partition.replica_log import ReplicaContext
from kafka_compat.partition.waits import WaitingFetch, Waits
from kafka_compat.protocol.error_codes import KafkaErrorCode

NONE = KafkaErrorCode.NONE


def epoch_error(known: int, asked: int) -> KafkaErrorCode:
    """Returns how the leader epoch that a request names compares to the known one; NONE if they are equal."""
    if asked == known:
        return NONE
    return KafkaErrorCode.FENCED_LEADER_EPOCH if asked < known else KafkaErrorCode.UNKNOWN_LEADER_EPOCH


class LeaderReplica:
    """One leader epoch of this replica. Every method adds its orders to `out`."""

    __slots__ = (
        "_context",
        "_factor",
        "_log",
        "_min_isr",
        "_shrink_at",
        "_wake_at",
        "epoch",
        "epoch_start",
        "followers",
        "isr",
        "next_request",
        "waits",
    )

    def __init__(
        self, context: ReplicaContext, state: PartitionState, waits: Waits, next_request: int, now: float
    ) -> None:
        self._context = context
        self._log = context.log
        self.epoch = state.leader_epoch
        self.epoch_start = self._log.log_end
        self.followers: dict[int, FollowerState] = {}
        self.isr = IsrState(state.isr, state.partition_epoch, state.recovering, state.elr)
        self.waits = waits
        self.next_request = next_request
        """The number of the next AlterPartition: none is used twice by one replica."""
        self._shrink_at = now + context.config.replica_lag_time_s / 2
        self._wake_at = waits.earliest_deadline()
        self._factor = self._min_isr = 1
        self._take_replicas(state, now)

    # ------------------------------------------------------------ leadership

    @property
    def deadline(self) -> float:
        """The time at which `time_passed` is due; sometimes too early, never too late."""
        retry_at = self.isr.pending.retry_at if self.isr.pending is not None else math.inf
        return min(self._wake_at, self._shrink_at, retry_at)

    def begin(self, now: float, out: list[Effect]) -> None:
        """Record the epoch, even if it stays empty, and take over the fetches that waited in an earlier one."""
        self._log.epochs.assign(self.epoch, self.epoch_start)
        for waiting in [*self.waits.followers.values(), *self.waits.consumers.values()]:
            if waiting.leader_epoch not in (NO_EPOCH, self.epoch):
                self._forget_fetch(waiting.token)
                self._fetch_error(waiting.token, KafkaErrorCode.FENCED_LEADER_EPOCH, out)
        self._move_high_watermark(now, out)

    def resign(self, error: KafkaErrorCode, out: list[Effect]) -> None:
        """Stop leading and answer all requests that wait.

        The next leader may commit the appended batches, or truncate them.
        """
        self._answer_produces((*self.waits.replicated.all(), *self.waits.flushed.all()), error, out)
        waiting = (*self.waits.followers, *self.waits.consumers)
        out.extend(AnswerFetch(token, error, NO_OFFSET, NO_OFFSET, NO_OFFSET, NO_OFFSET) for token in waiting)
        self.waits.followers.clear()
        self.waits.consumers.clear()

    def adopt(self, state: PartitionState, now: float, out: list[Effect]) -> None:
        """Take the controller's changed state of the partition within this leader epoch."""
        self.isr.commit(state)
        self._take_replicas(state, now)
        self._isr_settled(now, out)

    def _take_replicas(self, state: PartitionState, now: float) -> None:
        """Members of the ISR count as caught up when the leadership begins, or they would all have to leave at once."""
        self._factor = state.factor
        self._min_isr = effective_min_isr(self._context.config.min_insync_replicas, self._factor)
        for replica in state.replicas:
            if replica != self._context.broker_id and replica not in self.followers:
                self.followers[replica] = FollowerState(replica, now if replica in state.isr else -math.inf)
        for replica in [each for each in self.followers if each not in state.replicas]:
            del self.followers[replica]

    def on_configured(self, now: float, out: list[Effect]) -> None:
        """Take the changed settings."""
        self._min_isr = effective_min_isr(self._context.config.min_insync_replicas, self._factor)
        self._shrink_at = min(self._shrink_at, now + self._context.config.replica_lag_time_s / 2)
        self._move_high_watermark(now, out)

    def brokers_changed(self, now: float, out: list[Effect]) -> None:
        """React to changed brokers: followers may become eligible, or stop holding the high watermark back."""
        self._isr_settled(now, out)

    # ------------------------------------------------------------ appends

    def produce(self, event: Produce, now: float, out: list[Effect]) -> None:
        """Append a client's batch unless a rule refuses it, and answer when its promise holds."""
        log, batch = self._log, event.batch
        error = acks.refused_before_append(event.acks, len(self.isr.committed), self._min_isr)
        if error is NONE and batch.offset_count <= 0:
            error = KafkaErrorCode.INVALID_RECORD
        if error is NONE and batch.size > self._context.config.max_message_bytes:
            error = KafkaErrorCode.MESSAGE_TOO_LARGE
        if error is NONE:
            checked = log.producers.check(batch)
            if not isinstance(checked, KafkaErrorCode):
                self._promise(event, checked.base_offset, checked.end_offset, now, out)
                return
            error = checked
        if error is NONE and (batch.kind or log.producers.transactions.open):
            error = self._transaction_error(event)
        if error is not NONE:
            self.refuse_produce(event, error, out)
            return
        base_offset = log.log_end
        log.record_append(batch, base_offset, now)
        out.append(AppendBatches(base_offset, self.epoch, (batch,), event.payload))
        self._wake(self.waits.followers, log.log_end, out)
        if len(self.isr.maximal) == 1:  # else another member is behind, and the high watermark waits for its fetch
            self._move_high_watermark(now, out)
        self._promise(event, base_offset, log.log_end, now, out)

    def _transaction_error(self, event: Produce) -> KafkaErrorCode:
        """Returns the reason why a batch does not fit the transactions of this log, or NONE."""
        producers, batch = self._log.producers, event.batch
        if not batch.kind:  # records outside of the open transaction of their own producer
            return KafkaErrorCode.INVALID_TXN_STATE if batch.producer_id in producers.transactions.open else NONE
        verifies = self._context.config.verifies_transactions
        return producers.check_transaction(batch, event.guard, event.transaction_version, verifies=verifies)

    def verification_asked(self, event: VerificationAsked, out: list[Effect]) -> None:
        """Answer with the guard of a question to the coordinator."""
        guard = 0
        if self._context.config.verifies_transactions:
            guard = self._log.producers.ask(event.producer_id, event.producer_epoch, event.base_sequence)
        out.append(AnswerVerification(event.token, NONE, guard))

    def refuse_produce(self, event: Produce, error: KafkaErrorCode, out: list[Effect]) -> None:
        """Refuse a batch before it is appended: close the connection with acks=0, else answer with the error."""
        if event.acks == 0:
            out.append(CloseConnection(event.token, error))
        else:
            out.append(AnswerProduce(event.token, error, NO_OFFSET, self._log.log_start))

    def _promise(self, event: Produce, base_offset: int, end_offset: int, now: float, out: list[Effect]) -> None:
        """Answer an appended batch now, or when the promise of its acks holds. A duplicate is answered the same way."""
        if event.acks == 0:
            return
        log = self._log
        if event.acks == -1:
            waits: WaitingProduces = self.waits.replicated
            ready = end_offset <= log.high_watermark
            error = acks.decide_replicated(len(self.isr.maximal), self._min_isr) if ready else NONE
        else:
            waits = self.waits.flushed
            ready = end_offset <= log.own_end
            error = NONE
        if ready:
            out.append(AnswerProduce(event.token, error, base_offset, log.log_start))
            return
        deadline = now + event.timeout_s
        waits.add(WaitingProduce(event.token, base_offset, end_offset, deadline))
        if deadline < self._wake_at:
            self._wake_at = deadline

    def _answer_produces(self, waiting: Iterable[WaitingProduce], error: KafkaErrorCode, out: list[Effect]) -> None:
        """Answer requests whose batches are in the log, with any error."""
        log_start = self._log.log_start
        out.extend(AnswerProduce(each.token, error, each.base_offset, log_start) for each in waiting)

    def on_flushed(self, now: float, out: list[Effect]) -> None:
        """Answer produce requests that waited for the flush, and advance the high watermark."""
        self._answer_produces(self.waits.flushed.take_reached(self._log.own_end), NONE, out)
        self._move_high_watermark(now, out)

    # ------------------------------------------------------------ fetches

    def follower_fetch(self, event: FollowerFetch, now: float, out: list[Effect]) -> None:
        """Record a follower's fetch, which acknowledges all below its offset, and answer with the next batches."""
        follower = self.followers.get(event.replica)
        log, offset = self._log, event.fetch_offset
        if event.leader_epoch != self.epoch or follower is None:
            error = epoch_error(self.epoch, event.leader_epoch)
            self._fetch_error(event.token, error if error is not NONE else KafkaErrorCode.UNKNOWN_LEADER_EPOCH, out)
            return
        if event.broker_epoch < max(follower.broker_epoch, self._context.broker_epoch(event.replica) or 0):
            self._fetch_error(event.token, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, out)
            return
        if not self._is_in_log(event.token, offset, event.last_fetched_epoch, out):
            return
        before = follower.log_end
        follower.record_fetch(offset, event.log_start, event.broker_epoch, log.log_end, now)
        if event.replica not in self.isr.maximal:
            self._maybe_expand(follower, now, out)
        if offset != before:
            self._move_high_watermark(now, out)
        waiting = WaitingFetch(event.token, offset, event.min_bytes, now + event.max_wait_s, self.epoch)
        self._answer_or_wait(waiting, log.log_end, self.waits.followers, now, out)

    def consumer_fetch(self, event: ConsumerFetch, now: float, out: list[Effect]) -> None:
        """Answer a consumer's fetch with committed batches."""
        if event.leader_epoch != NO_EPOCH and event.leader_epoch != self.epoch:
            self._fetch_error(event.token, epoch_error(self.epoch, event.leader_epoch), out)
            return
        if self._is_in_log(event.token, event.fetch_offset, event.last_fetched_epoch, out):
            waiting = WaitingFetch(
                event.token,
                event.fetch_offset,
                event.min_bytes,
                now + event.max_wait_s,
                event.leader_epoch,
                event.read_committed,
            )
            self._answer_or_wait(waiting, self._limit_of(waiting), self.waits.consumers, now, out)

    def nearest_replica(self, near: frozenset[int], offset: int) -> int:
        """Returns the replica from which a consumer near these brokers should read at `offset` (KIP-392).

        It is the leader, unless the leader is none of them and a member of the ISR has the offset.
        """
        own = self._context.broker_id
        if own in near:
            return own
        having = [
            follower
            for replica, follower in sorted(self.followers.items())
            if replica in near and replica in self.isr.committed and follower.log_start <= offset <= follower.log_end
        ]
        return max(having, key=lambda follower: follower.log_end).replica if having else own

    def _limit_of(self, fetch: WaitingFetch) -> int:
        """Returns the end of what a consumer may read."""
        return self._log.last_stable_offset if fetch.read_committed else self._log.high_watermark

    def _is_in_log(self, token: int, offset: int, last_fetched_epoch: int, out: list[Effect]) -> bool:
        """Returns True if the fetch position lies on the leader's log.

        Otherwise answers the fetch with the divergence.
        """
        log = self._log
        if offset < log.log_start:
            self._fetch_error(token, KafkaErrorCode.OFFSET_OUT_OF_RANGE, out)
            return False
        if last_fetched_epoch == log.epochs.last and offset <= log.log_end:
            return True
        if last_fetched_epoch != NO_EPOCH:
            end = log.epochs.end_of(last_fetched_epoch, log.log_end)
            if end.epoch < last_fetched_epoch or end.end_offset < offset:
                self._diverges(token, end, out)
                return False
        elif offset > log.log_end:
            self._fetch_error(token, KafkaErrorCode.OFFSET_OUT_OF_RANGE, out)
            return False
        return True

    def _diverges(self, token: int, end: EpochEnd, out: list[Effect]) -> None:
        log = self._log
        out.append(AnswerFetch(token, NONE, NO_OFFSET, NO_OFFSET, log.high_watermark, log.log_start, end))

    def _fetch_error(self, token: int, error: KafkaErrorCode, out: list[Effect]) -> None:
        log = self._log
        out.append(AnswerFetch(token, error, NO_OFFSET, NO_OFFSET, log.high_watermark, log.log_start))

    def _answer_or_wait(
        self, fetch: WaitingFetch, limit: int, waits: dict[int, WaitingFetch], now: float, out: list[Effect]
    ) -> None:
        if fetch.min_bytes <= 0 or fetch.deadline <= now or self._has_enough(fetch, limit):
            self._answer_fetch(fetch, limit, out)
            return
        waits[fetch.token] = fetch
        if fetch.deadline < self._wake_at:
            self._wake_at = fetch.deadline

    def _has_enough(self, fetch: WaitingFetch, limit: int) -> bool:
        if limit <= fetch.fetch_offset:
            return False
        return fetch.min_bytes <= 1 or self._log.window.holds(fetch.fetch_offset, limit, fetch.min_bytes)

    def _answer_fetch(self, fetch: WaitingFetch, limit: int, out: list[Effect]) -> None:
        log, start = self._log, fetch.fetch_offset
        if start < log.log_start:
            self._fetch_error(fetch.token, KafkaErrorCode.OFFSET_OUT_OF_RANGE, out)
            return
        end = limit if limit > start else start
        stable = log.last_stable_offset
        out.append(AnswerFetch(fetch.token, NONE, start, end, log.high_watermark, log.log_start, None, stable))

    def _wake(self, waits: dict[int, WaitingFetch], limit: int, out: list[Effect]) -> None:
        if not waits:
            return
        stable = self._log.last_stable_offset
        for fetch in tuple(waits.values()):
            end = min(limit, stable) if fetch.read_committed else limit
            if self._has_enough(fetch, end):
                del waits[fetch.token]
                self._answer_fetch(fetch, end, out)

    def _forget_fetch(self, token: int) -> WaitingFetch | None:
        return self.waits.followers.pop(token, None) or self.waits.consumers.pop(token, None)

    def fetch_wait_over(self, event: FetchWaitOver, out: list[Effect]) -> None:
        """Answer a waiting fetch with the batches at hand."""
        of_follower = event.token in self.waits.followers
        fetch = self._forget_fetch(event.token)
        if fetch is not None:
            self._answer_fetch(fetch, self._log.log_end if of_follower else self._limit_of(fetch), out)

    # ------------------------------------------------------------ small questions

    def epoch_end(self, event: EpochEndAsked, out: list[Effect]) -> None:
        """Answer with the end of an epoch in this log. A future epoch has no end, as in Apache Kafka."""
        error = NONE if event.leader_epoch == NO_EPOCH else epoch_error(self.epoch, event.leader_epoch)
        epochs = self._log.epochs
        is_known = error is NONE and event.epoch <= epochs.last
        end = epochs.end_of(event.epoch if is_known else NO_EPOCH, self._log.log_end)
        out.append(AnswerEpochEnd(event.token, error, end.epoch, end.end_offset))

    def latest_offset(self, event: LatestOffsetAsked, out: list[Effect]) -> None:
        """Answer with the high watermark, up to which consumers may read.

        A new leader's high watermark may lag. Until it reaches the epoch's start, the answer is OFFSET_NOT_AVAILABLE.
        """
        log = self._log
        error = NONE if event.leader_epoch == NO_EPOCH else epoch_error(self.epoch, event.leader_epoch)
        if error is NONE and log.high_watermark < self.epoch_start:
            error = KafkaErrorCode.OFFSET_NOT_AVAILABLE
        limit = log.last_stable_offset if event.read_committed else log.high_watermark
        offset = limit if error is NONE else NO_OFFSET
        epoch = log.epochs.epoch_below(offset) if error is NONE else NO_EPOCH
        out.append(AnswerLatestOffset(event.token, error, offset, log.log_start, epoch))

    def log_start_due(self, event: LogStartDue, out: list[Effect]) -> None:
        """Move the log start.

        Retention moves it as far as it may. DeleteRecords moves it exactly to its offset, or is refused.
        """
        log = self._log
        offset = log.high_watermark if event.offset == NO_OFFSET else event.offset
        error = NONE
        if event.token is not None and not 0 <= offset <= log.high_watermark:
            error = KafkaErrorCode.OFFSET_OUT_OF_RANGE
        else:
            log.move_start(offset, out)
        if event.token is not None:
            out.append(AnswerLogStart(event.token, error, log.log_start if error is NONE else NO_OFFSET))

    # ------------------------------------------------------------ high watermark

    def _move_high_watermark(self, now: float, out: list[Effect]) -> None:
        """Advance the high watermark as far as the copies allow, and answer the requests that waited for it."""
        log, isr = self._log, self.isr
        if self._context.config.strict_min_isr and len(isr.committed) < self._min_isr:
            return
        offset = compute_high_watermark(self._context, self.followers.values(), isr.maximal, now)
        if offset <= log.high_watermark:
            return
        if isr.eligible:
            self._go_on_alone(now, out)
            return
        log.high_watermark = offset
        out.append(HighWatermarkMoved(offset))
        error = acks.decide_replicated(len(isr.maximal), self._min_isr)
        self._answer_produces(self.waits.replicated.take_reached(offset), error, out)
        self._wake(self.waits.consumers, offset, out)

    # ------------------------------------------------------------ ISR

    def _go_on_alone(self, now: float, out: list[Effect]) -> None:
        """Ask for the present ISR without the replicas that are eligible outside of it."""
        isr = self.isr
        if isr.pending is not None or len(isr.committed) < self._min_isr:
            return
        if now >= isr.not_before:
            self._propose(isr.committed, out, keeps_eligible=False)
        elif isr.not_before < self._wake_at:
            self._wake_at = isr.not_before

    def _maybe_expand(self, follower: FollowerState, now: float, out: list[Effect]) -> None:
        isr = self.isr
        if isr.pending is not None or now < isr.not_before:
            return
        log, registration = self._log, self._context.brokers.get(follower.replica)
        if may_join(
            follower,
            registration,
            log_start=log.log_start,
            high_watermark=log.high_watermark,
            epoch_start=self.epoch_start,
        ):
            self._propose((*isr.committed, follower.replica), out, keeps_eligible=self._context.config.eligible_leaders)

    def _maybe_shrink(self, now: float, out: list[Effect]) -> None:
        isr = self.isr
        if isr.pending is None and now >= isr.not_before:
            late = out_of_sync(self.followers.values(), isr.committed, self._context, now)
            if late:
                rest = tuple(member for member in isr.committed if member not in late)
                waits = self._context.config.eligible_leaders and len(rest) < self._min_isr
                self._propose(rest, out, keeps_eligible=waits)

    def _propose(self, members: tuple[int, ...], out: list[Effect], *, keeps_eligible: bool) -> None:
        """Send an AlterPartition. A leader that asks for a new ISR has recovered from an unclean election."""
        request = SendAlterPartition(
            request=self.next_request,
            leader_epoch=self.epoch,
            partition_epoch=self.isr.partition_epoch,
            isr=with_broker_epochs(members, self.followers, self._context),
            recovering=False,
            keeps_eligible=keeps_eligible,
        )
        self.next_request += 1
        self.isr.begin(request)
        out.append(request)

    def alter_partition_answered(
        self, event: AlterPartitionAnswered, now: float, out: list[Effect]
    ) -> PartitionState | None:
        """Take the controller's answer. Returns its committed state if that is news of this leader epoch."""
        isr = self.isr
        if isr.pending is None or isr.pending.request.request != event.request:
            return None
        if event.error is NONE and event.state is not None:
            if event.state.leader_epoch != self.epoch or event.state.partition_epoch < isr.partition_epoch:
                return None
            isr.commit(event.state)
            self._take_replicas(event.state, now)
            self._isr_settled(now, out)
            return event.state
        match outcome_of(event.error):
            case AlterOutcome.ROLLED_BACK:
                isr.roll_back(now + self._context.config.alter_partition_backoff_s)
                self._move_high_watermark(now, out)
            case AlterOutcome.AWAITS_METADATA:
                isr.pending = PendingIsr(isr.pending.request)
            case AlterOutcome.UNKNOWN:
                isr.pending = PendingIsr(isr.pending.request, now + self._context.config.alter_partition_backoff_s)
        return None

    def _isr_settled(self, now: float, out: list[Effect]) -> None:
        """React to another ISR or other brokers: the high watermark may move, and the next follower may join.

        A follower that was just removed for its silence must fetch before it joins again: it may have lost records.
        """
        self._move_high_watermark(now, out)
        log_end, lag_time_s = self._log.log_end, self._context.config.replica_lag_time_s
        for follower in self.followers.values():
            if follower.replica not in self.isr.maximal and follower.is_caught_up(log_end, now, lag_time_s):
                self._maybe_expand(follower, now, out)

    # ------------------------------------------------------------ time

    def time_passed(self, now: float, out: list[Effect]) -> None:
        """Answer expired requests, repeat an AlterPartition of unknown outcome, and look for lagging members."""
        pending = self.isr.pending
        if pending is not None and pending.retry_at <= now:
            self.isr.pending = PendingIsr(pending.request)
            out.append(pending.request)
        if now >= self._wake_at:
            self._answer_expired(now, out)
            self._wake_at = self.waits.earliest_deadline()
            if self.isr.eligible:
                self._move_high_watermark(now, out)
        if now >= self._shrink_at:
            self._shrink_at = now + self._context.config.replica_lag_time_s / 2
            self._maybe_shrink(now, out)
            self._move_high_watermark(now, out)

    def _answer_expired(self, now: float, out: list[Effect]) -> None:
        log, waits = self._log, self.waits
        expired = (*waits.replicated.take_expired(now), *waits.flushed.take_expired(now))
        self._answer_produces(expired, KafkaErrorCode.REQUEST_TIMED_OUT, out)
        for fetches in (waits.followers, waits.consumers):
            for fetch in [each for each in fetches.values() if each.deadline <= now]:
                del fetches[fetch.token]
                self._answer_fetch(fetch, log.log_end if fetches is waits.followers else self._limit_of(fetch), out)

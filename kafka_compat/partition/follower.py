"""A replica that follows: it fetches from the leader, one fetch at a time, and truncates where its log diverges.

Rules, with their sources:

- An answer counts only if leader epoch and log end are still the same as in the request.
- A fetch offset promises everything below it. If only flushed copies count, the next fetch waits for the flush.
- A diverging epoch truncates to the least of three ends: the leader's end of the epoch, this log's end of it, and the
  log end. The high watermark stays (KIP-279, KIP-595, KAFKA-14704). The log may have to be truncated several times.
- If the leader has trimmed the fetch offset, the follower drops its log and begins at the leader's log start.
- It does the same if its log shares nothing with the leader's log, or is empty without an epoch. The start of such a
  log implies nothing about the leader's, which may have begun at 0 after all copies were lost. A member of the ISR
  would otherwise lack the first records of the new log.
- The high watermark is the leader's, limited to the log's end; after an election it may fall.
"""

import math

import attrs

from kafka_compat.model import NO_EPOCH, NO_LEADER
from kafka_compat.partition.effects import (
    AnswerFetch,
    AppendBatches,
    Effect,
    FetchFrom,
    RefusePeer,
    ResetLog,
    StopFetching,
    TruncateLog,
)
from kafka_compat.partition.events import ConsumerFetch, FetchAnswered
from kafka_compat.partition.leader import epoch_error
from kafka_compat.partition.model import NO_OFFSET, EpochEnd
from kafka_compat.partition.replica_log import ReplicaContext
from kafka_compat.protocol.error_codes import KafkaErrorCode

OFFSET_MAX = 2**62
"""No log gets here: the offsets of the wire end at 2^63."""


@attrs.define
class FollowerReplica:
    """A leader epoch in which another broker leads, or none. Every method adds its orders to `out`.

    At most one of three is set: a fetch is under way at `fetching_from`, the shell truncates to `truncating_to`, or the
    next fetch is due at `retry_at`. If all are unset, the replica waits for a flush or for a leader.
    """

    context: ReplicaContext
    leader: int
    epoch: int
    fetching_from: int | None = None
    truncating_to: int | None = None
    retry_at: float = math.inf

    @property
    def deadline(self) -> float:
        """The time at which `time_passed` is due."""
        return self.retry_at

    def fetch(self, out: list[Effect]) -> None:
        """Fetch from this log's end, as soon as everything below may be promised."""
        self.fetching_from = None
        self.retry_at = math.inf
        log = self.context.log
        if self.leader == NO_LEADER or self.truncating_to is not None or not log.is_flushed:
            return
        self.fetching_from = log.log_end
        out.append(FetchFrom(self.leader, self.epoch, log.log_end, log.epochs.last, log.log_start))

    def consumer_fetch(self, event: ConsumerFetch, out: list[Effect]) -> None:
        """Answer a consumer with batches that are known to be committed (KIP-392); it never waits here.

        A position beyond this log is out of range, although the leader may have it: the client then asks the leader.
        """
        log, offset = self.context.log, event.fetch_offset
        error, diverging = KafkaErrorCode.NONE, None
        if event.leader_epoch != NO_EPOCH:
            error = epoch_error(self.epoch, event.leader_epoch)
        if error is KafkaErrorCode.NONE and not log.log_start <= offset <= log.log_end:
            error = KafkaErrorCode.OFFSET_OUT_OF_RANGE
        if error is KafkaErrorCode.NONE and event.last_fetched_epoch != NO_EPOCH:
            end = log.epochs.end_of(event.last_fetched_epoch, log.log_end)
            if end.epoch < event.last_fetched_epoch or end.end_offset < offset:
                diverging = end
        limit = log.last_stable_offset if event.read_committed else log.high_watermark
        start = NO_OFFSET if error is not KafkaErrorCode.NONE or diverging is not None else offset
        end_offset = NO_OFFSET if start == NO_OFFSET else max(limit, start)
        out.append(
            AnswerFetch(
                event.token,
                error,
                start,
                end_offset,
                log.high_watermark,
                log.log_start,
                diverging,
                log.last_stable_offset,
            )
        )

    def stop(self, out: list[Effect]) -> None:
        """Another leadership begins."""
        if self.leader != NO_LEADER:
            out.append(StopFetching())
        self.fetching_from = None
        self.retry_at = math.inf

    def on_flushed(self, out: list[Effect]) -> None:
        """Fetch again if the follower waited for this flush."""
        if self.fetching_from is None and self.retry_at == math.inf:
            self.fetch(out)

    def time_passed(self, now: float, out: list[Effect]) -> None:
        """Fetch again after an error."""
        if now >= self.retry_at:
            self.fetch(out)

    def fetch_answered(self, event: FetchAnswered, now: float, out: list[Effect]) -> None:
        """Take the leader's answer to the fetch under way, if the log still ends where that fetch began."""
        log = self.context.log
        if (
            event.leader_epoch != self.epoch
            or event.fetch_offset != self.fetching_from
            or event.fetch_offset != log.log_end
            or event.last_fetched_epoch not in (None, log.epochs.last)
        ):
            return
        self.fetching_from = None
        match event.error:
            case KafkaErrorCode.NONE if event.diverging is not None:
                self._truncate(event.diverging, event.log_start, now, out)
            case KafkaErrorCode.NONE:
                self._append(event, now, out)
            case KafkaErrorCode.OFFSET_OUT_OF_RANGE if event.log_start >= 0 and event.log_start != log.log_end:
                # A leader knows a log with an epoch, and would say where the two part, unless it has trimmed that place.
                if event.log_start > OFFSET_MAX or (event.log_start < log.log_end and log.epochs.last != NO_EPOCH):
                    self._refuse(f"a log that begins at {event.log_start} has not trimmed {log.log_end}", now, out)
                    return
                self._reset(event.log_start, out)
                self.fetch(out)
            case _:
                self._pause(now)

    def _pause(self, now: float) -> None:
        self.retry_at = now + self.context.config.fetch_backoff_s

    def _refuse(self, reason: str, now: float, out: list[Effect]) -> None:
        out.append(RefusePeer(self.leader, reason))
        self._pause(now)

    def _append(self, event: FetchAnswered, now: float, out: list[Effect]) -> None:
        log = self.context.log
        if 0 <= event.log_start < log.log_start == log.log_end and log.epochs.last == NO_EPOCH:
            self._reset(event.log_start, out)
            self.fetch(out)
            return
        objection = self._objection(event)
        if objection is not None:
            self._refuse(objection, now, out)
            return
        if event.batches:
            first = event.batches[0]
            if first.base_offset < log.log_end:
                self._reset(first.base_offset, out)
            for batch in event.batches:
                if batch.leader_epoch != log.epochs.last:
                    log.epochs.assign(batch.leader_epoch, batch.base_offset)
                log.record_append(batch, batch.base_offset, now)
            out.append(AppendBatches(first.base_offset, NO_EPOCH, event.batches, event.payload))
        if event.high_watermark >= 0:
            log.set_high_watermark(event.high_watermark, out)
        log.move_start(event.log_start, out)
        self.fetch(out)

    def _objection(self, event: FetchAnswered) -> str | None:
        """Returns the reason why these ends or batches cannot be a leader's after this log, or None if they can be.

        The leader's log start may lie within a batch. That batch may then begin before the end of this log, if this log
        is empty or the leader has trimmed all of it.
        """
        log = self.context.log
        if event.log_start > event.high_watermark >= 0 or max(event.high_watermark, event.log_start) > OFFSET_MAX:
            return f"a log that begins at {event.log_start}, and is committed up to {event.high_watermark}"
        if not event.batches:
            return None
        end, epoch = log.log_end, max(log.epochs.last, 0)
        first = event.batches[0]
        if 0 <= first.base_offset < end < first.end_offset and end in (log.log_start, event.log_start):
            end = first.base_offset
        for batch in event.batches:
            if batch.offset_count <= 0 or batch.base_offset < end:
                return f"a batch of {batch.offset_count} at {batch.base_offset} after a log end of {end}"
            if not epoch <= batch.leader_epoch <= self.epoch:
                return f"a batch of leader epoch {batch.leader_epoch} after {epoch} in epoch {self.epoch}"
            end, epoch = batch.base_offset + batch.offset_count, batch.leader_epoch
        return f"a batch that ends at {end}, where no log gets" if end > OFFSET_MAX else None

    def _truncate(self, diverging: EpochEnd, leader_start: int, now: float, out: list[Effect]) -> None:
        log = self.context.log
        own = log.epochs.end_of(diverging.epoch, log.log_end)
        end = min(diverging.end_offset, log.log_end, own.end_offset if own.epoch != NO_EPOCH else log.log_end)
        if diverging.epoch < 0 or end < 0 or (end == log.log_end and diverging.epoch >= log.epochs.last):
            self._refuse(f"epoch {diverging.epoch} ends at {diverging.end_offset}, which does not diverge", now, out)
        elif end < log.log_start:
            self._reset(min(end, max(leader_start, 0)), out)
            self.fetch(out)
        else:
            self.truncating_to = end
            out.append(TruncateLog(end))

    def _reset(self, start: int, out: list[Effect]) -> None:
        out.append(ResetLog(start))
        self.context.log.reset(start, out)

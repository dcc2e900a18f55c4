"""Reports a broker's events to its log and to a test harness. Each event is a name with fields.

`partition` reports a changed role, leader, leader epoch or ISR. `high_watermark` covers the partitions that this broker
leads, at most a few times a second each. `controller` marks the time in which this process is the controller. Other
events report failures.
"""

from collections.abc import Callable

from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import LocalReplica
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.partition.effects import HighWatermarkMoved, PartitionRoleChanged, RefusePeer, TransactionHangs

HIGH_WATERMARK_EVERY_S = 0.25
NEVER = float("inf")

Tell = Callable[..., None]
"""Called with the name of an event and its fields."""


class Reporter:
    """Reports the events of replicas. High watermarks are reported at intervals."""

    def __init__(self, context: Context, tell: Tell) -> None:
        self._context = context
        self._tell = tell
        self._moved: dict[LocalReplica, None] = {}
        self._next_at = 0.0
        self.deadline = NEVER
        """The time at which `tick` is due."""
        self._members: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """By partition: ISR and eligible leader replicas, as reported last."""
        self.shrinks = 0
        """The members that left ISRs of partitions led here."""
        self.expands = 0
        """The members that came back."""

    def replica(
        self, hosted: LocalReplica, news: PartitionRoleChanged | HighWatermarkMoved | RefusePeer | TransactionHangs
    ) -> None:
        """Report the outcome of a replica's step."""
        match news:
            case PartitionRoleChanged():
                state = self._context.image.partition(hosted.partition)
                self._partition(hosted, *((state.isr, state.elr) if state is not None else ((), ())))
            case HighWatermarkMoved():
                if hosted.leads:
                    self._moved[hosted] = None
                    self.deadline = self._next_at
            case RefusePeer():
                self._tell(
                    "peer_refused",
                    topic=hosted.partition.topic,
                    partition=hosted.partition.partition,
                    broker=news.broker,
                    reason=news.reason,
                )

            case TransactionHangs():
                self._tell(
                    "transaction_hangs",
                    topic=hosted.partition.topic,
                    partition=hosted.partition.partition,
                    producer_id=news.producer_id,
                    producer_epoch=news.producer_epoch,
                    offset=news.first_offset,
                    idle_s=round(news.idle_s),
                )

    def state(self, hosted: LocalReplica, state: PartitionState) -> None:
        """Report a changed ISR or ELR, if this broker leads the partition."""
        before = self._members.get(hosted.partition)
        if hosted.leads and before != (state.isr, state.elr):
            if before is not None:
                isr_before, _ = before
                self.shrinks += len(set(isr_before) - set(state.isr))
                self.expands += len(set(state.isr) - set(isr_before))
            self._partition(hosted, state.isr, state.elr)

    def forget(self, hosted: LocalReplica) -> None:
        """Forget a replica that is gone."""
        self._members.pop(hosted.partition, None)
        self._moved.pop(hosted, None)
        if not self._moved:
            self.deadline = NEVER

    def _partition(self, hosted: LocalReplica, isr: tuple[int, ...], elr: tuple[int, ...]) -> None:
        self._members[hosted.partition] = isr, elr
        self._tell(
            "partition",
            topic=hosted.partition.topic,
            partition=hosted.partition.partition,
            role=hosted.role.value,
            leader=hosted.leader,
            leader_epoch=hosted.leader_epoch,
            isr=list(isr),
            elr=list(elr),
        )

    def tick(self, now: float) -> None:
        """Report the high watermarks that have moved, if it is time."""
        if now < self.deadline:
            return
        self._next_at, self.deadline = now + HIGH_WATERMARK_EVERY_S, NEVER
        moved, self._moved = self._moved, {}
        for hosted in moved:
            if hosted.leads:
                self._tell(
                    "high_watermark",
                    topic=hosted.partition.topic,
                    partition=hosted.partition.partition,
                    offset=hosted.high_watermark,
                )

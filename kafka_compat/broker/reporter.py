"""What a broker tells of itself, for its log and for a harness: each event a name and fields.

`partition` (role, leader, leader epoch and ISR, when one of them changes), `high_watermark` (of partitions that this broker leads, at
most a few times a second each), `controller` (when this process becomes or stops being it), and what went wrong.
"""

from collections.abc import Callable

from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Hosted
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.partition.effects import HighWatermarkMoved, PartitionRoleChanged, RefusePeer

HIGH_WATERMARK_EVERY_S = 0.25

Tell = Callable[..., None]
"""Called with the name of an event and its fields."""


class Reporter:
    """Tells what replicas do; high watermarks not each time."""

    def __init__(self, context: Context, tell: Tell) -> None:
        self._context = context
        self._tell = tell
        self._moved: dict[Hosted, None] = {}
        self._next_at = 0.0
        self._isrs: dict[TopicPartition, tuple[int, ...]] = {}

    def replica(self, hosted: Hosted, news: PartitionRoleChanged | HighWatermarkMoved | RefusePeer) -> None:
        """What a step of a replica brought."""
        match news:
            case PartitionRoleChanged():
                state = self._context.image.partition(hosted.partition)
                self._partition(hosted, state.isr if state is not None else ())
            case HighWatermarkMoved():
                if hosted.leads:
                    self._moved[hosted] = None
            case RefusePeer():
                self._tell(
                    "peer_refused",
                    topic=hosted.partition.topic,
                    partition=hosted.partition.partition,
                    broker=news.broker,
                    reason=news.reason,
                )

    def state(self, hosted: Hosted, state: PartitionState) -> None:
        """The controller has decided about a partition: a leader tells of another ISR."""
        if hosted.leads and self._isrs.get(hosted.partition) != state.isr:
            self._partition(hosted, state.isr)

    def forget(self, hosted: Hosted) -> None:
        """The replica is gone."""
        self._isrs.pop(hosted.partition, None)
        self._moved.pop(hosted, None)

    def _partition(self, hosted: Hosted, isr: tuple[int, ...]) -> None:
        self._isrs[hosted.partition] = isr
        self._tell(
            "partition",
            topic=hosted.partition.topic,
            partition=hosted.partition.partition,
            role=hosted.role.value,
            leader=hosted.leader,
            leader_epoch=hosted.leader_epoch,
            isr=list(isr),
        )

    @property
    def deadline(self) -> float:
        """When `tick` is due."""
        return self._next_at if self._moved else float("inf")

    def tick(self, now: float) -> None:
        """Tell of high watermarks if it is time."""
        if not self._moved or now < self._next_at:
            return
        self._next_at = now + HIGH_WATERMARK_EVERY_S
        moved, self._moved = self._moved, {}
        for hosted in moved:
            if hosted.leads:
                self._tell(
                    "high_watermark",
                    topic=hosted.partition.topic,
                    partition=hosted.partition.partition,
                    offset=hosted.high_watermark,
                )

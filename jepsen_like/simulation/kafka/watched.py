"""The product's replicas, with observers: invariants and audits see each decision and each change of a log."""

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Fetchers, LocalReplica, Replicas
from kafka_compat.model import TopicPartition
from kafka_compat.partition.effects import (
    AppendBatches,
    Effect,
    HighWatermarkMoved,
    MoveLogStart,
    PartitionRoleChanged,
    RefusePeer,
    ResetLog,
    TransactionHangs,
    TruncateLog,
)
from kafka_compat.partition.events import Event, Flushed, LogStartDue, Truncated
from kafka_compat.storage.broker_store import BrokerStore

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.broker import SimulatedBroker
    from jepsen_like.simulation.kafka.world import KafkaWorld

SHORTENING = frozenset((ResetLog, MoveLogStart, TruncateLog))
News = PartitionRoleChanged | HighWatermarkMoved | RefusePeer | TransactionHangs


class WatchedReplicas(Replicas):
    """The replicas of one process. Deciders may learn of a truncation late, as if it took a while."""

    def __init__(
        self,
        broker: "SimulatedBroker",
        world: "KafkaWorld",
        rng: random.Random,
        truncation_s: float,
        context: Context,
        store: BrokerStore,
        fetchers: Fetchers,
        tell: Callable[[LocalReplica, News], None],
        on_role: Callable[[LocalReplica, PartitionRoleChanged], None],
        on_removed: Callable[[LocalReplica], None],
    ) -> None:
        self._broker = broker
        self._world = world
        self._audits = world.audits
        self._rng = rng
        self._truncation_s = truncation_s
        self._late: list[tuple[LocalReplica, Truncated]] = []
        """The truncations of which deciders have yet to learn."""
        self._event: Event

        def on_news(hosted: LocalReplica, news: News) -> None:
            tell(hosted, news)
            self._note(hosted, news)

        super().__init__(context, store, fetchers, on_news, on_role, on_removed)

    def step(self, hosted: LocalReplica, event: Event) -> None:
        """See `Replicas`."""
        if isinstance(event, Truncated) and self._truncation_s:
            self._late.append((hosted, event))
            self._broker.later(self._truncation_s * self._rng.random(), self._learn, hosted, event)
        else:
            super().step(hosted, event)

    def _learn(self, hosted: LocalReplica, event: Truncated) -> None:
        if (hosted, event) in self._late:
            self._late.remove((hosted, event))
            super().step(hosted, event)

    def learn_all(self) -> None:
        """Let deciders learn of each truncation now: a broker that ends in order keeps what they know."""
        while self._late:
            self._learn(*self._late[0])

    def _step(self, hosted: LocalReplica, event: Event) -> None:
        if isinstance(event, LogStartDue):
            self._audits.may_trim(self._broker, hosted, event.offset)
        elif isinstance(event, Flushed):
            self._audits.on_flushed(self._broker, hosted, event.end)
        self._event = event
        super()._step(hosted, event)
        if isinstance(event, Truncated) and self.hosted.get(hosted.partition) is hosted:
            self._audits.on_restored(self._broker, hosted)

    def _host(self, partition: TopicPartition, topic_id: bytes) -> LocalReplica:
        hosted = super()._host(partition, topic_id)
        self._audits.on_hosted(self._broker, hosted)
        return hosted

    def _execute(self, hosted: LocalReplica, effects: Iterable[Effect]) -> None:
        ordered = list(effects)
        self._world.on_stepped(self._broker, hosted, self._event, ordered)
        super()._execute(hosted, ordered)
        if not SHORTENING.isdisjoint(map(type, ordered)):
            self._audits.on_shortened(self._broker, hosted)

    def _append(self, hosted: LocalReplica, order: AppendBatches) -> None:
        super()._append(hosted, order)
        if order.leader_epoch >= 0:
            self._audits.on_appended(self._broker, hosted)

    def _note(self, hosted: LocalReplica, news: News) -> None:
        match news:
            case HighWatermarkMoved():
                self._audits.high_watermark_moved(self._broker, hosted, news.high_watermark)
            case PartitionRoleChanged() if hosted.leads:
                self._audits.leads(self._broker, hosted)
                self._audits.high_watermark_moved(self._broker, hosted, hosted.decider.high_watermark)
            case _:
                pass

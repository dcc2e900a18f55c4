"""The product's replicas, with observers: invariants and audits see each decision and each change of a log."""

import random
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Fetchers, LocalReplica, Replicas
from kafka_compat.partition.effects import (
    AppendBatches,
    Effect,
    HighWatermarkMoved,
    MoveLogStart,
    PartitionRoleChanged,
    RefusePeer,
    ResetLog,
    TruncateLog,
)
from kafka_compat.partition.events import Event, LogStartDue, Truncated
from kafka_compat.storage.broker_store import BrokerStore

News = PartitionRoleChanged | HighWatermarkMoved | RefusePeer


class ReplicaWatch(Protocol):
    """The observers."""

    def on_stepped(self, host: Any, replica: LocalReplica, event: Event, effects: list[Effect]) -> None:
        """A decider has decided; nothing is carried out yet."""

    def on_appended(self, host: Any, replica: LocalReplica) -> None:
        """A leader's batch is in its log."""

    def on_shortened(self, host: Any, replica: LocalReplica) -> None:
        """A log was truncated, reset or trimmed."""

    def may_trim(self, host: Any, replica: LocalReplica, offset: int) -> None:
        """Retention or a client lets a replica forget what is below `offset` and its high watermark."""

    def leads(self, host: Any, replica: LocalReplica) -> None:
        """A replica begins to lead."""

    def high_watermark_moved(self, host: Any, replica: LocalReplica, high_watermark: int) -> None:
        """A replica has another high watermark."""


class ReplicasHost(Protocol):
    """The broker of the replicas."""

    def later(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action` after some time, if this process still lives."""


class WatchedReplicas(Replicas):
    """The replicas of one process. Deciders may learn of a truncation late, as if it took a while."""

    def __init__(
        self,
        host: ReplicasHost,
        watch: ReplicaWatch,
        rng: random.Random,
        truncation_s: float,
        context: Context,
        store: BrokerStore,
        fetchers: Fetchers,
        tell: Callable[[LocalReplica, News], None],
        on_role: Callable[[LocalReplica, PartitionRoleChanged], None],
        on_removed: Callable[[LocalReplica], None],
    ) -> None:
        self._broker = host
        self._watch = watch
        self._rng = rng
        self._truncation_s = truncation_s
        self._event: Event

        def on_news(hosted: LocalReplica, news: News) -> None:
            tell(hosted, news)
            self._note(hosted, news)

        super().__init__(context, store, fetchers, on_news, on_role, on_removed)

    def step(self, hosted: LocalReplica, event: Event) -> None:
        """See `Replicas`."""
        if isinstance(event, Truncated) and self._truncation_s:
            self._broker.later(self._truncation_s * self._rng.random(), super().step, hosted, event)
        else:
            super().step(hosted, event)

    def _step(self, hosted: LocalReplica, event: Event) -> None:
        if isinstance(event, LogStartDue):
            self._watch.may_trim(self._broker, hosted, event.offset)
        self._event = event
        super()._step(hosted, event)

    def _execute(self, hosted: LocalReplica, effects: Iterable[Effect]) -> None:
        ordered = list(effects)
        self._watch.on_stepped(self._broker, hosted, self._event, ordered)
        super()._execute(hosted, ordered)
        if any(isinstance(effect, ResetLog | MoveLogStart | TruncateLog) for effect in ordered):
            self._watch.on_shortened(self._broker, hosted)

    def _append(self, hosted: LocalReplica, order: AppendBatches) -> None:
        super()._append(hosted, order)
        if order.leader_epoch >= 0:
            self._watch.on_appended(self._broker, hosted)

    def _note(self, hosted: LocalReplica, news: News) -> None:
        match news:
            case HighWatermarkMoved():
                self._watch.high_watermark_moved(self._broker, hosted, news.high_watermark)
            case PartitionRoleChanged() if hosted.leads:
                self._watch.leads(self._broker, hosted)
                self._watch.high_watermark_moved(self._broker, hosted, hosted.decider.high_watermark)
            case _:
                pass

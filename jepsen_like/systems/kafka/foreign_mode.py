"""Defines runs against brokers of others: how their flushes are named, how long clients wait, and the sources of promises."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from jepsen_like.systems.kafka.mode import PATIENT_MESSAGE_WITHIN_MS, KafkaMode
from jepsen_like.systems.kafka.promises import IsrRule
from jepsen_like.systems.kafka.sources import cite
from kafka_compat.config_keys import BEFORE_ACK, PAGE_CACHE


@attrs.frozen
class ForeignMode(KafkaMode):
    """See `KafkaMode`; the brokers are not ours."""

    short_segments: ClassVar[Mapping[str, str]] = {"segment.ms": "500"}
    """Kafka 4 takes no `segment.bytes` below a megabyte."""
    flush_name: ClassVar[str]
    """The setting by which each record is flushed by itself where it is 1."""

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence, with its sources."""
        return cite(super().promise(kinds), self.rule)

    @property
    def message_within_ms(self) -> int:
        """Longer than a broker of theirs takes to come back."""
        return PATIENT_MESSAGE_WITHIN_MS

    @property
    def flush(self) -> str:
        """A record is on the disk before it is acknowledged where each is flushed by itself."""
        return BEFORE_ACK if str(self.settings.get(self.flush_name, "")) == "1" else PAGE_CACHE

    @property
    def rule(self) -> IsrRule:
        """With the name of Kafka's own setting for flushes."""
        given = self.settings.get(self.flush_name, "default")
        return attrs.evolve(super().rule, flush_setting=f"{self.flush_name}={given}")

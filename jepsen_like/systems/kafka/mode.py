"""The settings of a Kafka cluster and of the clients of a run, and what a run with them is held to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import FaultSeen, Mode, WrongMode
from jepsen_like.systems.kafka import settings as names
from jepsen_like.systems.kafka.promises import (
    ALL_ACKS,
    ISR_PROMISES,
    NO_ACKS,
    IsrRule,
    MayLose,
    describe,
    losses_allowed,
)
from jepsen_like.systems.kafka.settings import Value, WrongSettingWord, parse_words, show
from kafka_compat.config_keys import BEFORE_ACK, FLUSH, RACK_AWARE

ISR: Final = "isr"
MESSAGE_WITHIN_MS: Final = 8000
PATIENT_MESSAGE_WITHIN_MS: Final = 60_000
"""For brokers that need long to come back.

When librdkafka gives a message up, it begins a new epoch of its producer and sends again what was under way. A broker
recognizes a repetition only within an epoch, so it then stores a second time what it had stored already.
"""
JUDGED_WITHOUT_LOSS: Final = {Model.TRANSACTIONS: "transactions are", Model.COMPACTED: "compaction is"}
_RETENTION: Final = ("log.retention.bytes", "log.retention.ms", "log.retention.minutes", "log.retention.hours")


@attrs.frozen
class KafkaMode(Mode):
    """`settings` are those of a run, by Kafka's names; what is not there has the broker's default."""

    short_segments: ClassVar[Mapping[str, str]] = {"segment.bytes": "32768"}
    """For a topic that is to be compacted: its newest segment never is."""

    replication: str
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, words: Sequence[str], replication: str = ISR) -> "KafkaMode":
        """Raises `WrongMode` for an unknown setting, an impossible value, and settings that exclude each other."""
        try:
            given = parse_words(words)
        except WrongSettingWord as error:
            raise WrongMode(f"--set: {error}") from error
        effective: dict[str, Value] = {**names.RUN_DEFAULTS, **given}
        if effective[names.ACKS] != ALL_ACKS and names.IDEMPOTENCE not in given:
            effective[names.IDEMPOTENCE] = False
        mode = cls(replication, effective)
        mode.check()
        return mode

    def check(self) -> None:
        """Raises `WrongMode` for settings that exclude each other."""
        if self.is_idempotent and self.acks != ALL_ACKS:
            raise WrongMode(f"--set: {names.IDEMPOTENCE}=true needs {names.ACKS}=all, not {self.acks}")
        for factor in (names.FACTOR, names.OFFSETS_FACTOR):
            if self.min_isr > int(self.settings.get(factor, names.FACTOR_MAX)):
                raise WrongMode(
                    f"--set: {names.MIN_ISR}={self.min_isr} can never be met with {factor}={self.settings.get(factor, names.FACTOR_MAX)}"
                )

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "KafkaMode":
        """Of a run's test.json. Raises `KeyError` for one without the settings that promises are made of."""
        settings = test["settings"]
        for name in (names.ACKS, names.MIN_ISR, names.UNCLEAN, FLUSH, names.LAG_MS, names.SESSION_MS):
            settings[name]
        return cls(test["replication"], settings)

    # ---------------------------------------------------------------- what was set

    @property
    def acks(self) -> str:
        """0, 1 or all."""
        return str(self.settings[names.ACKS])

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`."""
        return int(self.settings[names.MIN_ISR])

    @property
    def is_idempotent(self) -> bool:
        """True if producers send with a producer id, so that a retry cannot be stored twice."""
        return bool(self.settings[names.IDEMPOTENCE])

    @property
    def group_protocol(self) -> str:
        """classic or consumer; runs before the choice were classic."""
        return str(self.settings.get(names.GROUP_PROTOCOL, "classic"))

    @property
    def client_rack(self) -> str:
        """The rack of the consumers; empty: they read from leaders."""
        return str(self.settings.get(names.CLIENT_RACK, ""))

    @property
    def partitions(self) -> int:
        """The number of partitions of a run's topic; each is an object of its history."""
        return int(self.settings[names.PARTITIONS])

    @property
    def transaction_partitions(self) -> int:
        """The number of partitions of the transactions topic."""
        return int(self.settings[names.TRANSACTION_PARTITIONS])

    @property
    def flush(self) -> str:
        """BEFORE_ACK if a record is on the disk before it is acknowledged, else PAGE_CACHE."""
        return str(self.settings[FLUSH])

    @property
    def rule(self) -> IsrRule:
        """The rule that decides about losses."""
        return IsrRule(
            self.acks,
            self.min_isr > 1,
            bool(self.settings[names.UNCLEAN]),
            self.flush,
            is_eligible=int(self.settings.get(names.ELIGIBLE, 0)) > 0,
        )

    def factor(self, nodes: int, name: str = names.FACTOR) -> int:
        """The replication factor in a cluster of so many brokers; one that was given stays as it is."""
        return int(self.settings.get(name, min(names.FACTOR_MAX, nodes)))

    def broker_words(self, nodes: int) -> list[str]:
        """The `name=value` settings of every broker of a cluster of so many."""
        factors = {
            name: self.factor(nodes, name) for name in (names.FACTOR, names.OFFSETS_FACTOR, names.TRANSACTIONS_FACTOR)
        }
        least = min(names.TRANSACTIONS_MIN_ISR_MAX, factors[names.TRANSACTIONS_FACTOR])
        factors[names.TRANSACTIONS_MIN_ISR] = int(self.settings.get(names.TRANSACTIONS_MIN_ISR, least))
        chosen = {"replica.selector.class": RACK_AWARE} if self.client_rack else {}
        of_brokers = {name: value for name, value in self.settings.items() if name not in names.CLIENT_SETTINGS}
        return [f"{name}={show(value)}" for name, value in sorted({**chosen, **of_brokers, **factors}.items())]

    @property
    def topic_configs(self) -> Mapping[str, str]:
        """The settings of a run's topic itself, where they do not come from the brokers."""
        return {}

    @property
    def message_within_ms(self) -> int:
        """The time after which librdkafka gives a message up, and its outcome is unknown."""
        return MESSAGE_WITHIN_MS

    # ---------------------------------------------------------------- what is promised

    @property
    def acks_are_durable(self) -> bool:
        """True if a record is on the disks of the whole ISR when it is acknowledged."""
        return self.flush == BEFORE_ACK and self.acks == ALL_ACKS

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Why a run could not be judged."""
        if model is Model.LOG and self.acks == NO_ACKS:
            return "with acks=0 no broker says where a record went, so there is no log to judge: use acks=1 or acks=all"
        if model is Model.COMPACTED and not self.is_idempotent:
            return "compaction is judged by producers with ids, which store nothing twice: use acks=all"
        if model is Model.COMPACTED and "clock-jump" in kinds:
            return "ages of records are judged by one clock: use workload compact without clock-jump"
        if model in JUDGED_WITHOUT_LOSS and (costly := [kind for kind in kinds if not self.survives(kind)]):
            return f"{JUDGED_WITHOUT_LOSS[model]} judged where nothing may be lost, and {costly[0]} may cost records in this mode"
        if any(name in self.settings for name in _RETENTION):
            return "what leaves a Kafka log by retention is not judged: leave log.retention.* to its defaults (quorumlog up takes it)"
        return None

    def promise(self, kinds: Iterable[str]) -> str:
        """In one sentence."""
        return describe(self.rule, kinds)

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """See `promises`."""
        return losses_allowed(
            faults,
            self.rule,
            min_isr=self.min_isr,
            lag_s=int(self.settings[names.LAG_MS]) / 1e3,
            session_s=int(self.settings[names.SESSION_MS]) / 1e3,
        )

    @property
    def may_hold_alone(self) -> bool:
        """True if the leader may be the whole ISR, or acknowledges alone."""
        return self.acks != ALL_ACKS or self.min_isr == 1

    def survives(self, kind: str) -> bool:
        """By the table."""
        row = ISR_PROMISES.get((self.rule, kind))
        return row is not None and row.may_lose is MayLose.NOTHING

    def spare(self, nodes: int) -> int:
        """A minority, for the controller needs a majority; with acks=all it leaves `min.insync.replicas` copies."""
        copies = min(self.factor(nodes), nodes)
        least = self.min_isr if self.acks == ALL_ACKS else 1
        return max(0, min((nodes - 1) // 2, copies - least))

"""The settings of a cluster of Apache Kafka and of the clients of a run, and what a run with them is held to."""

import difflib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar, Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.kafka import settings as names
from jepsen_like.systems.kafka.foreign_mode import ForeignMode
from jepsen_like.systems.kafka.mode import ISR
from jepsen_like.systems.kafka.settings import Value, WrongSettingWord, parse_word, parse_words
from kafka_compat.config_keys import FLUSH

FLUSH_MESSAGES: Final = "log.flush.interval.messages"
SHARE_FACTOR: Final = "share.coordinator.state.topic.replication.factor"
SHARE_MIN_ISR: Final = "share.coordinator.state.topic.min.isr"
RUN_DEFAULTS: Final[Mapping[str, Value]] = {
    **{name: value for name, value in names.RUN_DEFAULTS.items() if name != FLUSH},
    "group.consumer.min.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 500,
}
"""As for our own brokers: Kafka's defaults but for the times, which are short, and the small topics."""

TYPED: Final = (
    *(name for name in RUN_DEFAULTS if name in (*names.CLIENT_SETTINGS, *names.RUN_DEFAULTS)),
    *(names.FACTOR, names.OFFSETS_FACTOR, names.TRANSACTIONS_FACTOR, names.TRANSACTIONS_MIN_ISR),
)
"""The settings of which the harness reads the values; Kafka checks the others when it starts."""


def broker_names() -> tuple[str, ...]:
    """Returns the names of all settings of a broker."""
    return tuple(resources.files(__package__).joinpath("settings.txt").read_text().split())


@attrs.frozen
class ApacheMode(ForeignMode):
    """`settings` are those of a run, by Kafka's names; what is not there has the broker's default."""

    flush_name: ClassVar[str] = FLUSH_MESSAGES

    @classmethod
    def of(cls, words: Sequence[str], replication: str = ISR) -> "ApacheMode":
        """Raises `WrongMode` for an unknown setting, an impossible value, and settings that exclude each other."""
        try:
            given = parse_words(words, _parse)
        except WrongSettingWord as error:
            raise WrongMode(f"--set: {error}") from error
        effective: dict[str, Value] = {**RUN_DEFAULTS, **given}
        if effective[names.ACKS] != names.ALL and names.IDEMPOTENCE not in given:
            effective[names.IDEMPOTENCE] = False
        mode = cls(replication, effective)
        mode.check()
        return mode

    @classmethod
    def of_test(cls, test: Mapping[str, Any]) -> "ApacheMode":
        """Of a run's test.json. Raises `KeyError` for one without the settings that promises are made of."""
        settings = test["settings"]
        for name in (names.ACKS, names.MIN_ISR, names.UNCLEAN, names.ELIGIBLE, names.LAG_MS, names.SESSION_MS):
            settings[name]
        return cls(test["replication"], settings)

    @property
    def features(self) -> tuple[str, ...]:
        """The features of a new cluster, as `name=level`."""
        return (f"{names.ELIGIBLE}={self.settings[names.ELIGIBLE]}",)

    def broker_words(self, nodes: int) -> list[str]:
        """Without what is a feature, and with the copies of the topic of share groups."""
        factor = self.factor(nodes, names.OFFSETS_FACTOR)
        words = [word for word in super().broker_words(nodes) if not word.startswith(f"{names.ELIGIBLE}=")]
        return [*words, f"{SHARE_FACTOR}={factor}", f"{SHARE_MIN_ISR}={min(2, factor)}"]


def _parse(name: str, text: str) -> Value:
    if name in TYPED:
        return parse_word(name, text)
    known = broker_names()
    if name in known:
        return text
    nearest = difflib.get_close_matches(name, (*names.CLIENT_SETTINGS, *names.ALIASES, *known), n=1, cutoff=0.7)
    hint = f"did you mean {nearest[0]}?" if nearest else "Apache Kafka's documentation lists them"
    raise WrongSettingWord(f"{name} is no setting of a broker or a client of a run; {hint}")

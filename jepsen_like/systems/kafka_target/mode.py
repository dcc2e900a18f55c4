"""The settings of a run against a cluster of others: those of its clients and of its own topic, and facts.

Facts are what the owner has set: they bound how long a leader that was replaced may go on acknowledging.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.kafka import settings as names
from jepsen_like.systems.kafka.foreign_mode import ForeignMode
from jepsen_like.systems.kafka.mode import ISR
from jepsen_like.systems.kafka.settings import Value, WrongSettingWord, parse_word, parse_words

FLUSH_MESSAGES: Final = "flush.messages"
RUN_DEFAULTS: Final[Mapping[str, Value]] = {
    names.ACKS: "all",
    names.IDEMPOTENCE: True,
    names.GROUP_PROTOCOL: "classic",
    names.CLIENT_RACK: "",
    names.PARTITIONS: 3,
    names.MIN_ISR: 1,
    names.UNCLEAN: False,
    names.ELIGIBLE: 0,
    names.LAG_MS: 30_000,
    names.SESSION_MS: 9000,
}
"""Kafka's defaults, so that what it would keep without any setting is what the run is held to."""
KNOWN: Final = (*RUN_DEFAULTS, names.FACTOR, FLUSH_MESSAGES)


@attrs.frozen
class TargetMode(ForeignMode):
    """See `KafkaMode`; brokers are left as they are."""

    flush_name: ClassVar[str] = FLUSH_MESSAGES

    @classmethod
    def of(cls, words: Sequence[str], replication: str = ISR) -> "TargetMode":
        """Raises `WrongMode` for a setting that is not the run's to choose, and for an impossible one."""
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
    def of_test(cls, test: Mapping[str, Any]) -> "TargetMode":
        """Of a run's test.json. Raises `KeyError` for one without the settings that promises are made of."""
        settings = test["settings"]
        for name in RUN_DEFAULTS:
            settings[name]
        return cls(test["replication"], settings)

    @property
    def topic_configs(self) -> Mapping[str, str]:
        """All that the promise is made of, whatever the brokers' defaults are; and nothing leaves by retention."""
        flush = {FLUSH_MESSAGES: str(self.settings[FLUSH_MESSAGES])} if FLUSH_MESSAGES in self.settings else {}
        return {
            names.MIN_ISR: str(self.min_isr),
            names.UNCLEAN: names.show(bool(self.settings[names.UNCLEAN])),
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            **flush,
        }


def _parse(name: str, text: str) -> Value:
    if name == FLUSH_MESSAGES:
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise WrongSettingWord(f"{name} takes a number of records, not {text!r}")
        return int(text)
    if name in KNOWN:
        return parse_word(name, text)
    nearest = difflib.get_close_matches(name, (*KNOWN, *names.ALIASES), n=1, cutoff=0.7)
    hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(KNOWN)}"
    raise WrongSettingWord(f"{name} is not the run's to set on a cluster that runs already; {hint}")

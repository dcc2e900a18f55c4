"""The names that `--set` takes for the Kafka system, in Kafka's spelling, with their types and a run's defaults.

What the clients are told (`acks`, `enable.idempotence`) is taken here; all else is a broker's, checked as a broker does
and passed on. `partitions` is short for `num.partitions`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafka_compat.config import InvalidSetting, check_broker_setting
from kafka_compat.config_keys import BROKER_KEYS, FLUSH, PAGE_CACHE, ConfigKind

ACKS: Final = "acks"
IDEMPOTENCE: Final = "enable.idempotence"
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
FACTOR: Final = "default.replication.factor"
OFFSETS_FACTOR: Final = "offsets.topic.replication.factor"
TRANSACTION_PARTITIONS: Final = "transaction.state.log.num.partitions"
TRANSACTIONS_FACTOR: Final = "transaction.state.log.replication.factor"
TRANSACTIONS_MIN_ISR: Final = "transaction.state.log.min.isr"
PARTITIONS: Final = "num.partitions"
LAG_MS: Final = "replica.lag.time.max.ms"
SESSION_MS: Final = "broker.session.timeout.ms"
GROUP_PROTOCOL: Final = "group.protocol"
"""The protocol of groups that their members speak: `classic`, or `consumer` for KIP-848."""
CLIENT_RACK: Final = "client.rack"
"""The rack of all consumers; broker 1 is in `rack-1`, and so on. They read from the replica there (KIP-392)."""
ALL: Final = "all"
"""Of `acks`: every replica in sync."""
ELIGIBLE: Final = "eligible.leader.replicas.version"
ALIASES: Final[Mapping[str, str]] = {"partitions": PARTITIONS}
TRANSACTIONS_MIN_ISR_MAX: Final = 2
"""The replicas in sync that a transaction's state needs where nothing is given, if there are as many."""
FACTOR_MAX: Final = 3
"""The replication factor where none is given, in a cluster that is large enough."""

Value = int | bool | str


class WrongSettingWord(Exception):
    """A word after `--set` that is no setting; the text tells what to give instead."""


def _acks(text: str) -> Value:
    if text not in ("-1", "0", "1", "all"):
        raise WrongSettingWord(f"takes one of 0, 1, all, not {text!r}")
    return "all" if text == "-1" else text


def _boolean(text: str) -> Value:
    if text not in ("true", "false"):
        raise WrongSettingWord(f"takes true or false, not {text!r}")
    return text == "true"


def _group_protocol(text: str) -> Value:
    if text not in ("classic", "consumer"):
        raise WrongSettingWord(f"takes classic or consumer, not {text!r}")
    return text


CLIENT_SETTINGS: Final[Mapping[str, Callable[[str], Value]]] = {
    ACKS: _acks,
    IDEMPOTENCE: _boolean,
    GROUP_PROTOCOL: _group_protocol,
    CLIENT_RACK: str,
}
"""The settings of a run's clients; no broker sees them."""
RUN_DEFAULTS: Final[Mapping[str, Value]] = {
    ACKS: "all",
    IDEMPOTENCE: True,
    GROUP_PROTOCOL: "classic",
    CLIENT_RACK: "",
    MIN_ISR: 1,
    UNCLEAN: False,
    ELIGIBLE: 1,
    FLUSH: PAGE_CACHE,
    PARTITIONS: 3,
    LAG_MS: 2000,
    SESSION_MS: 2000,
    "broker.heartbeat.interval.ms": 400,
    "offsets.topic.num.partitions": 4,
    TRANSACTION_PARTITIONS: 4,
    "log.cleaner.backoff.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.heartbeat.interval.ms": 500,
}
"""Kafka's defaults but for the times, which are short enough for elections between two faults, and the small topics."""


def parse_words(words: Iterable[str], parse: Callable[[str, str], Value] | None = None) -> dict[str, Value]:
    """Returns `name=value` settings by their full names, as given; raises `WrongSettingWord`.

    `parse` reads the value of a name; by default those of our own brokers and of the clients are known.
    """
    read = parse or parse_word
    found: dict[str, Value] = {}
    for word in words:
        given, separator, text = (part.strip() for part in word.partition("="))
        name = ALIASES.get(given, given)
        if not separator:
            raise WrongSettingWord(f"{given} needs a value: {given}=…")
        if name in found:
            raise WrongSettingWord(f"{name} is given twice")
        found[name] = read(name, text)
    return found


def parse_word(name: str, text: str) -> Value:
    """Returns the value of a setting of our own brokers, or of the clients of a run. Raises `WrongSettingWord`."""
    if name in CLIENT_SETTINGS:
        try:
            return CLIENT_SETTINGS[name](text)
        except WrongSettingWord as error:
            raise WrongSettingWord(f"{name} {error}") from None
    try:
        kept = check_broker_setting(name, text)
    except InvalidSetting as error:
        nearest = difflib.get_close_matches(name, (*CLIENT_SETTINGS, *ALIASES), n=1, cutoff=0.7)
        hint = f" Did you mean {nearest[0]}?" if nearest and name not in BROKER_KEYS else ""
        raise WrongSettingWord(f"{error}{hint}") from None
    kind = BROKER_KEYS[name].kind
    if kind is ConfigKind.BOOLEAN:
        return kept == "true"
    return int(kept) if kind in (ConfigKind.INT, ConfigKind.LONG) else kept


def show(value: Value) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)

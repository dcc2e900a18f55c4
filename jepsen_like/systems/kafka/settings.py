"""The names that `--set` takes for the Kafka system, in Kafka's own spelling, with their types and the defaults of a run.

Three kinds: what the clients are told (`acks`, `enable.idempotence`), broker properties that this adapter sets or reads, and all other
broker properties, which are passed on as they are. `partitions` is short for `num.partitions`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

ACKS: Final = "acks"
IDEMPOTENCE: Final = "enable.idempotence"
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
FACTOR: Final = "default.replication.factor"
OFFSETS_FACTOR: Final = "offsets.topic.replication.factor"
FLUSH: Final = "flush"
PARTITIONS: Final = "num.partitions"
LAG_MS: Final = "replica.lag.time.max.ms"
SESSION_MS: Final = "broker.session.timeout.ms"
ALIASES: Final[Mapping[str, str]] = {"partitions": PARTITIONS}
PAGE_CACHE, BEFORE_ACK = "page-cache", "before-ack"
FACTOR_MAX: Final = 3
"""The replication factor where none is given, in a cluster that is large enough."""

Value = int | bool | str


@attrs.define
class WrongSettingWord(Exception):
    """A word after `--set` that is no setting; the text tells what to give instead."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def _whole(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise WrongSettingWord(f"takes a whole number from {low} to {high}, not {text!r}")
        return value

    return parse


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise WrongSettingWord(f"takes true or false, not {text!r}")
    return text == "true"


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise WrongSettingWord(f"takes one of {', '.join(words)}, not {text!r}")
        return text

    return parse


def _acks(text: str) -> str:
    if text == "-1":
        return "all"
    return _one_of("0", "1", "all")(text)


CLIENT_SETTINGS: Final[Mapping[str, Callable[[str], Value]]] = {ACKS: _acks, IDEMPOTENCE: _boolean}
"""What the producers of a run are told; no broker sees them."""
_LONG: Final = 2**63 - 1
BROKER_SETTINGS: Final[Mapping[str, Callable[[str], Value]]] = {
    MIN_ISR: _whole(1, 15),
    UNCLEAN: _boolean,
    FACTOR: _whole(1, 15),
    OFFSETS_FACTOR: _whole(1, 15),
    FLUSH: _one_of(PAGE_CACHE, BEFORE_ACK),
    PARTITIONS: _whole(1, 64),
    LAG_MS: _whole(100),
    SESSION_MS: _whole(100),
    "broker.heartbeat.interval.ms": _whole(10),
    "offsets.topic.num.partitions": _whole(1, 64),
    "auto.create.topics.enable": _boolean,
    "auto.leader.rebalance.enable": _boolean,
    "leader.imbalance.check.interval.seconds": _whole(1),
    "group.initial.rebalance.delay.ms": _whole(0),
    "group.min.session.timeout.ms": _whole(1),
    "group.max.session.timeout.ms": _whole(1),
    "log.segment.bytes": _whole(1024),
    "log.retention.bytes": _whole(-1, _LONG),
    "log.retention.ms": _whole(-1, _LONG),
    "log.retention.minutes": _whole(-1),
    "log.retention.hours": _whole(-1),
    "log.retention.check.interval.ms": _whole(1),
    "log.flush.interval.messages": _whole(1, _LONG),
    "log.flush.interval.ms": _whole(0, _LONG),
    "message.max.bytes": _whole(1024),
    "replica.fetch.max.bytes": _whole(1024),
    "replica.fetch.wait.max.ms": _whole(1),
    "replica.fetch.min.bytes": _whole(1),
    "producer.id.expiration.ms": _whole(1),
    "connections.max.idle.ms": _whole(1),
    "socket.request.max.bytes": _whole(1024),
}
RUN_DEFAULTS: Final[Mapping[str, Value]] = {
    ACKS: "all",
    IDEMPOTENCE: True,
    MIN_ISR: 1,
    UNCLEAN: False,
    FLUSH: PAGE_CACHE,
    PARTITIONS: 3,
    LAG_MS: 2000,
    SESSION_MS: 2000,
    "broker.heartbeat.interval.ms": 400,
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
}
"""Kafka's defaults but for the times, which are short enough for elections between two faults, and the small topics."""


def parse_words(words: Iterable[str]) -> dict[str, Value]:
    """Returns `name=value` settings by their full names, as given; raises `WrongSettingWord`."""
    found: dict[str, Value] = {}
    for word in words:
        given, separator, text = word.partition("=")
        name = ALIASES.get(given.strip(), given.strip())
        parse = CLIENT_SETTINGS.get(name) or BROKER_SETTINGS.get(name)
        if parse is None:
            raise WrongSettingWord(f"no setting {given!r}; {_suggested(name)}")
        if not separator:
            raise WrongSettingWord(f"{given} needs a value: {given}=…")
        if name in found:
            raise WrongSettingWord(f"{name} is given twice")
        try:
            found[name] = parse(text.strip())
        except WrongSettingWord as error:
            raise WrongSettingWord(f"{given} {error}") from None
    return found


def _suggested(name: str) -> str:
    known = (*CLIENT_SETTINGS, *BROKER_SETTINGS, *ALIASES)
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(sorted(known))}"


def shown(value: Value) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Settings of brokers and topics: parses and checks names and values, and finds the value that holds. Pure.

If several places set a name, the first of these counts: the topic's own, this broker's (altered while it runs), all
brokers' (altered likewise), the command line, the default. The tables are in `config_keys.py`.
"""

import difflib
import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final, Self

import attrs

from kafka_compat.acls import parse_super_users
from kafka_compat.config_keys import (
    APPEND_TIME,
    BEFORE_ACK,
    BROKER_KEYS,
    COMPACT,
    DELETE,
    FLUSH,
    GROUP_KEYS,
    INT_MAX,
    LONG_MAX,
    NOT_HONOURED,
    TOPIC_KEYS,
    ConfigKey,
    ConfigKind,
)
from kafka_compat.stored_form import CODECS, LEVELLED, StoredForm

VALUE_CHARACTERS_MAX: Final = 1024
THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_PAIR: Final = re.compile(r"[0-9]+:[0-9]+")


@attrs.define
class InvalidSetting(Exception):
    """A setting that is refused: INVALID_CONFIG, or INVALID_REQUEST where no value would do (`is_request`).

    `detail` is a whole sentence for the user.
    """

    name: str
    detail: str
    is_request: bool = False

    def __str__(self) -> str:
        return self.detail


class ConfigSource(enum.IntEnum):
    """The source of a value, with the number it has in DescribeConfigs (KIP-226)."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5


@attrs.frozen
class ConfigSynonym:
    """One of the places that name a value, the one that counts first."""

    name: str
    value: str | None
    source: ConfigSource


@attrs.frozen
class ConfigRow:
    """One setting as DescribeConfigs reports it. There are no secrets, so `sensitive` is always false."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    kind: ConfigKind
    doc: str
    synonyms: tuple[ConfigSynonym, ...]
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """True if it was never set (the field of version 0)."""
        return self.source is ConfigSource.DEFAULT


@attrs.frozen(kw_only=True)
class CompactionRule:
    """The settings of `cleanup.policy=compact` for one topic, in ms, and as a share of the bytes."""

    delete_retention_ms: int
    min_lag_ms: int = 0
    """`min.compaction.lag.ms`: no segment with a younger record is looked at."""
    max_lag_ms: int = LONG_MAX
    """`max.compaction.lag.ms`: an older record makes a pass due."""
    dirty_ratio: float = 0.5
    """`min.cleanable.dirty.ratio`: a pass is due with a greater share of bytes that none has looked at."""


@attrs.frozen(kw_only=True)
class TopicSettings:
    """The settings in force for one topic, in bytes and ms; None stands for no bound."""

    retention_ms: int | None
    retention_bytes: int | None
    segment_bytes: int
    segment_ms: int
    max_message_bytes: int
    min_insync_replicas: int
    unclean_leader_election: bool
    compacted: bool
    deletes: bool
    """True if segments leave by age and size; a topic may be compacted as well."""
    compaction: CompactionRule
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    stored_form: StoredForm


# Reading


def parse_assignment(text: str) -> tuple[str, str]:
    """Returns name and value of `name=value`.

    Raises `InvalidSetting` for other text; `check_broker_setting` checks the name.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise InvalidSetting(name, f"{text[:100]!r} is no setting: write name=value.")
    return name, value.strip()


def check_broker_setting(name: str, value: str) -> str:
    """Returns the normalized value. Raises `InvalidSetting` for an unknown or unsupported name, and for a bad value."""
    value = _check_value(_find_key(name, BROKER_KEYS, "broker"), value)
    if name == "super.users":
        try:
            parse_super_users(value)
        except ValueError as error:
            raise InvalidSetting(name, f"{name}: {error}.") from None
    return value


def check_dynamic_setting(name: str, value: str) -> str:
    """Returns the normalized value of a broker setting that may be altered while brokers run.

    Raises as `check_broker_setting`.
    """
    key = _find_key(name, BROKER_KEYS, "broker")
    if not key.dynamic:
        detail = f"{name} cannot be altered while the broker runs: give it when the broker starts."
        raise InvalidSetting(name, detail, is_request=True)
    return _check_value(key, value)


def check_topic_setting(name: str, value: str | None) -> str:
    """Returns the normalized value. Raises `InvalidSetting` for an unknown or unsupported name, and for a bad value."""
    key = _find_key(name, TOPIC_KEYS, "topic")
    if value is None:
        raise InvalidSetting(name, f"{name} needs a value.")
    checked = _check_value(key, value)
    if name in THROTTLED and checked != "*" and not all(_PAIR.fullmatch(each) for each in parse_list(checked)):
        raise InvalidSetting(name, f"{name} takes partition:broker, separated by commas, or *, not {checked[:100]}.")
    return checked


def _find_key(name: str, keys: Mapping[str, ConfigKey], scope: str) -> ConfigKey:
    key = keys.get(name)
    if key is not None:
        return key
    shown = name[:100]
    other = TOPIC_KEYS if keys is BROKER_KEYS else BROKER_KEYS
    if name in other:
        names = [each.name for each in TOPIC_KEYS.values() if any(name == other.name for other in each.synonyms)]
        if name in TOPIC_KEYS:
            names = [each.name for each in TOPIC_KEYS[name].synonyms]
        hint = f"; the {scope} setting is {names[0]}" if names else ""
        raise InvalidSetting(name, f"{name} is no {scope} setting{hint}.")
    if name in NOT_HONOURED:
        raise InvalidSetting(name, f"{name} {NOT_HONOURED[name]}.")
    near = difflib.get_close_matches(shown, keys, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise InvalidSetting(name, f"{shown} is no {scope} setting that is known.{hint}")


def _check_value(key: ConfigKey, value: str) -> str:
    value = value.strip()
    if len(value) > VALUE_CHARACTERS_MAX:
        raise InvalidSetting(key.name, f"the value of {key.name} is longer than {VALUE_CHARACTERS_MAX} characters.")
    match key.kind:
        case ConfigKind.BOOLEAN:
            value = value.lower()
            if value not in ("true", "false"):
                raise InvalidSetting(key.name, f"{key.name}={value} is neither true nor false.")
        case ConfigKind.INT | ConfigKind.LONG:
            value = str(_number(key, value))
        case ConfigKind.DOUBLE:
            value = str(_fraction(key, value))
        case ConfigKind.LIST:
            items = parse_list(value)
            value = ",".join(items)
            if len(set(items)) < len(items):
                raise InvalidSetting(key.name, f"{key.name}={value} names something twice.")
        case ConfigKind.STRING:
            pass
    chosen = parse_list(value) if key.kind is ConfigKind.LIST else [value]
    if key.choices and not set(chosen) <= set(key.choices):
        choices = " or ".join(each or "empty" for each in key.choices)
        raise InvalidSetting(key.name, f"{key.name}={value} is not implemented: it can be {choices}.{key.hint}")
    return value


def parse_list(value: str) -> list[str]:
    """Returns the items of a list, which commas separate."""
    return [each.strip() for each in value.split(",") if each.strip()]


def _fraction(key: ConfigKey, value: str) -> float:
    try:
        fraction = float(value)
    except ValueError:
        raise InvalidSetting(key.name, f"{key.name}={value} is no number.") from None
    if not 0 <= fraction <= 1:
        raise InvalidSetting(key.name, f"{key.name}={value} is out of range: it can be 0 to 1.")
    return fraction


def _number(key: ConfigKey, value: str) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise InvalidSetting(key.name, f"{key.name}={value} is no whole number.")
    number = int(value)
    if not key.least <= number <= key.most:
        most = {INT_MAX: "2^31-1", LONG_MAX: "2^63-1"}.get(key.most, str(key.most))
        raise InvalidSetting(key.name, f"{key.name}={value} is out of range: it can be {key.least} to {most}.")
    return number


# What holds


@attrs.frozen
class Settings:
    """The settings as one broker sees them: from its command line, and altered for it or for all brokers.

    The values have been checked.
    """

    static: Mapping[str, str] = attrs.field(factory=dict)
    cluster: Mapping[str, str] = attrs.field(factory=dict)
    broker: Mapping[str, str] = attrs.field(factory=dict)
    _of_topics: dict[tuple[tuple[str, str], ...], TopicSettings] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    """The settings of topics that were asked for, by their overrides: few differ."""

    @classmethod
    def from_assignments(cls, assignments: Iterable[str]) -> Self:
        """Returns the settings of `name=value` texts; the last of a name counts.

        Raises `InvalidSetting` for the first bad one.
        """
        named = (parse_assignment(each) for each in assignments)
        return cls({name: check_broker_setting(name, value) for name, value in named})

    def with_altered(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Self:
        """Returns these settings with the controller's changes for all brokers and for this one."""
        if (cluster, broker) == (self.cluster, self.broker):
            return self
        return attrs.evolve(self, cluster=cluster, broker=broker)

    def text(self, name: str) -> str | None:
        """Returns the value of a broker setting that holds, or None.

        Raises `KeyError` for a name not in `BROKER_KEYS`.
        """
        key = BROKER_KEYS[name]
        for values in (self.broker, self.cluster, self.static):
            if name in values:
                return values[name]
        return key.default

    def number(self, name: str) -> int:
        """Returns a broker setting that is a number and has a value. Raises `KeyError` as `text` does."""
        value = self.text(name)
        assert value is not None, f"{name} has no value"
        return int(value)

    def seconds(self, name: str) -> float:
        """Returns a broker setting in ms as seconds."""
        return self.number(name) / 1000

    def flag(self, name: str) -> bool:
        """Returns a broker setting that is true or false."""
        return self.text(name) == "true"

    @property
    def flushes_before_ack(self) -> bool:
        """True if an acknowledgement waits for the disk."""
        return self.text(FLUSH) == BEFORE_ACK

    def topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        """Returns the settings in force for a topic with these overrides."""
        key = tuple(sorted(overrides.items()))
        known = self._of_topics.get(key)
        if known is None:
            if len(self._of_topics) >= 1_000:  # one for each topic that was altered
                self._of_topics.clear()
            known = self._of_topics[key] = self._find_topic(overrides)
        return known

    def _find_topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        def text(name: str) -> str:
            value = _value_of(self._synonyms(TOPIC_KEYS[name], overrides)[0], TOPIC_KEYS[name])
            assert value is not None, f"{name} has no value"
            return value

        def read_bound(name: str) -> int | None:
            value = int(text(name))
            return value if value >= 0 else None

        codec = CODECS.get(text("compression.type"))
        levelled = None if codec is None else LEVELLED.get(codec)
        level = 0 if levelled is None else int(text(f"compression.{levelled}.level"))
        stamps = text("message.timestamp.type") == APPEND_TIME
        return TopicSettings(
            retention_ms=read_bound("retention.ms"),
            retention_bytes=read_bound("retention.bytes"),
            segment_bytes=int(text("segment.bytes")),
            segment_ms=int(text("segment.ms")),
            max_message_bytes=int(text("max.message.bytes")),
            min_insync_replicas=int(text("min.insync.replicas")),
            unclean_leader_election=text("unclean.leader.election.enable") == "true",
            compacted=COMPACT in parse_list(text("cleanup.policy")),
            deletes=DELETE in parse_list(text("cleanup.policy")),
            compaction=CompactionRule(
                delete_retention_ms=int(text("delete.retention.ms")),
                min_lag_ms=int(text("min.compaction.lag.ms")),
                max_lag_ms=int(text("max.compaction.lag.ms")),
                dirty_ratio=float(text("min.cleanable.dirty.ratio")),
            ),
            timestamp_before_max_ms=int(text("message.timestamp.before.max.ms")),
            timestamp_after_max_ms=int(text("message.timestamp.after.max.ms")),
            stored_form=StoredForm(codec, level, stamps),
        )

    # DescribeConfigs

    def describe_topic(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[ConfigRow]:
        """Returns a topic's settings by name: all, or the known ones among `names`."""
        return [self._row(TOPIC_KEYS[each], overrides) for each in _select_names(TOPIC_KEYS, names)]

    def describe_group(self, names: Iterable[str] | None = None) -> list[ConfigRow]:
        """Returns the settings that groups have by name: all, or the known ones among `names`."""
        return [self._row(GROUP_KEYS[each], {}) for each in _select_names(GROUP_KEYS, names)]

    def check_group_setting(self, name: str, value: str | None) -> None:
        """Raises `InvalidSetting` unless this is the value that groups have; None stands for it."""
        key = GROUP_KEYS.get(name)
        if key is None:
            raise InvalidSetting(
                name, f"{name[:100]} is no setting of groups here, but {' and '.join(GROUP_KEYS)} are."
            )
        (row,) = self.describe_group([name])
        if value is not None and _check_value(key, value) != row.value:
            own = key.synonyms[0].name
            raise InvalidSetting(name, f"{name} is {row.value} for all groups: give {own} when the brokers start.")

    def describe_broker(self, names: Iterable[str] | None = None) -> list[ConfigRow]:
        """Returns this broker's settings by name: all, or the known ones among `names`."""
        return [self._row(BROKER_KEYS[each], None) for each in _select_names(BROKER_KEYS, names)]

    def _row(self, key: ConfigKey, overrides: Mapping[str, str] | None) -> ConfigRow:
        synonyms = self._synonyms(key, overrides)
        first = synonyms[0]
        value = _value_of(first, key)
        only_here = overrides is not None and not key.synonyms
        named = tuple(
            synonym
            for synonym in synonyms
            if synonym.value is not None and not (only_here and synonym.source is ConfigSource.DEFAULT)
        )
        return ConfigRow(key.name, value, first.source, not key.dynamic, key.kind, key.doc, named)

    def _synonyms(self, key: ConfigKey, overrides: Mapping[str, str] | None) -> list[ConfigSynonym]:
        """Returns the places that set a value, each under its own name and in its own unit.

        The last is a default, which may be None.
        """
        found: list[ConfigSynonym] = []
        if overrides is not None and key.name in overrides:
            found.append(ConfigSynonym(key.name, overrides[key.name], ConfigSource.TOPIC))
        names = [each.name for each in key.synonyms] or [key.name]
        sources = (
            (ConfigSource.BROKER, self.broker),
            (ConfigSource.CLUSTER, self.cluster),
            (ConfigSource.STATIC, self.static),
        )
        for source, values in sources:
            found += [ConfigSynonym(each, values[each], source) for each in names if each in values]
        default = BROKER_KEYS[names[-1]].default if key.synonyms else key.default
        found.append(ConfigSynonym(names[-1], default, ConfigSource.DEFAULT))
        return found


def _value_of(synonym: ConfigSynonym, key: ConfigKey) -> str | None:
    """Returns a synonym's value in the unit of `key`. A negative value stands for no bound in any unit."""
    factor = next((each.factor for each in key.synonyms if each.name == synonym.name), 1)
    value = synonym.value
    if value is None or factor == 1 or value.startswith("-"):
        return value
    return str(int(value) * factor)


def _select_names(keys: Mapping[str, ConfigKey], names: Iterable[str] | None) -> list[str]:
    return sorted(keys if names is None else {each for each in names if each in keys})

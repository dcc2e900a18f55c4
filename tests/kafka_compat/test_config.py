"""Settings: every name of the tables, refusals and their sentences, precedence, and the answers of DescribeConfigs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat.config import (
    VALUE_CHARACTERS_MAX,
    CompactionRule,
    ConfigSource,
    ConfigSynonym,
    InvalidSetting,
    Settings,
    check_broker_setting,
    check_dynamic_setting,
    check_topic_setting,
    parse_assignment,
)
from kafka_compat.config_keys import BROKER_KEYS, NOT_HONOURED, TOPIC_KEYS, ConfigKey, ConfigKind

KEYS = [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]
NUMBERS = [each for each in KEYS if each.kind in (ConfigKind.INT, ConfigKind.LONG) and not each.choices]
FIXED = [each for each in KEYS if len(each.choices) == 1]
KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""Apache Kafka 4.3.1's settings of topics."""


def name_of(key: ConfigKey) -> str:
    return f"{'topic' if key.synonyms else 'broker'}:{key.name}"


def check(key: ConfigKey, value: str) -> str:
    return (
        check_broker_setting(key.name, value) if key in BROKER_KEYS.values() else check_topic_setting(key.name, value)
    )


# ---------------------------------------------------------------- the tables


UNSET = {
    *("broker.rack", "log.retention.ms", "log.retention.minutes", "log.roll.ms"),
    *(
        "listeners",
        "advertised.listeners",
        "inter.broker.listener.name",
        "replica.selector.class",
        "security.inter.broker.protocol",
    ),
    *("ssl.keystore.location", "ssl.truststore.location"),
}


@pytest.mark.parametrize("key", KEYS, ids=name_of)
def test_a_setting_says_what_it_is_and_its_default_is_valid(key: ConfigKey) -> None:
    assert key.doc.endswith(".")
    assert key.name not in NOT_HONOURED
    if key.default is not None:
        assert check(key, key.default) == key.default
    assert (key.default is None) == (key.name in UNSET)


@pytest.mark.parametrize("key", TOPIC_KEYS.values(), ids=name_of)
def test_a_topic_setting_comes_from_broker_settings_of_the_same_kind(key: ConfigKey) -> None:
    assert key.dynamic
    for synonym in key.synonyms:
        broker = BROKER_KEYS[synonym.name]
        assert broker.kind == key.kind or {broker.kind, key.kind} == {ConfigKind.INT, ConfigKind.LONG}
        assert set(broker.choices) <= set(key.choices)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("num.partitions", "1"),
        ("min.insync.replicas", "1"),
        ("replica.lag.time.max.ms", "30000"),
        ("broker.session.timeout.ms", "9000"),
        ("broker.heartbeat.interval.ms", "2000"),
        ("message.max.bytes", "1048588"),
        ("offsets.topic.num.partitions", "50"),
        ("offsets.topic.replication.factor", "3"),
        ("group.initial.rebalance.delay.ms", "3000"),
        ("log.segment.bytes", "1073741824"),
        ("log.retention.hours", "168"),
        ("producer.id.expiration.ms", "86400000"),
        ("unclean.leader.election.enable", "false"),
        ("flush", "page-cache"),
    ],
)
def test_defaults_are_those_of_kafka(name: str, default: str) -> None:
    assert Settings().text(name) == default


def test_defaults_of_a_topic_are_those_of_kafka() -> None:
    topic = Settings().topic({})
    assert (topic.retention_ms, topic.retention_bytes) == (7 * 86_400_000, None)
    assert (topic.segment_bytes, topic.segment_ms) == (1 << 30, 7 * 86_400_000)
    assert (topic.max_message_bytes, topic.min_insync_replicas, topic.unclean_leader_election) == (1_048_588, 1, False)
    assert (topic.compacted, topic.deletes) == (False, True)
    assert topic.compaction == CompactionRule(delete_retention_ms=86_400_000)


def test_every_topic_setting_of_kafka_is_described_and_taken_at_its_default() -> None:
    rows = {each.name: each.value for each in Settings().describe_topic({})}
    assert rows == KAFKA_DEFAULTS
    assert {name: check_topic_setting(name, value) for name, value in KAFKA_DEFAULTS.items()} == KAFKA_DEFAULTS


@pytest.mark.parametrize("key", FIXED, ids=name_of)
def test_a_setting_that_is_served_at_its_default_alone_is_refused_at_others(key: ConfigKey) -> None:
    assert check(key, f" {key.default} ") == key.default
    other = {ConfigKind.INT: "7", ConfigKind.LONG: "7", ConfigKind.DOUBLE: "0.7", ConfigKind.BOOLEAN: "true"}
    with pytest.raises(InvalidSetting, match="is not implemented: it can be"):
        check(key, other.get(key.kind, "other"))


@pytest.mark.parametrize(("written", "kept"), [("0.5", "0.5"), (".5", "0.5"), ("5e-1", "0.5")])
def test_a_fraction_is_kept_in_one_way(written: str, kept: str) -> None:
    assert check_topic_setting("min.cleanable.dirty.ratio", written) == kept


@pytest.mark.parametrize("wrong", ["x", "", "nan", "inf", "-0.1", "1.1", "1" * 400])
def test_a_fraction_is_a_number_from_0_to_1(wrong: str) -> None:
    with pytest.raises(InvalidSetting, match=r"is no number|out of range: it can be 0 to 1"):
        check_topic_setting("min.cleanable.dirty.ratio", wrong)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("key", NUMBERS, ids=name_of)
def test_a_number_is_taken_from_its_least_to_its_greatest(key: ConfigKey) -> None:
    assert check(key, f" {key.least} ") == str(key.least)
    assert check(key, f"0{key.most}") == str(key.most)
    for wrong in (key.least - 1, key.most + 1, 10**30):
        with pytest.raises(InvalidSetting, match=r"out of range: it can be|no whole number"):
            check(key, str(wrong))
    for wrong_text in ("", "x", "1.5", "--1", "1e3", "١", "0x10", "1_000", "9" * 5000):
        with pytest.raises(InvalidSetting, match=r"no whole number|longer than"):
            check(key, wrong_text)


@pytest.mark.parametrize(
    "key", [each for each in KEYS if each.kind is ConfigKind.BOOLEAN and not each.choices], ids=name_of
)
def test_a_flag_is_true_or_false(key: ConfigKey) -> None:
    assert [check(key, each) for each in ("true", "FALSE", " True ")] == ["true", "false", "true"]
    for wrong in ("", "yes", "1", "truee"):
        with pytest.raises(InvalidSetting, match="neither true nor false"):
            check(key, wrong)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("flush", "never", "flush=never is not implemented: it can be page-cache or before-ack."),
        (
            "compression.type",
            "brotli",
            "compression.type=brotli is not implemented: it can be producer or uncompressed or zstd or lz4 or snappy or gzip.",
        ),
        ("compression.lz4.level", "18", "compression.lz4.level=18 is out of range: it can be 1 to 17."),
        ("log.cleanup.policy", "x", "log.cleanup.policy=x is not implemented: it can be delete or compact."),
        ("log.cleanup.policy", "delete,delete", "log.cleanup.policy=delete,delete names something twice."),
        ("num.partitions", "0", "num.partitions=0 is out of range: it can be 1 to 2^31-1."),
        ("log.retention.ms", "-2", "log.retention.ms=-2 is out of range: it can be -1 to 2^63-1."),
        ("num.partition", "4", "num.partition is no broker setting that is known. Did you mean num.partitions?"),
        ("xyz", "4", "xyz is no broker setting that is known."),
        ("retention.ms", "4", "retention.ms is no broker setting; the broker setting is log.retention.ms."),
        ("acks", "all", "acks is a setting of producers and consumers, not of brokers or topics."),
        ("log.dirs", "/d", "log.dirs is given by the option --data."),
        ("num.io.threads", "8", "num.io.threads is a setting of Kafka that quorumlog does not implement."),
        (
            "log.flush.interval.messages",
            "1",
            "log.flush.interval.messages=1 is not implemented: it can be 9223372036854775807. "
            "To wait for the disk, start the brokers with flush=before-ack.",
        ),
        ("broker.rack", "r" * 2000, f"the value of broker.rack is longer than {VALUE_CHARACTERS_MAX} characters."),
    ],
)
def test_a_refusal_says_why_in_a_sentence(name: str, value: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        check_broker_setting(name, value)
    assert (str(caught.value), caught.value.name) == (sentence, name)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("retention.sm", "1", "retention.sm is no topic setting that is known. Did you mean retention.ms?"),
        ("log.retention.hours", "1", "log.retention.hours is no topic setting; the topic setting is retention.ms."),
        ("num.partitions", "1", "num.partitions is no topic setting."),
        (
            "flush.messages",
            "1",
            "flush.messages=1 is not implemented: it can be 9223372036854775807. "
            "To wait for the disk, start the brokers with flush=before-ack.",
        ),
        (
            "message.timestamp.type",
            "AppendTime",
            "message.timestamp.type=AppendTime is not implemented: it can be CreateTime or LogAppendTime.",
        ),
        ("retention.ms", None, "retention.ms needs a value."),
    ],
)
def test_a_topic_setting_is_refused_in_a_sentence(name: str, value: str | None, sentence: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        check_topic_setting(name, value)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("written", "kept", "compacted", "deletes"),
    [
        ("compact", "compact", True, False),
        (" compact , delete", "compact,delete", True, True),
        ("delete,compact", "delete,compact", True, True),
        ("", "", False, False),
    ],
)
def test_old_segments_leave_or_old_values_or_both_or_neither(
    written: str, kept: str, compacted: bool, deletes: bool
) -> None:
    assert check_topic_setting("cleanup.policy", written) == kept
    topic = Settings().topic({"cleanup.policy": kept})
    assert (topic.compacted, topic.deletes) == (compacted, deletes)
    topic = Settings(static={"log.cleanup.policy": kept}).topic({})
    assert (topic.compacted, topic.deletes) == (compacted, deletes)


def test_what_is_not_dynamic_cannot_be_altered() -> None:
    assert check_dynamic_setting("min.insync.replicas", "2") == "2"
    with pytest.raises(InvalidSetting, match=r"num\.partitions cannot be altered while the broker runs"):
        check_dynamic_setting("num.partitions", "2")
    with pytest.raises(InvalidSetting, match="out of range"):
        check_dynamic_setting("min.insync.replicas", "0")


@pytest.mark.parametrize(
    ("text", "pair"), [("a=b", ("a", "b")), (" a = b ", ("a", "b")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c"))]
)
def test_an_assignment_is_a_name_and_a_value(text: str, pair: tuple[str, str]) -> None:
    assert parse_assignment(text) == pair


@pytest.mark.parametrize("text", ["", "a", "=b", " =b", "x" * 5000])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is no setting: write name=value") as caught:
        parse_assignment(text)
    assert len(str(caught.value)) < 200


@given(name=st.text(max_size=300), value=st.text(max_size=50))
def test_any_text_is_taken_or_refused_in_a_short_sentence(name: str, value: str) -> None:
    for call in (check_broker_setting, check_topic_setting, check_dynamic_setting):
        try:
            call(name, value)
        except InvalidSetting as error:
            sentence = str(error)
        else:
            sentence = ""
        assert len(sentence) < 600


# ---------------------------------------------------------------- what counts


def test_of_a_name_given_twice_the_last_counts() -> None:
    settings = Settings.from_assignments(["min.insync.replicas=2", "flush=before-ack", "min.insync.replicas=3"])
    assert settings.number("min.insync.replicas") == 3
    assert settings.flushes_before_ack
    assert not Settings().flushes_before_ack
    with pytest.raises(InvalidSetting):
        Settings.from_assignments(["min.insync.replicas=2", "nothing"])


def test_values_are_read_by_their_kind() -> None:
    settings = Settings.from_assignments(["broker.rack=r1", "auto.create.topics.enable=false"])
    assert settings.seconds("replica.lag.time.max.ms") == 30.0
    assert (settings.text("broker.rack"), Settings().text("broker.rack")) == ("r1", None)
    assert (settings.flag("auto.create.topics.enable"), settings.flag("delete.topic.enable")) == (False, True)
    with pytest.raises(KeyError):
        settings.text("no.such.setting")


def test_the_nearest_place_that_names_a_value_counts() -> None:
    settings = Settings({"min.insync.replicas": "2"})
    assert settings.number("min.insync.replicas") == 2
    settings = settings.with_altered(cluster={"min.insync.replicas": "3"}, broker={})
    assert settings.number("min.insync.replicas") == 3
    settings = settings.with_altered(cluster={"min.insync.replicas": "3"}, broker={"min.insync.replicas": "4"})
    assert settings.number("min.insync.replicas") == 4
    assert settings.topic({}).min_insync_replicas == 4
    assert settings.topic({"min.insync.replicas": "5"}).min_insync_replicas == 5
    [row] = settings.describe_topic({"min.insync.replicas": "5"}, ["min.insync.replicas"])
    assert [(each.value, each.source) for each in row.synonyms] == [
        ("5", ConfigSource.TOPIC),
        ("4", ConfigSource.BROKER),
        ("3", ConfigSource.CLUSTER),
        ("2", ConfigSource.STATIC),
        ("1", ConfigSource.DEFAULT),
    ]


@pytest.mark.parametrize(
    ("assignments", "retention_ms"),
    [
        ([], 168 * 3_600_000),
        (["log.retention.hours=2"], 7_200_000),
        (["log.retention.hours=2", "log.retention.minutes=3"], 180_000),
        (["log.retention.hours=2", "log.retention.minutes=3", "log.retention.ms=4"], 4),
        (["log.retention.hours=-1"], None),
        (["log.retention.minutes=-1"], None),
        (["log.retention.hours=2", "log.retention.ms=-1"], None),
        (["log.retention.ms=0"], 0),
    ],
)
def test_the_finest_unit_of_a_retention_counts(assignments: list[str], retention_ms: int | None) -> None:
    assert Settings.from_assignments(assignments).topic({}).retention_ms == retention_ms


def test_synonyms_keep_their_own_value_and_the_row_has_the_unit_of_the_topic() -> None:
    settings = Settings({"log.retention.minutes": "30"})
    [row] = settings.describe_topic({"retention.ms": "5"}, ["retention.ms"])
    assert [(each.name, each.value) for each in row.synonyms] == [
        ("retention.ms", "5"),
        ("log.retention.minutes", "30"),
        ("log.retention.hours", "168"),
    ]
    assert settings.topic({}).retention_ms == 1_800_000


def test_always_is_told_as_minus_one_in_every_unit() -> None:
    [row] = Settings({"log.retention.hours": "-1"}).describe_topic({}, ["retention.ms"])
    assert row.value == "-1"


def test_an_altered_value_counts_before_a_finer_unit_on_the_command_line() -> None:
    settings = Settings({"log.retention.ms": "5"}, cluster={"log.retention.ms": "9"})
    assert settings.topic({}).retention_ms == 9
    assert settings.topic({"retention.ms": "-1"}).retention_ms is None


# ---------------------------------------------------------------- DescribeConfigs


def test_rows_say_where_a_value_comes_from_and_whether_it_can_be_altered() -> None:
    settings = Settings({"num.partitions": "3"}, cluster={"message.max.bytes": "7"})
    rows = {each.name: each for each in settings.describe_broker()}
    assert list(rows) == sorted(BROKER_KEYS)
    assert (rows["num.partitions"].value, rows["num.partitions"].source, rows["num.partitions"].read_only) == (
        "3",
        ConfigSource.STATIC,
        True,
    )
    altered = rows["message.max.bytes"]
    assert (altered.value, altered.source, altered.read_only, altered.is_default) == (
        "7",
        ConfigSource.CLUSTER,
        False,
        False,
    )
    assert rows["broker.rack"].value is None
    assert rows["broker.rack"].is_default
    assert not any(each.sensitive for each in rows.values())
    assert all(each.synonyms[0].value == each.value for each in rows.values() if each.value is not None)
    assert rows["broker.rack"].synonyms == ()


def test_only_the_names_that_are_asked_for_and_known_are_told() -> None:
    settings = Settings({"log.retention.hours": "1"})
    rows = settings.describe_topic({}, ["retention.ms", "unknown", "retention.ms", "cleanup.policy"])
    assert [each.name for each in rows] == ["cleanup.policy", "retention.ms"]
    assert rows[1].synonyms == (
        ConfigSynonym("log.retention.hours", "1", ConfigSource.STATIC),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    assert rows[1].value == "3600000"
    assert rows[1].kind is ConfigKind.LONG
    assert not rows[1].read_only
    assert [each.name for each in settings.describe_topic({})] == sorted(TOPIC_KEYS)

"""Properties: RocketMQ's names, types and defaults; and what is refused, with a sentence that helps."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from rocketmq_compat import config_keys
from rocketmq_compat.config import InvalidProperty, Properties, assignments_of
from rocketmq_compat.config_keys import (
    BROKER_PROPERTIES,
    NAMESRV_PROPERTIES,
    NOT_HONOURED,
    RENAMED,
    PropertyKey,
    PropertyKind,
)


def broker(*assignments: str) -> Properties:
    return Properties.read(BROKER_PROPERTIES, assignments)


def test_defaults_are_those_of_rocketmq() -> None:
    defaults = broker()
    assert defaults.words("brokerRole") == "ASYNC_MASTER"
    assert defaults.words("flushDiskType") == "ASYNC_FLUSH"
    assert defaults.number("haSlaveFallbehindMax") == 268_435_456
    assert defaults.number("maxMessageSize") == 4_194_304
    assert defaults.number("fileReservedTime") == 72
    assert defaults.number("inSyncReplicas") == 1
    assert (defaults.seconds("syncFlushTimeout"), defaults.seconds("slaveTimeout")) == (5.0, 3.0)
    assert not defaults.flag("slaveReadEnable")
    assert defaults.flag("autoCreateTopicEnable")
    assert defaults.text("namesrvAddr") is None
    assert len(defaults.words("messageDelayLevel").split()) == 18


@pytest.mark.parametrize("table", [BROKER_PROPERTIES, NAMESRV_PROPERTIES], ids=["broker", "name server"])
def test_every_default_is_a_value_that_may_be_written(table: Mapping[str, PropertyKey]) -> None:
    written = Properties.read(table).file_text()
    assert Properties.read(table, assignments_of(written)).file_text() == written
    assert all(key.doc.endswith(".") for key in table.values())


def test_a_name_is_either_honoured_or_not() -> None:
    assert not {*BROKER_PROPERTIES, *NAMESRV_PROPERTIES} & set(NOT_HONOURED)
    assert set(RENAMED.values()) <= set(BROKER_PROPERTIES)


def test_values_are_read_from_a_file_of_rocketmq() -> None:
    text = "# a comment\n\nbrokerName = broker-b\n! another\nflushDiskType=SYNC_FLUSH\nslaveReadEnable=TRUE\nbrokerId=0\nbrokerId=2\n"
    properties = broker(*assignments_of(text))
    assert properties.words("brokerName") == "broker-b"
    assert properties.words("flushDiskType") == "SYNC_FLUSH"
    assert properties.flag("slaveReadEnable")
    assert properties.number("brokerId") == 2


def test_an_older_name_still_counts() -> None:
    assert broker("mapedFileSizeCommitLog=8192").number("mappedFileSizeCommitLog") == 8192


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("brokerRol=SLAVE", "brokerRol is no broker property that is known. Did you mean brokerRole?"),
        ("zzz=1", "zzz is no broker property that is known."),
        ("orderMessageEnable=true", "orderMessageEnable is a property of the name server, not of the broker."),
        ("tlsTestModeEnable=true", "tlsTestModeEnable is a property of RocketMQ that quorumlog does not implement."),
        (
            "sendMsgTimeout=1",
            "sendMsgTimeout is a property of producers and consumers, not of brokers or name servers.",
        ),
        ("enableControllerMode=true", "see enableDLegerCommitLog for failover."),
        ("brokerRole", "'brokerRole' is no property: write name=value."),
        ("=1", "'=1' is no property: write name=value."),
        ("brokerRole=LEADER", "brokerRole=LEADER is not implemented: it can be ASYNC_MASTER or SYNC_MASTER or SLAVE."),
        ("slaveReadEnable=1", "slaveReadEnable=1 is neither true nor false."),
        ("brokerId=x", "brokerId=x is no whole number."),
        ("brokerId=-1", "brokerId=-1 is out of range: it can be 0 to 2^63-1."),
        ("listenPort=65536", "listenPort=65536 is out of range: it can be 0 to 65535."),
        ("brokerName=" + "x" * 1025, "the value of brokerName is longer than 1024 characters."),
    ],
)
def test_what_is_refused_is_refused_with_a_sentence(assignment: str, complaint: str) -> None:
    with pytest.raises(InvalidProperty) as caught:
        broker(assignment)
    assert complaint in str(caught.value)


def test_what_belongs_to_brokers_is_refused_by_name_servers() -> None:
    with pytest.raises(InvalidProperty, match="brokerRole is a property of the broker, not of the name server"):
        Properties.read(NAMESRV_PROPERTIES, ["brokerRole=SLAVE"])


def test_only_some_can_change_while_the_process_runs() -> None:
    started = broker("brokerRole=SLAVE")
    assert started.with_assignments(["slaveReadEnable=true", "brokerRole=SLAVE"], running=True).flag("slaveReadEnable")
    with pytest.raises(InvalidProperty, match="brokerRole cannot be changed while the process runs"):
        started.with_assignments(["brokerRole=ASYNC_MASTER"], running=True)


def test_choices_begin_with_the_default() -> None:
    for key in (*BROKER_PROPERTIES.values(), *NAMESRV_PROPERTIES.values()):
        assert not key.choices or (key.kind is PropertyKind.TEXT and key.default == key.choices[0])


def test_every_property_that_is_honoured_is_read_somewhere() -> None:
    package = Path(config_keys.__file__).parent
    source = "".join(path.read_text() for path in package.rglob("*.py") if path.name != "config_keys.py")
    named = BROKER_PROPERTIES.keys() | NAMESRV_PROPERTIES.keys()
    assert [name for name in sorted(named) if f'"{name}"' not in source] == []

"""Ext fields: their names on the wire, what may be missing, what is read leniently and what is refused."""

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.headers import clients, offsets, pulling, routes, sending, topics
from rocketmq_compat.remoting.headers.fields import ExtHeader, plan
from rocketmq_compat.remoting.headers.offsets import QueueRequestHeader, SearchOffsetRequestHeader
from rocketmq_compat.remoting.headers.pulling import PullMessageRequestHeader, QueryMessageRequestHeader
from rocketmq_compat.remoting.headers.routes import RegisterBrokerRequestHeader, RegisterBrokerResponseHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader, SendMessageResponseHeader
from tests.examples import examples
from tests.fuzz import unserved_headers

HEADERS: list[type[ExtHeader]] = [
    value
    for module in (clients, offsets, pulling, routes, sending, topics, unserved_headers)
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, ExtHeader) and value is not ExtHeader
]
SENT = SendMessageRequestHeader(
    producer_group="g",
    topic="t",
    queue_id=-1,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties="KEYS\x01k\x02",
    max_reconsume_times=3,
    batch=True,
    broker_name="broker-a",
)


def test_fields_have_the_long_names_of_the_protocol() -> None:
    assert SENT.ext() == {
        "producerGroup": "g",
        "topic": "t",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "-1",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": "KEYS\x01k\x02",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "maxReconsumeTimes": "3",
        "batch": "true",
        "bname": "broker-a",
    }
    assert SendMessageRequestHeader.read(SENT.ext()) == SENT


def test_fields_of_the_second_version_have_names_of_one_letter() -> None:
    ext = SENT.ext_v2()
    assert "".join(ext) == "abcdefghijklmn"
    assert (ext["a"], ext["i"], ext["l"], ext["m"], ext["n"]) == ("g", "KEYS\x01k\x02", "3", "true", "broker-a")
    assert SendMessageRequestHeader.read_v2(ext) == SENT


def test_what_the_cpp_client_sends_is_read() -> None:
    ext = {"consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "2"}
    header = PullMessageRequestHeader.read({**ext, "suspendTimeoutMillis": "20000", "unknown": "x"})
    assert header.suspend_timeout_millis == 20_000
    assert header.subscription is None
    v1 = {**SENT.ext(), "unitMode": "0", "batch": "1"}
    assert SendMessageRequestHeader.read(v1) == SENT


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False)]
)
def test_a_flag_is_read_however_it_is_written(text: str, value: bool) -> None:
    ext = QueryMessageRequestHeader(topic="t", key="k", max_num=1, begin_timestamp=0, end_timestamp=9).ext()
    assert QueryMessageRequestHeader.read({**ext, "_UNIQUE_KEY_QUERY": text}).is_unique_key is value


@pytest.mark.parametrize(
    ("ext", "complaint"),
    [
        ({"topic": "t"}, "bad field queueId: it is missing"),
        ({"topic": "t", "queueId": "x"}, "bad field queueId: 'x' is no whole number"),
        ({"topic": "t", "queueId": ""}, "bad field queueId: '' is no whole number"),
        ({"topic": "t", "queueId": "-1"}, "bad field queueId: -1 is not from 0"),
        ({"topic": "t", "queueId": "2147483648"}, "bad field queueId: 2147483648 is not from 0"),
        ({"topic": "t", "queueId": "9" * 5000}, "bad field queueId: '9999"),
        ({"topic": "", "queueId": "0"}, "bad field topic: it has 0 characters"),
        ({"topic": "t" * 256, "queueId": "0"}, "bad field topic: it has 256 characters"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_name_of_its_field(ext: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadHeader, match=complaint) as caught:
        QueueRequestHeader.read(ext)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(("name", "bits"), [("queueId", 32), ("bornTimestamp", 64)])
def test_numbers_are_read_up_to_their_bounds(name: str, bits: int) -> None:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for within in (least, most):
        assert SendMessageRequestHeader.read({**SENT.ext(), name: str(within)}).ext()[name] == str(within)
    for beyond in (least - 1, most + 1):
        with pytest.raises(BadHeader, match=f"bad field {name}: {beyond} is not from {least} to {most}"):
            SendMessageRequestHeader.read({**SENT.ext(), name: str(beyond)})


def test_a_name_may_be_long() -> None:
    assert QueueRequestHeader.read({"topic": "t" * 255, "queueId": "0"}).topic == "t" * 255


def test_a_flag_that_is_neither_is_refused() -> None:
    with pytest.raises(BadHeader, match="bad field batch: 'yes' is neither true nor false"):
        SendMessageRequestHeader.read({**SENT.ext(), "batch": "yes"})


def test_none_is_not_written() -> None:
    assert RegisterBrokerResponseHeader().ext() == {}
    assert RegisterBrokerResponseHeader(ha_server_addr="h:1").ext() == {"haServerAddr": "h:1"}
    answer = SendMessageResponseHeader(msg_id="m", queue_id=0, queue_offset=5)
    assert answer.ext() == {"msgId": "m", "queueId": "0", "queueOffset": "5"}


def test_names_that_follow_no_rule_are_those_of_the_protocol() -> None:
    assert clients.UnregisterClientRequestHeader(client_id="c").ext() == {"clientID": "c"}
    registered = RegisterBrokerRequestHeader(cluster_name="c", broker_name="b", broker_addr="h:1", broker_id=0)
    assert registered.ext()["bodyCrc32"] == "0"
    assert SearchOffsetRequestHeader(topic="t", queue_id=1, timestamp=2).ext()["timestamp"] == "2"


@settings(max_examples=examples(25))
@given(st.data())
@pytest.mark.parametrize("header", sorted(HEADERS, key=str))
def test_every_header_survives_its_ext_fields(header: Any, data: st.DataObject) -> None:
    values: dict[str, object] = {}
    hints = {each.name: str(each.type) for each in attrs.fields(header)}
    for field in plan(header):
        if not field.required and data.draw(st.booleans()):
            continue
        hint = hints[field.attribute]
        if "bool" in hint:
            values[field.attribute] = data.draw(st.booleans())
        elif "str" in hint:
            values[field.attribute] = data.draw(st.text(min_size=1, max_size=9))
        else:
            values[field.attribute] = data.draw(st.integers(0, 2**31 - 1))
    made = header(**values)
    assert header.read(made.ext()) == made

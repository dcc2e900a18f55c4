"""Bodies: their members on the wire, fastjson's dialect, what clients write differently, and what is refused."""

import contextlib
import json
import random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_compat.remoting import bodies, fastjson
from rocketmq_compat.remoting.bodies import (
    BrokerData,
    BrokerMemberGroup,
    ConsumeFromWhere,
    ConsumeModel,
    ConsumerOffsetSerializeWrapper,
    ConsumeStats,
    ConsumeType,
    DataVersion,
    GetBrokerMemberGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    OffsetWrapper,
    QueueData,
    RegisterBrokerBody,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
    TopicStatsTable,
)
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.json_body import CLIENT_BODY_BYTES_MAX, JsonBody

QUEUE = MessageQueue(broker_name="b", queue_id=0, topic="t")
ROUTE = TopicRouteData(
    queue_datas=(QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6),),
    broker_datas=(BrokerData(cluster="c", broker_name="b", broker_addrs={0: "h:1", 1: "h:2"}),),
)
REGISTERED = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        topic_config_table={"t": TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=4)},
        data_version=DataVersion(timestamp=5, counter=2),
    )
)
OFFSETS = ConsumerOffsetSerializeWrapper(offset_table={"t@g": {0: 5, 1: 7}})
STATS = ConsumeStats(
    offset_table={QUEUE: OffsetWrapper(broker_offset=9, consumer_offset=5, last_timestamp=1)}, consume_tps=0.5
)
HEARTBEAT = (
    b'{"clientID":"c@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":'
    b'"CONSUME_ACTIVELY","groupName":"g","messageModel":"BROADCASTING","subscriptionDataSet":[{"classFilterMode":false,'
    b'"codeSet":[2564],"expressionType":"TAG","subString":"TT","subVersion":3,"tagsSet":["TT"],"topic":"t"}],'
    b'"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"p"}]}'
)


def test_a_route_has_the_members_of_the_protocol() -> None:
    assert json.loads(ROUTE.encode()) == {
        "queueDatas": [{"brokerName": "b", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}],
        "brokerDatas": [
            {"cluster": "c", "brokerName": "b", "brokerAddrs": {"0": "h:1", "1": "h:2"}, "enableActingMaster": False}
        ],
        "filterServerTable": {},
    }


@pytest.mark.parametrize(
    "body", [ROUTE, REGISTERED, OFFSETS, STATS, LockBatchResponseBody(lock_ok_mq_set=frozenset({QUEUE}))]
)
def test_a_body_survives_its_bytes(body: JsonBody) -> None:
    assert type(body).decode(body.encode()) == body


def test_numbers_are_read_as_keys_without_quotes_but_never_written_so() -> None:
    assert ConsumerOffsetSerializeWrapper.decode(b'{"offsetTable":{"t@g":{0:5,1:7}}}') == OFFSETS
    assert b'{"0":5,"1":7}' in OFFSETS.encode()
    assert (
        BrokerData.decode(b'{"cluster":"c","brokerName":"b","brokerAddrs":{0:"h:1",1:"h:2"}}') == ROUTE.broker_datas[0]
    )


def test_queues_are_keys_as_fastjson_writes_them() -> None:
    assert STATS.encode().startswith(b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"brokerOffset":9,')
    quoted = b'{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":0,\\"topic\\":\\"t\\"}":'
    table = TopicStatsTable.decode(quoted + b'{"minOffset":1,"maxOffset":2,"lastUpdateTimestamp":3}}}')
    assert list(table.offset_table) == [QUEUE]


def test_a_heartbeat_of_a_java_client_is_read() -> None:
    beat = HeartbeatData.decode(HEARTBEAT)
    (consumer,) = beat.consumer_data_set
    assert (beat.client_id, beat.producer_data_set[0].group_name, consumer.group_name) == ("c@1", "p", "g")
    assert consumer.consume_type is ConsumeType.CONSUME_ACTIVELY
    assert consumer.message_model is ConsumeModel.BROADCASTING
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert consumer.subscription_data_set[0].code_set == (2564,)


def test_a_client_in_cpp_writes_places_instead_of_names() -> None:
    body = (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":1,"messageModel":1,"consumeFromWhere":4}]}'
    )
    (consumer,) = HeartbeatData.decode(body).consumer_data_set
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is ConsumeModel.CLUSTERING
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def test_members_that_are_null_or_unknown_do_no_harm() -> None:
    body = b'{"consumerGroup":"g","clientId":"c","mqSet":null,"onlyThisBroker":"false","x":[{}]}'
    assert LockBatchRequestBody.decode(body) == LockBatchRequestBody(consumer_group="g", client_id="c")


@pytest.mark.parametrize(
    ("cls", "body", "complaint"),
    [
        (HeartbeatData, b"", "bad body: it is no JSON"),
        (HeartbeatData, b"\xff", "not UTF-8"),
        (HeartbeatData, b"[]", "bad body: no object"),
        (HeartbeatData, b"{} {}", "the text goes on at character 3"),
        (HeartbeatData, b"{" * 100_000, "nested too deep"),
        (HeartbeatData, b"[" * 100_000, "nested too deep"),
        (HeartbeatData, b"{0:" * 50_000, "nested too deep"),
        (HeartbeatData, b"{0:" + b"[" * 100_000, "nested too deep"),
        (HeartbeatData, b"{a:1,b}", "no ':'"),
        (HeartbeatData, b'{0:"a" 1:2}', "no ','"),
        (HeartbeatData, b"{0:abc}", "'abc' is no value"),
        (HeartbeatData, b"{0:#}", "no value"),
        (HeartbeatData, b'{0:"abc}', "Unterminated string"),
        (HeartbeatData, b"{0:" + b" " * fastjson.LENIENT_BYTES_MAX, "not standard JSON"),
        (HeartbeatData, b'{"clientID":"\\ud800"}', "surrogate"),
        (HeartbeatData, b"{}", "clientID: it is missing"),
        (HeartbeatData, b'{"clientID":1}', "clientID: no text"),
        (HeartbeatData, b'{"clientID":"c","consumerDataSet":{}}', "consumerDataSet: no array"),
        (
            HeartbeatData,
            b'{"clientID":"c","consumerDataSet":[{"groupName":"g"},{}]}',
            r"consumerDataSet\[1\].groupName: it is missing",
        ),
        (
            HeartbeatData,
            b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":2}]}',
            r"consumerDataSet\[0\].messageModel: '2' is none of BROADCASTING, CLUSTERING",
        ),
        (MessageQueue, b'{"brokerName":"b","topic":"t","queueId":1.5}', "queueId: no whole number"),
        (MessageQueue, b'{"brokerName":"b","topic":"t","queueId":"x"}', "queueId: 'x' is no whole number"),
        (MessageQueue, b'{"brokerName":"b","topic":"t","queueId":9223372036854775808}', "queueId: no whole number"),
        (BrokerData, b'{"cluster":"c","brokerName":"b","brokerAddrs":[]}', "brokerAddrs: no object"),
        (BrokerData, b'{"cluster":"c","brokerName":"b","brokerAddrs":{"x":"h"}}', r"brokerAddrs.x.: 'x' is no whole"),
        (TopicStatsTable, b'{"offsetTable":{"x":{}}}', r"offsetTable\[x\]: it is no JSON"),
        (ConsumeStats, b'{"consumeTps":"x"}', "consumeTps: no number"),
        (ConsumeStats, b'{"consumeTps":' + b"9" * 400 + b"}", "consumeTps: a number out of range"),
        (TopicConfig, b'{"topicName":"t","order":2}', "order: neither true nor false"),
    ],
)
def test_what_a_body_cannot_mean_is_refused_with_its_place(cls: type[JsonBody], body: bytes, complaint: str) -> None:
    with pytest.raises(BadBody, match=complaint) as caught:
        cls.decode(body)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("cls", [HeartbeatData, LockBatchRequestBody, SubscriptionGroupConfig])
def test_what_a_client_states_is_bounded_and_what_is_longer_is_not_read(cls: type[JsonBody]) -> None:
    with pytest.raises(BadBody, match="no object"):
        cls.decode(b"[" + b" " * (CLIENT_BODY_BYTES_MAX - 2) + b"]")
    with pytest.raises(BadBody, match="1048577 bytes; at most 1048576"):
        cls.decode(b"[" + b" " * (CLIENT_BODY_BYTES_MAX - 1) + b"]")


@pytest.mark.parametrize(
    ("written", "read"), [(b"true", True), (b'"true"', True), (b'"1"', True), (b"1", True), (b"0", False)]
)
def test_a_boolean_is_read_however_it_is_written(written: bytes, read: bool) -> None:
    assert TopicConfig.decode(b'{"topicName":"t","order":' + written + b"}").order is read


@pytest.mark.parametrize("number", [0, 2**63 - 1, -(2**63)])
def test_numbers_have_64_bits(number: int) -> None:
    for written in (f"{number}", f'"{number}"'):
        assert DataVersion.decode(f'{{"counter":{written}}}'.encode()).counter == number
    with pytest.raises(BadBody, match="no whole number"):
        DataVersion.decode(b'{"counter":%d}' % (number * 2 - 1 if number else 2**63))


def test_names_have_places_from_zero_on() -> None:
    body = (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":0,"messageModel":0,"consumeFromWhere":0}]}'
    )
    (consumer,) = HeartbeatData.decode(body).consumer_data_set
    assert consumer.consume_type is ConsumeType.CONSUME_ACTIVELY
    assert consumer.message_model is ConsumeModel.BROADCASTING


def test_a_member_that_may_be_missing_is_read_if_it_is_there() -> None:
    group = GetBrokerMemberGroupResponseBody(
        broker_member_group=BrokerMemberGroup(cluster="c", broker_name="a", broker_addrs={0: "h:1"})
    )
    assert GetBrokerMemberGroupResponseBody.decode(group.encode()) == group


def test_keys_that_are_objects_are_given_as_text_in_one_order() -> None:
    assert fastjson.loads(b'{{"b":1,"a":[2]}:3, {"a" : [2] , "b" : 1}:4}') == {'{"a":[2],"b":1}': 4}


def test_the_dialect_may_be_nested() -> None:
    deep = fastjson.DEPTH_MAX - 1
    assert fastjson.loads(b"{0:" * deep + b"1" + b"}" * deep)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.dictionaries(st.integers(0, 9), st.integers(), min_size=1, max_size=3))
def test_the_dialect_reads_all_that_the_standard_does(value: Any, numbers: dict[int, int]) -> None:
    bare = "{" + ",".join(f"{key} : {member}" for key, member in numbers.items()) + "}"
    text = f'{{"standard":{json.dumps(value)} , "bare":{bare}}}'
    assert fastjson.loads(text.encode()) == {
        "standard": value,
        "bare": {str(key): each for key, each in numbers.items()},
    }


BODIES: list[type[JsonBody]] = [
    value
    for value in vars(bodies).values()
    if isinstance(value, type) and issubclass(value, JsonBody) and value is not JsonBody
]


def test_every_body_of_its_defaults_survives_its_bytes() -> None:
    for cls in BODIES:
        required = {each.name: each.type for each in attrs.fields(cls) if each.default is attrs.NOTHING}  # type: ignore[arg-type]
        made = cls(**{name: 1 if kind is int else "x" for name, kind in required.items()})
        assert cls.decode(made.encode()) == made


def test_mutated_bodies_raise_nothing_but_the_error_of_bodies() -> None:
    rng = random.Random(7)
    samples = [HEARTBEAT, STATS.encode(), REGISTERED.encode(), b'{"offsetTable":{"t@g":{0:5,1:7}}}', ROUTE.encode()]
    read = 0
    for _ in range(4_000):
        body = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(body))
            body[at : at + rng.randint(0, 2)] = rng.choice(
                [b"", b"{", b"}", b'"', b"0", b"[", b"\xff", b"\\", b"\\ud800"]
            )
        for cls in (HeartbeatData, ConsumeStats, RegisterBrokerBody, ConsumerOffsetSerializeWrapper, TopicRouteData):
            with contextlib.suppress(BadBody):
                cls.decode(bytes(body)).encode()
                read += 1
    assert read > 100

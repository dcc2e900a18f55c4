"""Sends the same requests to Apache RocketMQ and to ours, and compares the answers of name server and broker field by
field.

It compares codes, ext fields, members of bodies and their kinds, and properties of stored messages. `python -m
tests.rocketmq_compat.foreign.compare` needs Java and the jars of `quorumlog fetch apache-rocketmq`. It prints
every difference. A difference without a reason in `REASONS` makes it end with status 1.
"""

import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import click
import trio

from jepsen_like.bench.processes import BenchProcess, running
from jepsen_like.bench.rocketmq.apache import apache_process
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from rocketmq_compat.records import InnerMessage, join_messages, read_heads, read_properties
from rocketmq_compat.remoting import fastjson
from rocketmq_compat.remoting.client import RemotingClient, RemotingFailed, connected_client
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader

SERVES_WITHIN_S: Final = 60.0
CLUSTER, BROKER = "compared", "broker-a"
GROUP, TOPIC = "group", "topic"

_REFUSAL: Final = "a refusal here has a code and a reason, and no fields"
_OWN_GROUPS: Final = "RocketMQ's own groups are made by their first use"
_OWN_TOPICS: Final = "a topic of something that is not here: transactions, POP, acting masters, or the benchmark"
REASONS: Final = {
    "SEND_MESSAGE_V2 to the schedule topic ext.*": _REFUSAL,
    "SEND_MESSAGE_V2 to an illegal topic ext.*": _REFUSAL,
    "SEND_MESSAGE_V2 timer too far ext.*": _REFUSAL,
    "SEND_MESSAGE_V2 timer illegal ext.*": _REFUSAL,
    "SEND_REPLY_MESSAGE to nobody ext.*": _REFUSAL,
    "SEND_MESSAGE_V2 timer ext.recallHandle": "a timer message cannot be recalled",
    "HEART_BEAT ext.IS_*": "the second form of heartbeats is not served; clients then send the first",
    "PULL_MESSAGE* properties.DELAY": "5.x leaves the level of a message that was delivered; 4.x and ours take it away, so that it does not wait again",
    "PULL_MESSAGE* properties.TIMER_*QUEUE_MS": "when RocketMQ's timing wheel took it in and out",
    "PULL_MESSAGE* properties.WAIT": "properties stay as they were sent",
    "GET_ALL_CONSUMER_OFFSET body.groupTopicMap*": "between RocketMQ's brokers",
    "GET_ALL_CONSUMER_OFFSET body.pullOffsetTable*": "between RocketMQ's brokers",
    "GET_ALL_DELAY_OFFSET body.offsetTable.*": "every level is named, and the state of timer messages",
    "GET_ALL_DELAY_OFFSET ext.logEnd": "a slave takes the offsets over once its log goes so far",
    "GET_ALL_TOPIC_CONFIG ext.totalTopicNum": "all topics are in one answer",
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG ext.totalGroupNum": "all groups are in one answer",
    "GET_ALL_TOPIC_CONFIG body.mappingDataVersion*": "static topics are not served",
    "GET_ALL_TOPIC_CONFIG body.topicQueueMapping*": "static topics are not served",
    "GET_ALL_TOPIC_CONFIG body.topicConfigTable.BenchmarkTest*": _OWN_TOPICS,
    "GET_ALL_TOPIC_CONFIG body.topicConfigTable.RMQ_SYS_*": _OWN_TOPICS,
    "GET_ALL_TOPIC_CONFIG body.topicConfigTable.rmq_sys_REVIVE*": _OWN_TOPICS,
    "GET_ALL_TOPIC_CONFIG body.topicConfigTable.rmq_sys_SYNC*": _OWN_TOPICS,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG body.subscriptionGroupTable.CID_*": _OWN_GROUPS,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG body.subscriptionGroupTable.FILTERSRV_*": _OWN_GROUPS,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG body.subscriptionGroupTable.SELF_TEST_*": _OWN_GROUPS,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG body.subscriptionGroupTable.TOOLS_*": _OWN_GROUPS,
    "GET_BROKER_RUNTIME_INFO body.*": "ours reports facts of its own, by names of its own",
}
"""The reason for a difference, by a pattern of its place."""


@attrs.frozen
class Question:
    """One request to a broker, or to a name server."""

    title: str
    code: int
    ext: dict[str, Any] = attrs.field(factory=dict)
    body: Any = b""
    asks_names: bool = False

    def command(self) -> Command:
        """The request."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return Command(self.code, ext={name: str(value) for name, value in self.ext.items()}, body=body)


def names(title: str, code: int, **ext: Any) -> Question:
    """A question to a name server."""
    return Question(title, code, ext, asks_names=True)


def sending(
    title: str, code: int, body: bytes = b"m", properties: str = "UNIQ_KEY\1u\2KEYS\1k\2", **more: Any
) -> Question:
    """A message; with letters for codes that have them."""
    header = SendMessageRequestHeader(
        producer_group="p",
        topic=more.pop("topic", TOPIC),
        queue_id=0,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=properties,
        **more,
    )
    return Question(title, code, dict(header.ext() if code in (10, 324) else header.ext_v2()), body)


def pulling(title: str, offset: int, **more: Any) -> Question:
    """A pull that does not wait."""
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4}
    more = {"commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, **more}
    return Question(title, 11, {**ext, **more})


def questions() -> Iterator[Question]:
    """Yields the requests of clients and tools, in an order in which the answers have content."""
    yield from of_topics()
    yield from of_name_servers()
    yield from of_producers()
    yield from of_consumers()
    yield from of_offsets()
    yield from of_administrators()


def of_topics() -> Iterator[Question]:
    """Topics are made."""
    topic = {
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
    }
    yield Question(
        "UPDATE_AND_CREATE_TOPIC",
        17,
        {**topic, "topicSysFlag": 0, "order": "false", "attributes": "+message.type=NORMAL"},
    )
    yield Question(
        "UPDATE_AND_CREATE_TOPIC unknown attribute",
        17,
        {**topic, "topicSysFlag": 0, "order": "false", "attributes": "+colour=red"},
    )
    yield Question(
        "UPDATE_AND_CREATE_TOPIC of the system", 17, {**topic, "topic": "TBW102", "topicSysFlag": 0, "order": "false"}
    )
    yield Question(
        "UPDATE_AND_CREATE_TOPIC with an illegal name",
        17,
        {**topic, "topic": "a b", "topicSysFlag": 0, "order": "false"},
    )


def of_name_servers() -> Iterator[Question]:
    """Routes, clusters and values."""
    yield names("GET_ROUTEINFO_BY_TOPIC", 105, topic=TOPIC)
    yield names("GET_ROUTEINFO_BY_TOPIC missing", 105, topic="none")
    yield names("GET_BROKER_CLUSTER_INFO", 106)
    yield names("GET_TOPICS_BY_CLUSTER", 224, cluster=CLUSTER)
    yield names("GET_BROKER_MEMBER_GROUP", 901, clusterName=CLUSTER, brokerName=BROKER)
    yield names("GET_SYSTEM_TOPIC_LIST_FROM_NS", 304)
    yield names("PUT_KV_CONFIG", 100, namespace="n", key="k", value="v")
    yield names("GET_KV_CONFIG", 101, namespace="n", key="k")
    yield names("GET_KV_CONFIG missing", 101, namespace="n", key="none")
    yield names("GET_KVLIST_BY_NAMESPACE", 219, namespace="n")
    yield names("DELETE_KV_CONFIG", 102, namespace="n", key="k")


def of_producers() -> Iterator[Question]:
    """Messages are sent."""
    yield sending("SEND_MESSAGE", 10)
    yield sending("SEND_MESSAGE_V2", 310)
    yield sending(
        "SEND_BATCH_MESSAGE",
        320,
        join_messages([InnerMessage(0, b"a", "A\1b\2"), InnerMessage(0, b"b", "")]),
        "WAIT\1true\2",
        batch=True,
    )
    yield sending("SEND_MESSAGE_V2 to a new topic", 310, topic="made")
    yield sending("SEND_MESSAGE_V2 to an illegal topic", 310, topic="a b")
    yield sending("SEND_MESSAGE_V2 to the schedule topic", 310, topic="SCHEDULE_TOPIC_XXXX")
    yield sending("SEND_MESSAGE_V2 timer", 310, properties="TIMER_DELAY_MS\x011500\2UNIQ_KEY\1t\2")
    yield sending("SEND_MESSAGE_V2 timer too far", 310, properties="TIMER_DELAY_SEC\x01999999\2UNIQ_KEY\1t\2")
    yield sending("SEND_MESSAGE_V2 timer illegal", 310, properties="TIMER_DELAY_SEC\1soon\2UNIQ_KEY\1t\2")
    yield sending("SEND_MESSAGE_V2 delayed", 310, properties="DELAY\0011\2UNIQ_KEY\1d\2")


def of_consumers() -> Iterator[Question]:
    """Clients come, and pull."""
    subscription = {
        "topic": TOPIC,
        "subString": "*",
        "tagsSet": [],
        "codeSet": [],
        "subVersion": 1,
        "expressionType": "TAG",
        "classFilterMode": False,
    }
    consumer = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    yield Question(
        "HEART_BEAT", 34, {}, {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": [consumer]}
    )
    yield Question("CHECK_CLIENT_CONFIG", 46, {}, {"clientId": "c", "group": GROUP, "subscriptionData": subscription})
    yield Question("GET_CONSUMER_LIST_BY_GROUP", 38, {"consumerGroup": GROUP})
    yield Question("GET_CONSUMER_LIST_BY_GROUP missing", 38, {"consumerGroup": "none"})
    yield Question("GET_CONSUMER_CONNECTION_LIST", 203, {"consumerGroup": GROUP})
    yield Question("GET_CONSUMER_CONNECTION_LIST missing", 203, {"consumerGroup": "none"})
    yield Question("GET_PRODUCER_CONNECTION_LIST", 204, {"producerGroup": "p"})
    yield pulling("PULL_MESSAGE", 0)
    yield pulling("PULL_MESSAGE at the end", 4)
    yield pulling("PULL_MESSAGE beyond the end", 400)
    yield pulling("PULL_MESSAGE of a missing topic", 0, topic="none")


def of_offsets() -> Iterator[Question]:
    """Offsets, single messages and locks."""
    queue = {"topic": TOPIC, "queueId": 0}
    yield Question("UPDATE_CONSUMER_OFFSET", 15, {**queue, "consumerGroup": GROUP, "commitOffset": 1})
    yield Question("QUERY_CONSUMER_OFFSET", 14, {**queue, "consumerGroup": GROUP})
    yield Question(
        "QUERY_CONSUMER_OFFSET missing", 14, {**queue, "consumerGroup": "none", "setZeroIfNotFound": "false"}
    )
    yield Question("SEARCH_OFFSET_BY_TIMESTAMP", 29, {**queue, "timestamp": 0})
    yield Question("SEARCH_OFFSET_BY_TIMESTAMP upper, before", 29, {**queue, "timestamp": 1, "boundaryType": "UPPER"})
    yield Question(
        "SEARCH_OFFSET_BY_TIMESTAMP upper, after",
        29,
        {**queue, "timestamp": int(time.time() * 1000) + 10**6, "boundaryType": "UPPER"},
    )
    yield Question(
        "SEARCH_OFFSET_BY_TIMESTAMP lower, after",
        29,
        {**queue, "timestamp": int(time.time() * 1000) + 10**6, "boundaryType": "LOWER"},
    )
    yield Question("GET_MAX_OFFSET", 30, queue)
    yield Question("GET_MIN_OFFSET", 31, queue)
    yield Question("GET_EARLIEST_MSG_STORETIME", 32, queue)
    yield Question(
        "QUERY_MESSAGE", 12, {"topic": TOPIC, "key": "k", "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 2**62}
    )
    yield Question(
        "QUERY_MESSAGE missing",
        12,
        {"topic": TOPIC, "key": "none", "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 2**62},
    )
    yield Question("VIEW_MESSAGE_BY_ID missing", 33, {"offset": 10**12})
    yield Question(
        "CONSUMER_SEND_MSG_BACK",
        36,
        {"offset": 0, "group": GROUP, "delayLevel": 0, "originMsgId": "x", "originTopic": TOPIC, "unitMode": "false"},
    )
    lock = {"consumerGroup": GROUP, "clientId": "c", "mqSet": [{"topic": TOPIC, "brokerName": BROKER, "queueId": 0}]}
    yield Question("LOCK_BATCH_MQ", 41, {}, lock)
    yield Question("UNLOCK_BATCH_MQ", 42, {}, lock)


def of_administrators() -> Iterator[Question]:
    """Yields requests that list and delete things."""
    yield Question("GET_ALL_CONSUMER_OFFSET", 43)
    yield Question("GET_ALL_DELAY_OFFSET", 45)
    yield Question("GET_ALL_TOPIC_CONFIG", 21)
    yield Question("GET_TOPIC_CONFIG", 351, {"topic": TOPIC})
    yield Question("GET_TOPIC_CONFIG missing", 351, {"topic": "none"})
    yield Question("GET_TOPIC_STATS_INFO", 202, {"topic": TOPIC})
    yield Question("GET_TOPIC_STATS_INFO missing", 202, {"topic": "none"})
    yield Question("GET_SYSTEM_TOPIC_LIST_FROM_BROKER", 305)
    yield Question("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", 200, {}, {"groupName": "made"})
    yield Question("GET_SUBSCRIPTIONGROUP_CONFIG", 352, {"group": "made"})
    yield Question("GET_SUBSCRIPTIONGROUP_CONFIG new", 352, {"group": "new"})
    yield Question("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", 201)
    yield Question("GET_CONSUME_STATS", 208, {"consumerGroup": GROUP, "topic": TOPIC})
    yield Question("QUERY_TOPIC_CONSUME_BY_WHO", 300, {"topic": TOPIC})
    yield Question("GET_BROKER_RUNTIME_INFO", 28)
    yield sending(
        "SEND_REPLY_MESSAGE to nobody", 324, properties="REPLY_TO_CLIENT\1none\2", topic=f"{CLUSTER}_REPLY_TOPIC"
    )
    yield Question("UNREGISTER_CLIENT", 35, {"clientID": "c", "producerGroup": "p", "consumerGroup": GROUP})
    yield Question("DELETE_SUBSCRIPTIONGROUP", 207, {"groupName": "made", "cleanOffset": "true"})
    yield Question("DELETE_TOPIC_IN_BROKER of the system", 215, {"topic": "TBW102"})
    yield Question("DELETE_TOPIC_IN_BROKER missing", 215, {"topic": "none"})
    yield Question("DELETE_TOPIC_IN_BROKER", 215, {"topic": "made"})


# What is compared


def facts(answer: Command) -> dict[str, str]:
    """Returns the content of an answer, by its place: codes, ext fields, members and their kinds, properties."""
    found = {"code": str(answer.code)}
    found |= {f"ext.{name}": "" for name in answer.ext}
    if answer.code == 0 and len(answer.body):
        content = bytes(answer.body)
        try:
            found |= shape("body", fastjson.loads(content))
        except BadBody:
            for _, head in read_heads(content):
                found |= {f"properties.{name}": "" for name in read_properties(head.properties)}
    for name in ("offset", "timestamp"):
        if name == "offset" and name in answer.ext:
            found[f"ext.{name}"] = answer.ext[name]
    return found


def shape(place: str, value: Any) -> dict[str, str]:
    """Returns the members of JSON and the kinds of their values, by their places. An array counts as its first item."""
    match value:
        case dict():
            found = {place: "object"}
            for name, member in value.items():
                found |= shape(f"{place}.{name}", member)
            return found
        case list():
            return {place: "array"} | (shape(f"{place}[]", value[0]) if value else {})
        case bool():
            return {place: "boolean"}
        case int() | float():
            return {place: "number"}
        case _:
            return {place: type(value).__name__}


def differences(title: str, theirs: dict[str, str], ours: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the place and what is different there."""
    for place in sorted(theirs.keys() | ours.keys()):
        if place not in ours:
            yield f"{title} {place}", f"missing here: {theirs[place]}"
        elif place not in theirs:
            yield f"{title} {place}", f"only here: {ours[place]}"
        elif theirs[place] != ours[place]:
            yield f"{title} {place}", f"{theirs[place]} there, {ours[place]} here"


# The two systems


@contextmanager
def apache(home: Path, ports: tuple[int, ...]) -> Iterator[None]:
    """Apache RocketMQ."""
    settings = {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER,
        "brokerIP1": LOOPBACK,
        "namesrvAddr": f"{LOOPBACK}:{ports[0]}",
        "listenPort": str(ports[1]),
        "haListenPort": str(ports[2]),
        "storePathRootDir": str(home / "data"),
        "storePathCommitLog": str(home / "data" / "commitlog"),
        "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    }
    server = apache_process("namesrv.NamesrvStartup", home / "names", {"listenPort": str(ports[0])})
    with running([server, apache_process("broker.BrokerStartup", home, settings)]):
        yield


@contextmanager
def quorumlog(home: Path, ports: tuple[int, ...]) -> Iterator[None]:
    """Ours."""
    module = [sys.executable, "-m", "rocketmq_compat.process"]
    words = [
        f"brokerClusterName={CLUSTER}",
        f"brokerName={BROKER}",
        f"namesrvAddr={LOOPBACK}:{ports[0]}",
        f"haListenPort={ports[2]}",
    ]
    options = [part for word in words for part in ("--set", word)]
    server = BenchProcess([*module, "nameserver", "--listen", f"{LOOPBACK}:{ports[0]}"], home / "names")
    broker = BenchProcess(
        [*module, "broker", "--listen", f"{LOOPBACK}:{ports[1]}", "--data", str(home / "data"), *options], home
    )
    with running([server, broker]):
        yield


async def answers(ports: tuple[int, ...]) -> dict[str, dict[str, str]]:
    """Returns the answers of the name server and the broker at these ports, by title."""
    found: dict[str, dict[str, str]] = {}
    async with connected_client((LOOPBACK, ports[0])) as name_server, connected_client((LOOPBACK, ports[1])) as broker:
        with trio.fail_after(SERVES_WITHIN_S):
            while not await _serves(name_server, broker):  # noqa: ASYNC110 - processes have no event
                await trio.sleep(0.2)
        for question in questions():
            client = name_server if question.asks_names else broker
            if question.title == "PULL_MESSAGE":
                await trio.sleep(4)  # the timer message and the delayed one are due
            answer = await client.ask(question.command(), timeout_s=20)
            found[question.title] = facts(answer)
    return found


async def _serves(name_server: RemotingClient, broker: RemotingClient) -> bool:
    try:
        known = await name_server.ask(names("", 105, topic="TBW102").command(), timeout_s=2)
        return known.code == 0 and (await broker.ask(Question("", 28).command(), timeout_s=2)).code == 0
    except RemotingFailed:
        return False


def main() -> None:
    """Compare, and print."""
    found = []
    for opens in (apache, quorumlog):
        with (
            tempfile.TemporaryDirectory(prefix="compare-") as home,
            ReservedPorts(3) as reserved,
            opens(Path(home), reserved.ports),
        ):
            found.append(trio.run(answers, reserved.ports))
    theirs, ours = found
    open_ones = 0
    for title in theirs:
        for place, what in differences(title, theirs[title], ours[title]):
            reason = next((why for pattern, why in REASONS.items() if fnmatch.fnmatchcase(place, pattern)), None)
            open_ones += reason is None
            click.echo(
                f"{'DIFFERS' if reason is None else 'ok     '} {place}: {what}{'' if reason is None else f' ({reason})'}"
            )
    click.echo(f"{len(theirs)} requests, {open_ones} differences without a reason")
    sys.exit(1 if open_ones else 0)


if __name__ == "__main__":
    main()

"""Requests of clients and administrators: each field takes effect or is refused, and views show the present state."""

import time

import pytest
import trio

from rocketmq_compat.records import InnerMessage, join_messages, read_properties
from rocketmq_compat.remoting.bodies import (
    ConsumeStats,
    HeartbeatData,
    ProducerData,
    SubscriptionGroupConfig,
    TopicConfig,
)
from rocketmq_compat.remoting.client import RemotingClient, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import SearchOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketmq_compat.remoting.headers.topics import (
    CreateTopicRequestHeader,
    GetConsumeStatsRequestHeader,
    GroupRequestHeader,
    TopicRequestHeader,
)
from tests.rocketmq_compat.broker.pairs import ask, beat, heads, pull_until, send, send_header, serve

REPLY = "MSG_TYPE\1reply\2CORRELATION_ID\1c\2REPLY_TO_CLIENT\1asker\2"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


async def produces(client: RemotingClient, client_id: str) -> None:
    body = HeartbeatData(client_id=client_id, producer_data_set=(ProducerData(group_name="p"),))
    await ask(client, RequestCode.HEART_BEAT, body=body.encode())


async def reply(client: RemotingClient, code: int, properties: str = REPLY) -> Command:
    header = send_header(REPLY_TOPIC, properties=properties)
    ext = header.ext() if code == RequestCode.SEND_REPLY_MESSAGE else header.ext_v2()
    return await client.ask(Command(code, ext=ext, body=b"answer"), timeout_s=20)


# Requests and replies


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
async def test_a_reply_is_pushed_to_the_client_that_asked_and_stored(code: RequestCode) -> None:
    pushed: list[Command] = []

    def take(request: Command) -> Command:
        pushed.append(request)
        return request.answer(ResponseCode.SUCCESS)

    async with serve() as (broker, client), connected_client(broker.address, on_request=take) as asker:
        await produces(asker, "asker")
        answer = await reply(client, code)
        assert answer.code == ResponseCode.SUCCESS
        (found,) = pushed
        assert found.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        assert bytes(found.body) == b"answer"
        assert read_properties(found.ext["properties"]).items() >= {"CORRELATION_ID": "c"}.items()
        assert found.ext["storeHost"] == broker.context.address
        assert broker.context.store.queue((REPLY_TOPIC, 0)) == (0, 1)
        assert answer.ext["queueOffset"] == "0"


async def test_a_client_that_does_not_answer_a_push_was_sent_it_nevertheless() -> None:
    async with serve() as (broker, client), connected_client(broker.address, on_request=lambda _: None) as asker:
        await produces(asker, "asker")
        assert (await reply(client, RequestCode.SEND_REPLY_MESSAGE)).code == ResponseCode.SUCCESS


async def test_a_reply_that_cannot_be_pushed_is_refused() -> None:
    async with serve() as (broker, client):
        for properties in (REPLY, "MSG_TYPE\1reply\2"):
            assert (await reply(client, RequestCode.SEND_REPLY_MESSAGE, properties)).code == ResponseCode.SYSTEM_ERROR
        assert broker.context.store.queue((REPLY_TOPIC, 0)) is None
        refuses = lambda request: request.answer(ResponseCode.SYSTEM_ERROR)  # noqa: E731
        async with connected_client(broker.address, on_request=refuses) as asker:
            await produces(asker, "asker")
            assert (await reply(client, RequestCode.SEND_REPLY_MESSAGE)).code == ResponseCode.SYSTEM_ERROR


async def test_a_client_that_leaves_before_it_answers_a_push_was_not_reached() -> None:
    arrived = trio.Event()

    def take(request: Command) -> None:
        arrived.set()

    async with serve() as (broker, client), trio.open_nursery() as nursery:
        answers: list[Command] = []

        async def send_reply() -> None:
            answers.append(await reply(client, RequestCode.SEND_REPLY_MESSAGE))

        async with connected_client(broker.address, on_request=take) as asker:
            await produces(asker, "asker")
            nursery.start_soon(send_reply)
            await arrived.wait()
    assert [each.code for each in answers] == [ResponseCode.SYSTEM_ERROR]


# What is stored


@pytest.mark.parametrize("properties", ["", "TAGS\1A", "TAGS\1A\2", "CLUSTER\1other\2MSG_REGION\1x\2", "WAIT\1true\2"])
async def test_every_stored_message_has_region_trace_and_cluster(properties: str) -> None:
    async with serve("regionId=here", "traceOn=false", "brokerClusterName=c") as (_, client):
        answer = await send(client, b"m", properties=properties)
        assert (answer.ext["MSG_REGION"], answer.ext["TRACE_ON"]) == ("here", "false")
        (head,) = heads(await pull_until(client, 1))
        stamps = {"MSG_REGION": "here", "TRACE_ON": "false", "CLUSTER": "c"}
        assert read_properties(head.properties) == {**read_properties(properties), **stamps}
        assert head.properties.count("CLUSTER") == 1


async def test_every_message_of_a_batch_has_them_and_what_the_batch_has() -> None:
    body = join_messages([InnerMessage(0, b"a", "TAGS\1A"), InnerMessage(0, b"b", "CLUSTER\1x\2")])
    async with serve() as (_, client):
        answer = await send(client, body, batch=True, properties="K\1v\2")
        assert answer.code == ResponseCode.SUCCESS
        common = {"K": "v", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
        found = [read_properties(each.properties) for each in heads(await pull_until(client, 2))]
        assert found == [{"TAGS": "A", **common}, common]


@pytest.mark.parametrize("properties", ["DELAY\0011\2", "A\1b\2TIMER_DELAY_MS\0015\2", "TRAN_MSG\1true\2"])
async def test_a_batch_with_a_message_for_later_is_refused(properties: str) -> None:
    body = join_messages([InnerMessage(0, b"a", ""), InnerMessage(0, b"b", properties)])
    async with serve() as (broker, client):
        assert (await send(client, body, batch=True)).code == ResponseCode.MESSAGE_ILLEGAL
        assert broker.context.store.log.end_offset == 0


# What administrators ask


async def test_the_progress_of_a_group_shows_all_queues_of_its_topics() -> None:
    async with serve() as (_, client):
        for queue_id in (0, 1, 1, 2):
            await send(client, b"m", queue_id=queue_id)
        commit = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=1)
        await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        for topic in ("T", "", None):
            header = GetConsumeStatsRequestHeader(consumer_group="g", topic=topic)
            stats = ConsumeStats.decode((await ask(client, RequestCode.GET_CONSUME_STATS, header)).body)
            found = {
                queue.queue_id: (row.broker_offset, row.consumer_offset) for queue, row in stats.offset_table.items()
            }
            assert found == {0: (1, 1), 1: (2, 0), 2: (1, 0), 3: (0, 0)}


async def test_a_topic_that_a_group_does_not_subscribe_to_is_not_part_of_its_progress() -> None:
    async with serve() as (_, client):
        await send(client, b"m", "T")
        await send(client, b"m", "U")
        await beat(client, "c", "g", "U")
        for topic, queues in (("T", 0), ("U", 4), ("none", 0)):
            header = GetConsumeStatsRequestHeader(consumer_group="g", topic=topic)
            stats = ConsumeStats.decode((await ask(client, RequestCode.GET_CONSUME_STATS, header)).body)
            assert len(stats.offset_table) == queues


async def test_asking_for_a_group_makes_it_if_groups_are_made_by_use() -> None:
    header = GroupRequestHeader(group="new")
    async with serve() as (broker, client):
        answer = await ask(client, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert SubscriptionGroupConfig.decode(answer.body).group_name == "new"
        assert "new" in broker.context.groups.groups
    async with serve("autoCreateSubscriptionGroup=false") as (_, client):
        answer = await ask(client, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def creation(attributes: str | None, **more: object) -> CreateTopicRequestHeader:
    fields = {"topic": "T", "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6, "attributes": attributes, **more}
    return CreateTopicRequestHeader(**fields)  # type: ignore[arg-type]  # fields by name


async def test_attributes_of_a_topic_are_kept_changed_and_shown() -> None:
    async with serve(secret=None) as (_, client):
        for attributes, expected in (
            ("+message.type=FIFO,+cleanup.policy=DELETE", {"message.type": "FIFO", "cleanup.policy": "DELETE"}),
            ("+message.type=DELAY,-cleanup.policy", {"message.type": "DELAY"}),
            (None, {"message.type": "DELAY"}),
        ):
            answer = await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, creation(attributes))
            assert answer.code == ResponseCode.SUCCESS
            shown = await ask(client, RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader(topic="T"))
            assert TopicConfig.decode(shown.body).attributes == expected


@pytest.mark.parametrize(
    "attributes",
    [
        "message.type=FIFO",
        "+message.type",
        "+message.type=",
        "+message.type=SOME",
        "+cleanup.policy=COMPACTION",
        "+queue.type=BatchCQ",
        "+reserve.time=100",
        "-message.type",
        "+message.type=FIFO,-message.type",
        "+colour=red",
        "+",
        "x" * 5000,
    ],
)
async def test_attributes_that_could_not_be_obeyed_are_refused(attributes: str) -> None:
    async with serve() as (broker, client):
        answer = await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, creation(attributes))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert broker.context.topics.get("T") is None


async def test_a_filter_type_that_is_none_is_refused() -> None:
    async with serve() as (_, client):
        header = creation(None, topic_filter_type="SQL")
        answer = await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_an_offset_by_time_is_the_first_or_the_last_of_its_time() -> None:
    async with serve() as (broker, client):
        times = []
        for number in range(3):
            await send(client, b"%d" % number)
            stored = broker.context.store.store_time(("T", 0), number)
            assert stored is not None
            times.append(stored)
            while time.time_ns() // 1_000_000 <= stored:
                await trio.lowlevel.checkpoint()
        for boundary, expected in (
            (None, [0, 0, 1, 2, 3]),
            ("LOWER", [0, 0, 1, 2, 3]),
            ("lower", [0, 0, 1, 2, 3]),
            ("UPPER", [0, 0, 1, 2, 2]),
            ("upper", [0, 0, 1, 2, 2]),
        ):
            found = []
            for wanted_ms in (times[0] - 1, *times, times[2] + 1):
                header = SearchOffsetRequestHeader(topic="T", queue_id=0, timestamp=wanted_ms, boundary_type=boundary)
                answer = await ask(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
                found.append(int(answer.ext["offset"]))
            assert found == expected, boundary
        header = SearchOffsetRequestHeader(topic="T", queue_id=0, timestamp=1, boundary_type="middle")
        assert (await ask(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)).code == ResponseCode.SYSTEM_ERROR

"""Consumers at one broker: registration, notices, offsets, locked queues, and the state after a restart."""

from rocketmq_compat.remoting.bodies import (
    CheckClientRequestBody,
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicStatsTable,
)
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.clients import ConsumerGroupRequestHeader, UnregisterClientRequestHeader
from rocketmq_compat.remoting.headers.offsets import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketmq_compat.remoting.headers.pulling import COMMITS_OFFSET, HAS_SUBSCRIPTION
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader, TopicRequestHeader
from tests.rocketmq_compat.broker.pairs import (
    ask,
    beat,
    collecting,
    eventually,
    memory_disk,
    pull,
    running_broker,
    send,
    serve,
)

GROUP = ConsumerGroupRequestHeader(consumer_group="g")
OFFSET = QueryConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0)


def update(offset: int) -> UpdateConsumerOffsetRequestHeader:
    return UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=offset)


def topic_header(name: str, queues: int = 3) -> CreateTopicRequestHeader:
    return CreateTopicRequestHeader(topic=name, read_queue_nums=queues, write_queue_nums=queues, perm=6)


async def until(count: int, found: list[Command]) -> None:
    await eventually(lambda: len(found) >= count)


async def test_consumers_are_told_when_one_comes_goes_or_is_lost() -> None:
    told: list[Command] = []
    async with running_broker() as broker, connected_client(broker.address, on_request=collecting(told)) as first:
        assert (await ask(first, RequestCode.GET_CONSUMER_LIST_BY_GROUP, GROUP)).code == ResponseCode.SYSTEM_ERROR
        await beat(first, "c1")
        await until(1, told)
        async with connected_client(broker.address) as second:
            await beat(second, "c2")
            await until(2, told)
            listed = await ask(first, RequestCode.GET_CONSUMER_LIST_BY_GROUP, GROUP)
            assert GetConsumerListByGroupResponseBody.decode(listed.body).consumer_id_list == ("c1", "c2")
        await until(3, told)
        async with connected_client(broker.address) as third:
            await beat(third, "c3")
            await until(4, told)
            await ask(
                third, RequestCode.UNREGISTER_CLIENT, UnregisterClientRequestHeader(client_id="c3", consumer_group="g")
            )
            await until(5, told)
        connections = await ask(first, RequestCode.GET_CONSUMER_CONNECTION_LIST, GROUP)
        found = ConsumerConnection.decode(connections.body)
        assert [each.client_id for each in found.connection_set] == ["c1"]
        assert set(found.subscription_table) == {"T"}
        assert {each.code for each in told} == {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
        assert {each.ext["consumerGroup"] for each in told} == {"g"}


async def test_a_consumer_that_wants_to_filter_by_sql_is_told_when_it_asks() -> None:
    async with serve() as (_, client):
        for kind, code in (("TAG", ResponseCode.SUCCESS), ("SQL92", ResponseCode.SYSTEM_ERROR)):
            wanted = SubscriptionData(topic="T", sub_string="a > 5", expression_type=kind)
            body = CheckClientRequestBody(client_id="c", group="g", subscription_data=wanted).encode()
            assert (await ask(client, RequestCode.CHECK_CLIENT_CONFIG, body=body)).code == code
        assert (await ask(client, RequestCode.CHECK_CLIENT_CONFIG)).code == ResponseCode.SUCCESS


async def test_a_heartbeat_creates_the_retry_topic_of_its_group() -> None:
    async with serve() as (broker, client):
        await beat(client, "c1")
        assert broker.context.topics.require("%RETRY%g").write_queue_nums == 1


async def test_offsets_are_what_was_committed_and_never_beyond_the_queue() -> None:
    async with serve() as (_, client):
        for _ in range(5):
            await send(client, b"m")
        first = await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, OFFSET)
        assert (first.code, first.ext["offset"]) == (ResponseCode.SUCCESS, "0")
        assert (await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, update(3))).code == ResponseCode.SUCCESS
        assert (await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, update(6))).code == ResponseCode.SYSTEM_ERROR
        assert (await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, OFFSET)).ext["offset"] == "3"
        await pull(client, 5, sys_flag=COMMITS_OFFSET | HAS_SUBSCRIPTION, commit_offset=5)
        assert (await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, OFFSET)).ext["offset"] == "5"
        await pull(client, 0, sys_flag=COMMITS_OFFSET | HAS_SUBSCRIPTION, commit_offset=99)
        assert (await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, OFFSET)).ext["offset"] == "5"


async def test_a_queue_is_locked_by_one_client_at_a_time() -> None:
    queue = MessageQueue(broker_name="broker-a", queue_id=0, topic="T")

    def request(client_id: str) -> bytes:
        return LockBatchRequestBody(consumer_group="g", client_id=client_id, mq_set=frozenset({queue})).encode()

    async with serve() as (_, client):
        first = await ask(client, RequestCode.LOCK_BATCH_MQ, body=request("c1"))
        assert LockBatchResponseBody.decode(first.body).lock_ok_mq_set == {queue}
        second = await ask(client, RequestCode.LOCK_BATCH_MQ, body=request("c2"))
        assert not LockBatchResponseBody.decode(second.body).lock_ok_mq_set
        await ask(client, RequestCode.UNLOCK_BATCH_MQ, body=request("c1"))
        third = await ask(client, RequestCode.LOCK_BATCH_MQ, body=request("c2"))
        assert LockBatchResponseBody.decode(third.body).lock_ok_mq_set == {queue}


async def test_a_group_that_consumes_in_order_gives_up_at_once() -> None:
    queue = MessageQueue(broker_name="broker-a", queue_id=0, topic="T")
    body = LockBatchRequestBody(consumer_group="g", client_id="c1", mq_set=frozenset({queue})).encode()
    async with serve() as (broker, client):
        await send(client, b"m", topic="%RETRY%g", reconsume_times=1)
        assert broker.context.store.queue(("%RETRY%g", 0)) == (0, 1)
        await ask(client, RequestCode.LOCK_BATCH_MQ, body=body)
        await send(client, b"m", topic="%RETRY%g", reconsume_times=1)
        assert broker.context.store.queue(("%DLQ%g", 0)) == (0, 1)


async def test_what_administrators_and_consumers_changed_is_there_after_a_restart() -> None:
    disk = memory_disk()
    async with serve(disk=disk) as (_, client):
        assert (
            await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("Made"))
        ).code == ResponseCode.SUCCESS
        group = SubscriptionGroupConfig(group_name="g", retry_max_times=3).encode()
        assert (await ask(client, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)).code == 0
        await send(client, b"m")
        await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, update(1))
    async with serve(disk=disk, secret=None) as (broker, client):
        topics = TopicConfigSerializeWrapper.decode((await ask(client, RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        assert topics.topic_config_table["Made"].write_queue_nums == 3
        assert topics.topic_config_table["T"].write_queue_nums == 4
        assert broker.context.groups.groups["g"].retry_max_times == 3
        assert (await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, OFFSET)).ext["offset"] == "1"


async def test_without_its_file_a_topic_is_known_by_its_queues() -> None:
    disk = memory_disk()
    async with serve(disk=disk) as (_, client):
        await send(client, b"m", queue_id=2)
    for path in [each for each in disk.paths() if "/config/topics" in each]:
        disk.remove(path)
    async with serve(disk=disk, secret=None) as (_, client):
        found = TopicConfig.decode(
            (await ask(client, RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader(topic="T"))).body
        )
        assert found.read_queue_nums == 3
        assert (await pull(client, 0, queue_id=2)).code == ResponseCode.SUCCESS


async def test_a_deleted_topic_is_gone_with_its_offsets() -> None:
    async with serve() as (broker, client):
        await send(client, b"m")
        await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, update(1))
        deleted = await ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic="T"))
        assert deleted.code == ResponseCode.SUCCESS
        assert (await pull(client, 0)).code == ResponseCode.TOPIC_NOT_EXIST
        assert not broker.context.offsets.snapshot().offsets
        assert (await send(client, b"again")).ext["queueOffset"] == "0"


async def test_the_statistics_of_a_topic_show_its_queues() -> None:
    async with serve() as (_, client):
        await send(client, b"m", queue_id=1)
        stats = await ask(client, RequestCode.GET_TOPIC_STATS_INFO, TopicRequestHeader(topic="T"))
        table = TopicStatsTable.decode(stats.body).offset_table
        assert {queue.queue_id: each.max_offset for queue, each in table.items()} == {0: 0, 1: 1, 2: 0, 3: 0}


async def test_settings_change_while_the_broker_runs_if_they_may() -> None:
    async with serve() as (_, client):
        changed = await ask(client, RequestCode.UPDATE_BROKER_CONFIG, body=b"autoCreateTopicEnable=false")
        assert changed.code == ResponseCode.SUCCESS
        assert (await send(client, b"m")).code == ResponseCode.TOPIC_NOT_EXIST
        refused = await ask(client, RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerRole=SLAVE")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        config = await ask(client, RequestCode.GET_BROKER_CONFIG)
        assert b"autoCreateTopicEnable=false\n" in bytes(config.body)

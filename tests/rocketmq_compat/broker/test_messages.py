"""Producers and consumers at one broker: acknowledged messages are there, once, in order, and without others."""

import random
from typing import Any

import pytest
import trio
import trio.testing

from rocketmq_compat.records import InnerMessage, encode_record, join_messages, read_message_id, read_properties
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import QueueRequestHeader, SearchOffsetRequestHeader
from rocketmq_compat.remoting.headers.pulling import (
    HAS_SUBSCRIPTION,
    SUSPENDS,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)
from rocketmq_compat.remoting.headers.sending import ConsumerSendMsgBackRequestHeader
from tests.rocketmq_compat.broker.pairs import (
    ASK_S,
    ask,
    beat,
    bodies,
    eventually,
    heads,
    memory_disk,
    pull,
    pull_until,
    running_broker,
    send,
    send_header,
    serve,
)


async def test_what_was_acknowledged_is_pulled_in_order() -> None:
    async with serve() as (_, client):
        for number in range(40):
            answer = await send(client, b"m%d" % number)
            assert answer.code == ResponseCode.SUCCESS
            assert answer.ext["queueOffset"] == str(number)
        first = await pull(client, 0)
        assert first.code == ResponseCode.SUCCESS
        assert first.ext["nextBeginOffset"] == "32"
        assert first.ext["maxOffset"] == "40"
        second = await pull(client, 32)
        assert bodies(first) + bodies(second) == [b"m%d" % number for number in range(40)]


async def test_a_message_is_found_by_its_id_and_by_its_key() -> None:
    async with serve() as (broker, client):
        answer = await send(client, b"found", properties="KEYS\1k1\2")
        host, port, physical = read_message_id(answer.ext["msgId"])
        assert (host, port) == broker.address
        viewed = await ask(client, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=physical))
        assert bodies(viewed) == [b"found"]
        query = QueryMessageRequestHeader(topic="T", key="k1", max_num=8, begin_timestamp=0, end_timestamp=2**62)
        assert bodies(await ask(client, RequestCode.QUERY_MESSAGE, query)) == [b"found"]
        missing = await ask(client, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=physical + 1))
        assert missing.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("properties", [b"", b"\xff"])
async def test_what_looks_like_a_record_inside_of_a_body_is_none(properties: bytes) -> None:
    async with serve() as (broker, client):
        _, _, first = read_message_id((await send(client, b"")).ext["msgId"])
        end = broker.context.store.log.end_offset
        inside = end + heads(await pull(client, 0))[0].body_start
        forged = bytearray(
            encode_record(
                topic="T",
                body=b"f",
                properties="",
                queue_id=0,
                born_ms=0,
                born_host=bytes(8),
                store_ms=0,
                store_host=bytes(8),
                physical_offset=inside,
            )
        )
        forged[-2:] = len(properties).to_bytes(2, "big") + properties
        forged[:4] = len(forged).to_bytes(4, "big")
        _, _, physical = read_message_id((await send(client, bytes(forged))).ext["msgId"])
        assert (first, physical) == (0, end)
        view = ViewMessageRequestHeader(offset=inside)
        assert (await ask(client, RequestCode.VIEW_MESSAGE_BY_ID, view)).code == ResponseCode.SYSTEM_ERROR
        back = ConsumerSendMsgBackRequestHeader(offset=inside, group="g", delay_level=0)
        answer = await ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "look message by offset failed" in (answer.remark or "")
        whole = ViewMessageRequestHeader(offset=physical)
        assert bodies(await ask(client, RequestCode.VIEW_MESSAGE_BY_ID, whole)) == [bytes(forged)]


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
async def test_a_batch_is_stored_as_its_messages(code: RequestCode) -> None:
    async with serve() as (_, client):
        body = join_messages(InnerMessage(0, b"b%d" % number, "TAGS\1A\2") for number in range(3))
        header = send_header(batch=True).ext_v2()
        answer = await client.ask(Command(code, ext=header, body=body), timeout_s=ASK_S)
        assert answer.code == ResponseCode.SUCCESS
        assert len(answer.ext["msgId"].split(",")) == 3
        assert bodies(await pull(client, 0)) == [b"b0", b"b1", b"b2"]


async def test_a_batch_of_ten_thousand_messages_is_answered_with_all_their_ids() -> None:
    async with serve() as (_, client):
        body = join_messages([InnerMessage(0, b"", "")] * 10_000)
        request = Command(RequestCode.SEND_BATCH_MESSAGE, ext=send_header().ext_v2(), body=body)
        answer = await client.ask(request, timeout_s=ASK_S)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert len(answer.ext["msgId"].split(",")) == 10_000


async def test_a_pull_waits_for_the_message_that_it_wants() -> None:
    async with serve() as (_, client), trio.open_nursery() as nursery:
        await send(client, b"first")
        pulled: list[Command] = []

        async def wait() -> None:
            pulled.append(await pull(client, 1, suspend_timeout_millis=20_000, subscription="B"))

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()  # so that it is sent before the messages
        await send(client, b"not wanted", properties="TAGS\1A\2")
        # A pull is held once its client's later requests are answered; it is not answered by what it does not want.
        await send(client, b"not wanted either")
        assert not pulled
        await send(client, b"wanted", properties="TAGS\1B\2")
        await eventually(lambda: bool(pulled))
        assert bodies(pulled[0]) == [b"wanted"]
        assert pulled[0].ext["nextBeginOffset"] == "4"


async def test_a_pull_that_waits_in_vain_is_answered_in_time() -> None:
    async with serve() as (_, client):
        await send(client, b"first")
        began = trio.current_time()
        pulled = await pull(client, 1, suspend_timeout_millis=100)
        assert pulled.code == ResponseCode.PULL_NOT_FOUND
        assert trio.current_time() - began >= 0.1


async def test_a_client_that_goes_leaves_no_pull_behind() -> None:
    async with serve() as (broker, client):
        await send(client, b"first")
        async with connected_client(broker.address) as other, trio.open_nursery() as nursery:
            nursery.start_soon(lambda: pull(other, 1, suspend_timeout_millis=60_000))
            await eventually(lambda: bool(broker._pulls._pulls))
            nursery.cancel_scope.cancel()
        await eventually(lambda: not broker._pulls._pulls)
        assert (await send(client, b"second")).code == ResponseCode.SUCCESS
        assert not broker._pulls._of_session


@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [
        (3, ResponseCode.PULL_NOT_FOUND, 3),
        (9, ResponseCode.PULL_OFFSET_MOVED, 3),
        (-1, ResponseCode.PULL_OFFSET_MOVED, 0),
    ],
)
async def test_an_offset_outside_of_the_queue_is_answered_as_rocketmq_does(
    offset: int, code: ResponseCode, next_offset: int
) -> None:
    async with serve() as (_, client):
        for _ in range(3):
            await send(client, b"m")
        pulled = await pull(client, offset)
        assert (pulled.code, pulled.ext["nextBeginOffset"]) == (code, str(next_offset))


async def test_tags_that_match_nothing_move_the_consumer_on() -> None:
    async with serve() as (_, client):
        await send(client, b"m", properties="TAGS\1A\2")
        pulled = await pull(client, 0, subscription="B")
        assert (pulled.code, pulled.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "no such topic"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 99}, ResponseCode.SYSTEM_ERROR),
        ({"sys_flag": SUSPENDS}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"expression_type": "SQL92", "subscription": "a > 1"}, ResponseCode.SYSTEM_ERROR),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"consumer_group": "b ad"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_a_pull_that_cannot_be_served_is_refused_with_rocketmqs_code(
    changes: dict[str, Any], code: ResponseCode
) -> None:
    async with serve() as (_, client):
        await send(client, b"m")
        assert (await pull(client, 0, **changes)).code == code
        assert (await pull(client, 0)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("changes", "body", "code"),
    [
        ({"topic": "b ad"}, b"m", ResponseCode.INVALID_PARAMETER),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, b"m", ResponseCode.NO_PERMISSION),
        ({"default_topic": "unknown"}, b"m", ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 99}, b"m", ResponseCode.SYSTEM_ERROR),
        ({"properties": "TRAN_MSG\1true\2"}, b"m", ResponseCode.NO_PERMISSION),
        ({"sys_flag": 4}, b"m", ResponseCode.NO_PERMISSION),
        ({}, b"m" * 2_000, ResponseCode.MESSAGE_ILLEGAL),
        ({"batch": True}, b"no batch", ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_a_message_that_is_refused_is_not_stored(
    changes: dict[str, Any], body: bytes, code: ResponseCode
) -> None:
    async with serve("maxMessageSize=1000") as (broker, client):
        assert (await send(client, body, **changes)).code == code
        assert broker.context.store.log.end_offset == 0
        assert (await send(client, b"m")).code == ResponseCode.SUCCESS


async def test_a_delayed_message_comes_when_it_is_due_and_survives_a_restart() -> None:
    disk = memory_disk()
    async with (
        running_broker("messageDelayLevel=1s 2s", disk=disk) as broker,
        connected_client(broker.address) as client,
    ):
        assert (await send(client, b"now")).code == ResponseCode.SUCCESS
        assert (await send(client, b"later", properties="DELAY\0011\2TAGS\1A\2")).code == ResponseCode.SUCCESS
        assert bodies(await pull(client, 0)) == [b"now"]
    async with (
        running_broker("messageDelayLevel=1s 2s", disk=disk) as broker,
        connected_client(broker.address) as client,
    ):
        pulled = await pull_until(client, 2)
        assert bodies(pulled) == [b"now", b"later"]
        properties = read_properties(heads(pulled)[1].properties)
        assert "DELAY" not in properties
        assert properties["REAL_TOPIC"] == "T"
        assert heads(pulled)[1].store_ms - heads(pulled)[0].store_ms >= 1_000
    async with (
        running_broker("messageDelayLevel=1s 2s", disk=disk) as broker,
        connected_client(broker.address) as client,
    ):
        assert len(bodies(await pull_until(client, 2))) == 2, "a delivered message does not come again"


async def test_a_message_that_is_sent_back_comes_again_and_is_a_dead_letter_in_the_end() -> None:
    async with serve("messageDelayLevel=1s 1s 1s 1s") as (_, client):
        answer = await send(client, b"m", properties="KEYS\1k\2")
        retry, dead = "%RETRY%g", "%DLQ%g"
        physical = read_message_id(answer.ext["msgId"])[2]
        properties: dict[str, str] = {}
        for tries in range(2):
            back = ConsumerSendMsgBackRequestHeader(
                offset=physical, group="g", delay_level=0, max_reconsume_times=2, origin_topic="T"
            )
            assert (await ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
            pulled = heads(await pull_until(client, tries + 1, retry))[tries]
            assert pulled.reconsume_times == tries + 1
            physical, properties = pulled.physical_offset, read_properties(pulled.properties)
        assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("T", answer.ext["msgId"])
        back = ConsumerSendMsgBackRequestHeader(offset=physical, group="g", delay_level=0, max_reconsume_times=2)
        assert (await ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
        assert bodies(await pull_until(client, 1, dead)) == [b"m"]
        unknown = ConsumerSendMsgBackRequestHeader(offset=7, group="g", delay_level=0)
        assert (await ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, unknown)).code == ResponseCode.SYSTEM_ERROR


async def test_a_queue_shows_where_it_begins_and_ends_and_what_was_stored_when() -> None:
    async with serve() as (_, client):
        for _ in range(3):
            await send(client, b"m")
        queue = QueueRequestHeader(topic="T", queue_id=0)
        assert (await ask(client, RequestCode.GET_MAX_OFFSET, queue)).ext["offset"] == "3"
        assert (await ask(client, RequestCode.GET_MIN_OFFSET, queue)).ext["offset"] == "0"
        stored_ms = int((await ask(client, RequestCode.GET_EARLIEST_MSG_STORETIME, queue)).ext["timestamp"])
        assert heads(await pull(client, 0))[0].store_ms == stored_ms
        for time_ms, offset in ((0, "0"), (stored_ms + 10_000_000, "3")):
            search = SearchOffsetRequestHeader(topic="T", queue_id=0, timestamp=time_ms)
            assert (await ask(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)).ext["offset"] == offset


async def test_a_one_way_message_is_stored_and_not_answered() -> None:
    async with serve() as (_, client):
        request = Command(RequestCode.SEND_MESSAGE_V2, ext=send_header().ext_v2(), body=b"one-way")
        await client.send_oneway(request, timeout_s=ASK_S)
        assert bodies(await pull_until(client, 1)) == [b"one-way"]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_after_a_kill_all_that_was_acknowledged_is_there(flush: str) -> None:
    disk = memory_disk()
    async with serve(f"flushDiskType={flush}", disk=disk) as (_, client):
        for number in range(5):
            assert (await send(client, b"m%d" % number)).code == ResponseCode.SUCCESS
        killed = disk.after_kill(random.Random(2))
    async with serve(disk=killed) as (_, client):
        assert bodies(await pull(client, 0)) == [b"m%d" % number for number in range(5)]


@pytest.mark.parametrize("seed", range(5))
async def test_after_a_power_cut_all_that_was_acknowledged_with_sync_flush_is_there(seed: int) -> None:
    disk = memory_disk()
    async with serve("flushDiskType=SYNC_FLUSH", disk=disk) as (_, client):
        for number in range(5):
            assert (await send(client, b"m%d" % number)).code == ResponseCode.SUCCESS
        unpowered = disk.after_crash(random.Random(seed))
    async with serve(disk=unpowered) as (_, client):
        assert bodies(await pull(client, 0)) == [b"m%d" % number for number in range(5)]


async def test_a_full_disk_refuses_messages_and_serves_those_that_it_has() -> None:
    disk = memory_disk()
    async with serve(disk=disk) as (broker, client):
        assert (await send(client, b"kept")).code == ResponseCode.SUCCESS
        disk.capacity_bytes = disk.used_bytes()
        answer = await send(client, b"m" * 100_000)
        while answer.code == ResponseCode.SUCCESS:  # into what was reserved before
            answer = await send(client, b"m" * 100_000)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "disk is full" in str(answer.remark)
        end = broker.context.store.log.end_offset
        assert (await send(client, b"m" * 100_000)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.context.store.log.end_offset == end
        assert bodies(await pull(client, 0, max_msg_nums=1)) == [b"kept"]
        disk.capacity_bytes = None
        assert (await send(client, b"room again")).code == ResponseCode.SUCCESS


async def test_messages_of_many_clients_are_all_there_once() -> None:
    async with running_broker("flushDiskType=SYNC_FLUSH") as broker, connected_client(broker.address) as client:

        async def produce(name: bytes) -> None:
            async with connected_client(broker.address) as producer:
                for number in range(20):
                    assert (await send(producer, b"%s-%d" % (name, number))).code == ResponseCode.SUCCESS

        async with trio.open_nursery() as nursery:
            for name in (b"a", b"b", b"c"):
                nursery.start_soon(produce, name)
        found = bodies(await pull(client, 0)) + bodies(await pull(client, 32))
        assert sorted(found) == sorted(b"%s-%d" % (name, number) for name in (b"a", b"b", b"c") for number in range(20))
        for name in (b"a", b"b", b"c"):
            of_one = [each for each in found if each.startswith(name)]
            assert of_one == [b"%s-%d" % (name, number) for number in range(20)]


async def test_a_pull_states_its_subscription_or_has_one_by_heartbeat() -> None:
    async with serve() as (_, client):
        await send(client, b"m")
        assert (await pull(client, 0, sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await beat(client, "c1")
        assert (await pull(client, 0, sys_flag=0, sub_version=1)).code == ResponseCode.SUCCESS
        assert (await pull(client, 0, sys_flag=0, sub_version=2)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert (await pull(client, 0, sys_flag=HAS_SUBSCRIPTION, sub_version=2)).code == ResponseCode.SUCCESS

"""Topics and name servers: a client that gets an answer after a change of a topic finds the topic there.

One change costs one topic, and the broker waits for live name servers alone.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rocketmq_compat.broker import registration
from rocketmq_compat.nameserver.server import NameServer, NameServerPlan
from rocketmq_compat.remoting.client import RemotingClient, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader
from tests.rocketmq_compat.broker.groups import broker_group
from tests.rocketmq_compat.broker.pairs import SECRET, Events, ask, beat, name_server, running_broker, send
from tests.rocketmq_compat.broker.test_consumers import topic_header

SELDOM = "registerNameServerPeriod=60000"


@asynccontextmanager
async def register(*more: str) -> AsyncIterator[tuple[NameServer, RemotingClient]]:
    """A name server and a client of a broker that registers as a whole only once."""
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address, SELDOM, *more) as broker, connected_client(broker.address) as client:
            yield names, client


def queues(names: NameServer, topic: str) -> int | None:
    route = names.table.route(topic)
    return None if route is None else route.queue_datas[0].write_queue_nums


async def test_the_route_is_there_when_a_first_message_is_acknowledged() -> None:
    async with register() as (names, client):
        for number in range(5):
            assert (await send(client, b"m", f"T{number}")).code == ResponseCode.SUCCESS
            assert queues(names, f"T{number}") == 4


async def test_the_route_is_there_and_changed_and_gone_when_an_administrator_is_answered() -> None:
    async with register() as (names, client):
        for count in (3, 5):
            answer = await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("Made", count))
            assert answer.code == ResponseCode.SUCCESS
            assert queues(names, "Made") == count
        answer = await ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic="Made"))
        assert answer.code == ResponseCode.SUCCESS
        assert queues(names, "Made") is None


async def test_the_routes_of_retry_topics_are_there_when_a_heartbeat_is_answered() -> None:
    async with register() as (names, client):
        await beat(client, "c", "g1")
        assert queues(names, "%RETRY%g1") == 1


async def test_a_new_topic_is_registered_by_itself() -> None:
    """The bytes sent to a name server for a topic do not grow with the number of topics."""
    async with register() as (names, client):
        versions = []
        for number in range(3):
            await send(client, b"m", f"T{number}")
            (broker,) = names.table._all()
            versions.append(broker.version)
        assert len(set(versions)) == 1, "the broker did not register as a whole"


async def test_a_name_server_that_is_down_or_hangs_delays_no_answer_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        async with name_server() as names:
            both = "namesrvAddr={}:{};{}:{}".format(*hangs.getsockname(), *names.address)
            async with running_broker(both, SELDOM) as broker, connected_client(broker.address) as client:
                assert (await send(client, b"m")).code == ResponseCode.SUCCESS
                assert queues(names, "T") == 4


async def test_a_name_server_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "PUBLISH_S", 0.05)
    events = Events()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        slow = "registerBrokerTimeoutMills=20000"
        async with running_broker(address, SELDOM, slow, events=events) as broker:
            handlers = dict(names._server._handlers)
            for code in (RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.REGISTER_BROKER):
                handlers[code] = lambda call: None
            names._server._handlers = handlers
            async with connected_client(broker.address) as client:
                # The first connection still has the handlers that answer.
                (server,) = broker._registration._name_servers
                assert server.client._connection is not None
                server.client._connection.close("so that the next one has the others")
                for number in range(3):
                    assert (await send(client, b"m", f"T{number}")).code == ResponseCode.SUCCESS
                assert not server.is_registered


async def test_a_name_server_that_was_away_is_told_with_the_next_topic() -> None:
    events = Events()
    async with name_server() as first:
        plan = NameServerPlan(listen=first.address, secret=SECRET)
        both = "namesrvAddr={}:{}".format(*first.address)
        async with running_broker(both, SELDOM, events=events) as broker, connected_client(broker.address) as client:
            await send(client, b"m", "Before")
            first._server.close("it goes")
            async with NameServer.open(plan, tell=Events()) as again:
                assert (await send(client, b"m", "After")).code == ResponseCode.SUCCESS
                assert queues(again, "After") == 4
                assert queues(again, "Before") == 4


@pytest.mark.parametrize("creates", [True, False])
async def test_in_a_raft_group_the_route_is_there_as_well(creates: bool) -> None:
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with broker_group(address, SELDOM) as group:
            master = await group.master()
            with trio.fail_after(10):
                await master.running.serving.wait()
            async with group.client(master) as client:
                if creates:
                    answer = await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("T", 4))
                else:
                    answer = await send(client, b"m", "T")
                assert answer.code == ResponseCode.SUCCESS
                assert queues(names, "T") == 4

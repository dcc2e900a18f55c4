"""Brokers and their name servers: each knows what there is, soon, and one that is away keeps no other waiting."""

import socket

import trio

from raft.net.reactor import Reactor
from rocketmq_compat.broker.registration import Registration
from rocketmq_compat.nameserver.server import NameServer, NameServerPlan
from rocketmq_compat.remoting.bodies import TopicRouteData
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.offsets import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from tests.rocketmq_compat.broker.pairs import (
    SECRET,
    SLAVE,
    Events,
    ask,
    bodies,
    eventually,
    name_server,
    pull_until,
    running_broker,
    send,
)


def route(names: NameServer, topic: str = "T") -> TopicRouteData | None:
    return names.table.route(topic, with_order=False)


def addresses(names: NameServer, topic: str = "T") -> dict[int, str]:
    found = route(names, topic)
    return dict(found.broker_datas[0].broker_addrs) if found is not None else {}


async def test_a_topic_that_its_first_message_creates_is_known_to_all_name_servers_at_once() -> None:
    async with name_server() as first, name_server() as second:
        both = "namesrvAddr={}:{};{}:{}".format(*first.address, *second.address)
        async with running_broker(both, "registerNameServerPeriod=60000") as broker:
            async with connected_client(broker.address) as client:
                assert (await send(client, b"m")).code == ResponseCode.SUCCESS
            for names in (first, second):
                await eventually(lambda names=names: bool(addresses(names)))  # type: ignore[misc]  # a default binds it
                assert addresses(names) == {0: "{}:{}".format(*broker.address)}


async def test_a_name_server_that_is_away_keeps_no_other_waiting_and_is_told_when_it_is_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        away = reserved.getsockname()
    events = Events()
    async with name_server() as there:
        both = "namesrvAddr={}:{};{}:{}".format(*away, *there.address)
        async with running_broker(both, events=events) as broker, connected_client(broker.address) as client:
            await eventually(lambda: bool(events.select("registration_failed")))
            await send(client, b"m")
            await eventually(lambda: bool(addresses(there)))
            async with NameServer.open(NameServerPlan(listen=away, secret=SECRET), tell=Events()) as back:
                await eventually(lambda: bool(addresses(back)))
            assert [each["name_server"] for each in events.select("registered")].count("{}:{}".format(*away)) == 1


async def test_a_broker_that_stops_is_gone_from_the_route_at_once() -> None:
    async with name_server() as names, running_broker("namesrvAddr={}:{}".format(*names.address)) as broker:
        async with connected_client(broker.address) as client:
            await send(client, b"m")
        await eventually(lambda: bool(addresses(names)))
        await broker.shut_down()
        assert not addresses(names)


async def test_when_the_master_is_gone_its_consumers_go_on_at_the_slave() -> None:
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, *SLAVE, "slaveReadEnable=true") as slave,
            connected_client(slave.address) as to_slave,
        ):
            async with running_broker(address) as master, connected_client(master.address) as client:
                for number in range(4):
                    await send(client, b"m%d" % number)
                await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, commit_header(2))
                await eventually(lambda: slave.context.store.log.end_offset == master.context.store.log.end_offset)
                await eventually(lambda: slave.context.topics.topics == master.context.topics.topics)
                await eventually(lambda: addresses(names).keys() == {0, 1})
            await eventually(lambda: addresses(names).keys() == {1})
            assert bodies(await pull_until(to_slave, 4)) == [b"m0", b"m1", b"m2", b"m3"]
            assert (
                await ask(to_slave, RequestCode.UPDATE_CONSUMER_OFFSET, commit_header(4))
            ).code == ResponseCode.SUCCESS
            offset = QueryConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0)
            assert (await ask(to_slave, RequestCode.QUERY_CONSUMER_OFFSET, offset)).ext["offset"] == "4"
            assert (await send(to_slave, b"m4")).code == ResponseCode.SERVICE_NOT_AVAILABLE


def commit_header(offset: int) -> UpdateConsumerOffsetRequestHeader:
    return UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=offset)


async def test_a_broker_without_a_name_server_serves() -> None:
    with trio.fail_after(20):
        async with running_broker() as broker, connected_client(broker.address) as client:
            assert (await send(client, b"m")).code == ResponseCode.SUCCESS


async def test_a_slave_keeps_the_master_that_one_name_server_knows_although_another_does_not() -> None:
    found: list[str | None] = []
    reactor = Reactor()
    async with name_server(secret=None) as knows, name_server(secret=None) as lacks:
        async with (
            running_broker("namesrvAddr={}:{}".format(*knows.address), secret=None) as master,
            running_broker(*SLAVE, "registerNameServerPeriod=20", secret=None) as slave,
            trio.open_nursery() as nursery,
        ):
            both = [knows.address, lacks.address]
            registration = Registration(slave.context, reactor, both, "", lambda at, ha: found.append(at))
            nursery.start_soon(reactor.run)
            nursery.start_soon(registration.run)
            await eventually(lambda: len(found) >= 10)
            registration.close()
            nursery.cancel_scope.cancel()
            address = "{}:{}".format(*master.address)
        reactor.close()
        assert set(found[found.index(address) :]) == {address}

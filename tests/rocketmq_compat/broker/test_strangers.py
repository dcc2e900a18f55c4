"""Processes of a cluster know each other: a stranger gets nothing of theirs, and a broker speaks for itself alone."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from raft.client_codec import PEER, Hello, encode_hello
from raft.net.framing import FrameDecoder, encode_frame
from raft.secret_file import credentials_of
from raft.trust import ADMIN, ANY, Secret
from rocketmq_compat.broker.broker import Broker
from rocketmq_compat.membership import ANY_CLUSTER, HA, NAME_SERVER, NAMES, REMOTING, Proof, broker_named, may_register
from rocketmq_compat.nameserver.server import NameServer
from rocketmq_compat.remoting.bodies import QueueData, RegisterBrokerBody, TopicConfigSerializeWrapper, TopicRouteData
from rocketmq_compat.remoting.client import RemotingClient, RemotingFailed, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.copying import CopyCommitLogRequestHeader
from rocketmq_compat.remoting.headers.divergence import DecideDivergenceRequestHeader
from rocketmq_compat.remoting.headers.routes import RegisterBrokerRequestHeader
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader
from rocketmq_compat.replication.ha_codec import PROOF, PROOF_REFUSED, decode, encode
from rocketmq_compat.replication.messages import Handshake, HandshakeRefused, Report, Welcome
from tests.rocketmq_compat.broker.groups import broker_group
from tests.rocketmq_compat.broker.pairs import (
    ASK_S,
    SECRET,
    SLAVE,
    WAIT_S,
    Events,
    eventually,
    name_server,
    pair,
    running_broker,
    send,
)

STRANGERS = Secret("what some other cluster shares, or a stranger guesses")
CLUSTER = "DefaultCluster"


def proof(name: str, wire: str, to: str, *, secret: Secret = SECRET, cluster: str = CLUSTER) -> Proof:
    credentials = credentials_of(secret, cluster, name)
    return lambda: credentials.dial(wire, to)


def to_names(name: str, secret: Secret = SECRET) -> Proof:
    return proof(name, NAMES, NAME_SERVER, secret=secret, cluster=ANY_CLUSTER)


# -------------------------------------------------------------------- name servers


def registration(name: str = "a", broker_id: int = 0, address: str = "127.0.0.1:6666") -> Command:
    header = RegisterBrokerRequestHeader(
        cluster_name=CLUSTER, broker_name=name, broker_addr=address, broker_id=broker_id, ha_server_addr=""
    )
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigSerializeWrapper()).encode()
    return Command(RequestCode.REGISTER_BROKER, ext=header.ext(), body=body)


def of_broker(code: RequestCode) -> Command:
    return Command(code, ext=registration("a").ext)


def topic(name: str) -> Command:
    body = TopicRouteData(queue_datas=(QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6),))
    return Command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, ext=TopicRequestHeader(topic="t").ext(), body=body.encode())


NAMES_ACTS = [
    pytest.param(registration("ghost"), id="registers a ghost"),
    pytest.param(registration("a", address="127.0.0.1:7777"), id="takes a broker's place"),
    pytest.param(of_broker(RequestCode.UNREGISTER_BROKER), id="unregisters a broker"),
    pytest.param(of_broker(RequestCode.BROKER_HEARTBEAT), id="beats for a broker"),
    pytest.param(topic("a"), id="changes a topic of a broker"),
]


@asynccontextmanager
async def names_of_a(events: Events) -> AsyncIterator[NameServer]:
    """A name server with which broker `a` is registered."""
    async with name_server(events=events) as names, connected_client(names.address, proof=to_names("a:0")) as broker:
        assert (await broker.ask(registration(), timeout_s=ASK_S)).code == ResponseCode.SUCCESS
        yield names


def addresses(names: NameServer) -> dict[str, dict[int, str]]:
    return {name: dict(data.broker_addrs) for name, data in names.table.cluster_info().broker_addr_table.items()}


@pytest.mark.parametrize("request_", NAMES_ACTS)
async def test_a_stranger_changes_no_route(request_: Command) -> None:
    async with names_of_a(Events()) as names, connected_client(names.address) as stranger:
        before = addresses(names)
        assert (await stranger.ask(request_, timeout_s=ASK_S)).code == ResponseCode.NO_PERMISSION
        assert addresses(names) == before
        assert names.table.route("t") is None


@pytest.mark.parametrize("request_", NAMES_ACTS)
async def test_a_broker_that_speaks_for_another_loses_its_connection(request_: Command) -> None:
    events = Events()
    async with names_of_a(events) as names, connected_client(names.address, proof=to_names("b:0")) as liar:
        before = addresses(names)
        with pytest.raises(RemotingFailed):
            await liar.ask(request_, timeout_s=ASK_S)
        assert addresses(names) == before
        (closed,) = events.select("connection_closed")
        assert "'b:0' speaks for broker" in closed["reason"]


async def test_a_name_server_with_another_secret_admits_no_broker() -> None:
    async with name_server() as names, connected_client(names.address, proof=to_names("a:0", STRANGERS)) as stranger:
        with pytest.raises(RemotingFailed, match="does not admit this process: Authentication failed"):
            await stranger.ask(registration(), timeout_s=ASK_S)
        assert addresses(names) == {}


async def test_a_broker_does_not_register_with_a_name_server_that_proves_nothing() -> None:
    events = Events()
    async with name_server(secret=None) as names, trio.open_nursery() as nursery:

        async def run() -> None:
            async with running_broker("namesrvAddr={}:{}".format(*names.address), events=events):
                raise AssertionError("it is served by a name server that it cannot know")

        nursery.start_soon(run)
        await eventually(lambda: bool(events.select("registration_failed")))
        assert addresses(names) == {}
        nursery.cancel_scope.cancel()


def test_a_member_of_a_raft_group_registers_with_the_id_of_its_role() -> None:
    member = broker_named("a", 2, 3)
    assert [may_register(member, "a", 0), may_register(member, "a", 3), may_register(member, "b", 0)] == [
        True,
        True,
        False,
    ]
    fixed = broker_named("a", 1, None)
    assert [may_register(fixed, "a", 1), may_register(fixed, "a", 0), may_register(fixed, "b", 1)] == [
        True,
        False,
        False,
    ]


# -------------------------------------------------------------------- the HA stream


class HaClient:
    """A side of the HA stream that sends what it likes."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._decoder = FrameDecoder(1 << 24)
        self._frames: list[Any] = []

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def frame(self) -> Any:
        """The next frame; None at the end."""
        while not self._frames:
            try:
                chunk = await self._stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self._frames += self._decoder.feed(chunk)
        return self._frames.pop(0)

    async def prove(self, name: str, secret: Secret = SECRET) -> bool:
        dialer = credentials_of(secret, CLUSTER, name).dial(HA, broker_named("broker-a", 0, None))
        message = dialer.opening
        while message:
            await self.send(encode_frame(PROOF, message))
            kind, body, _ = await self.frame()
            if kind != PROOF:
                return False
            message = dialer.step(bytes(body)).reply
        return True


@asynccontextmanager
async def ha_client(address: tuple[str, int]) -> AsyncIterator[HaClient]:
    async with await trio.open_tcp_stream(*address) as stream:
        with trio.fail_after(WAIT_S):
            yield HaClient(stream)


def handshake(slave_id: int, end: int = 0) -> bytes:
    return b"".join(map(bytes, encode(Handshake("broker-a", slave_id, False, 0, end, ()))))


REPORT = b"".join(map(bytes, encode(Report(10**6))))


@pytest.mark.parametrize("port", ["for slaves", "for clients"])
async def test_a_stranger_acknowledges_nothing_as_a_slave(port: str) -> None:
    async with running_broker("brokerName=broker-a", "brokerRole=SYNC_MASTER", "totalReplicas=2") as master:
        address = master.ha_address if port == "for slaves" else master.address
        async with ha_client(address) as stranger:
            await stranger.send(handshake(1) + REPORT)
            answer = await stranger.frame()
            assert answer is None or answer[0] == PROOF_REFUSED
            assert await stranger.frame() is None
        assert master.slaves == {}


async def test_a_wrong_proof_on_the_ha_stream_is_refused_without_a_reason() -> None:
    events = Events()
    async with running_broker("brokerName=broker-a", events=events) as master, ha_client(master.ha_address) as stranger:
        assert not await stranger.prove("broker-a:1", STRANGERS)
        assert await stranger.frame() is None
        (lost,) = events.select("ha_connection_lost")
        assert "a wrong proof" in lost["reason"]


async def test_a_slave_is_the_broker_that_it_has_proven_to_be() -> None:
    async with running_broker("brokerName=broker-a") as master:
        async with ha_client(master.ha_address) as slave:
            assert await slave.prove("broker-a:1")
            await slave.send(handshake(1))
            assert isinstance(decode(await slave.frame()), Welcome | HandshakeRefused)
        async with ha_client(master.ha_address) as liar:
            assert await liar.prove("broker-a:1")
            await liar.send(handshake(2))
            assert await liar.frame() is None
        await eventually(lambda: master.slaves == {})


async def test_a_slave_that_claims_more_than_it_was_sent_loses_its_connection_and_the_master_goes_on() -> None:
    events = Events()
    async with running_broker("brokerName=broker-a", events=events) as master, ha_client(master.ha_address) as liar:
        assert await liar.prove("broker-a:1")
        shake = b"".join(map(bytes, encode(Handshake("broker-a", 1, True, 0, 0, ()))))
        await liar.send(shake + REPORT)
        assert isinstance(decode(await liar.frame()), Welcome)
        await eventually(lambda: bool(events.select("ha_connection_closed")))
        (closed,) = events.select("ha_connection_closed")
        assert closed["reason"] == "reports 1000000, and was pushed up to 0"
        assert master.slaves == {}
        async with connected_client(master.address) as client:
            assert (await send(client, b"m")).code == ResponseCode.SUCCESS


async def test_a_slave_copies_from_no_master_that_proves_nothing() -> None:
    events = Events()
    async with running_broker("brokerName=broker-a", secret=None) as master, trio.open_nursery() as nursery:

        async def run() -> None:
            words = ("brokerName=broker-a", *SLAVE, "haMasterAddress={}:{}".format(*master.ha_address))
            async with running_broker(*words, events=events):
                await trio.sleep_forever()

        nursery.start_soon(run)
        await eventually(lambda: bool(events.select("ha_connection_lost")))
        assert master.slaves == {}
        nursery.cancel_scope.cancel()


async def test_strangers_that_open_and_say_nothing_keep_no_slave_out() -> None:
    async with running_broker("brokerName=broker-a") as master:
        flood = [await trio.open_tcp_stream(*master.ha_address) for _ in range(80)]
        async with ha_client(master.ha_address) as slave:
            assert await slave.prove("broker-a:1")
        for each in flood:
            await each.aclose()


# -------------------------------------------------------------------- requests between brokers


TABLES = (
    Command(RequestCode.GET_ALL_TOPIC_CONFIG),
    Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    Command(RequestCode.GET_TOPIC_CONFIG, ext=TopicRequestHeader(topic="T").ext()),
)
"""Slaves copy these, and tools show them."""


async def test_a_stranger_gets_no_table_and_no_log_and_decides_nothing() -> None:
    copied = CopyCommitLogRequestHeader(offset=0, end=1 << 20, epoch=1)
    decision = DecideDivergenceRequestHeader(decision="accept-loss", divergences="1@0-9")
    async with pair() as two:
        assert (await send(two.to_master, b"m")).code == ResponseCode.SUCCESS
        for request in (
            Command(RequestCode.GET_ALL_CONSUMER_OFFSET),
            Command(RequestCode.GET_ALL_DELAY_OFFSET),
            *TABLES,
            Command(RequestCode.DECIDE_DIVERGENCE, ext=decision.ext()),
        ):
            assert (await two.to_master.ask(request, timeout_s=ASK_S)).code == ResponseCode.NO_PERMISSION
    async with broker_group() as group:
        master = await group.master()
        async with group.client(master) as stranger:
            request = Command(RequestCode.COPY_COMMIT_LOG, ext=copied.ext())
            assert (await stranger.ask(request, timeout_s=ASK_S)).code == ResponseCode.NO_PERMISSION
        async with await trio.open_tcp_stream("127.0.0.1", group.ports[master.number]) as stream:
            await stream.send_all(encode_hello(Hello("broker-a", PEER, 2)))
            answer = bytearray()
            async for chunk in stream:
                answer += chunk
        assert re.search(rb"not_admitted", answer)


async def test_an_operator_is_known_by_the_secret() -> None:
    decision = Command(
        RequestCode.DECIDE_DIVERGENCE,
        ext=DecideDivergenceRequestHeader(decision="accept-loss", divergences="1@0-9").ext(),
    )
    async with running_broker() as broker:

        async def ask(client: RemotingClient) -> int:
            return (await client.ask(decision, timeout_s=ASK_S)).code

        async with connected_client(broker.address, proof=proof(ADMIN, REMOTING, ANY)) as operator:
            assert await ask(operator) == ResponseCode.SYSTEM_ERROR  # there is nothing to decide
            assert (await send(operator, b"m")).code == ResponseCode.SUCCESS
            for table in TABLES:
                assert (await operator.ask(table, timeout_s=ASK_S)).code == ResponseCode.SUCCESS
        own = name_of(broker)
        async with connected_client(broker.address, proof=proof(own, REMOTING, own)) as other:
            with pytest.raises(RemotingFailed):
                await ask(other)


def name_of(broker: Broker) -> str:
    return broker_named(broker.context.broker_name, broker.context.broker_id, broker.context.node_id)

"""Name servers and brokers in this process, and what a client asks of them."""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import trio

from log.disk import Disk
from log.memory_disk import MemoryDisk
from raft.secret_file import credentials_of
from raft.trust import ADMIN, ANY, Secret
from rocketmq_compat.broker.broker import Broker, BrokerPlan
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES, NAMESRV_PROPERTIES
from rocketmq_compat.membership import REMOTING
from rocketmq_compat.nameserver.server import NameServer, NameServerPlan
from rocketmq_compat.records import RecordHead, read_heads
from rocketmq_compat.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_compat.remoting.client import OnRequest, RemotingClient, connected_client
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.pulling import HAS_SUBSCRIPTION, SUSPENDS, PullMessageRequestHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader

ANY_PORT = ("127.0.0.1", 0)
SECRET = Secret("what-the-brokers-of-these-tests-share-and-strangers-lack")
ASK_S = 20.0
WAIT_S = 30.0
DATA = "/broker"
QUICK = ("registerNameServerPeriod=1000", "haSendHeartbeatInterval=500", "haReconnectInterval=50")


def memory_disk() -> MemoryDisk:
    return MemoryDisk(random.Random(1))


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits until it is so."""
    with trio.fail_after(WAIT_S):
        while not condition():  # noqa: ASYNC110 - brokers have no event for what they learn
            await trio.sleep(0.002)


@attrs.define
class Events:
    """Records the events of a process."""

    seen: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)

    def __call__(self, event: str, **fields: Any) -> None:
        self.seen.append((event, fields))

    def select(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.seen if event == name]


@asynccontextmanager
async def running_broker(
    *assignments: str,
    disk: Disk | None = None,
    events: Events | None = None,
    listen: tuple[str, int] = ANY_PORT,
    advertised: tuple[str, int] | None = None,
    detours: Mapping[tuple[str, int], tuple[str, int]] | None = None,
    secret: Secret | None = SECRET,
) -> AsyncIterator[Broker]:
    """A broker on an own disk in memory, unless another is given."""
    plan = BrokerPlan(
        listen=listen,
        ha_listen=ANY_PORT,
        data=DATA,
        advertised=advertised,
        detours={} if detours is None else detours,
        properties=Properties.read(BROKER_PROPERTIES, [*QUICK, *assignments]),
        secret=secret,
    )
    async with Broker.open(plan, tell=events or Events(), disk=disk or memory_disk()) as broker:
        with trio.fail_after(WAIT_S):
            await broker.serving.wait()
        yield broker


@asynccontextmanager
async def serve(*assignments: str, **more: Any) -> AsyncIterator[tuple[Broker, RemotingClient]]:
    """A broker of its own with a client."""
    async with running_broker(*assignments, **more) as broker, connected_client(broker.address) as client:
        yield broker, client


@asynccontextmanager
async def name_server(
    *assignments: str, secret: Secret | None = SECRET, events: Events | None = None
) -> AsyncIterator[NameServer]:
    """A name server."""
    properties = Properties.read(NAMESRV_PROPERTIES, assignments)
    plan = NameServerPlan(listen=ANY_PORT, secret=secret, properties=properties)
    async with NameServer.open(plan, tell=events or Events()) as server:
        yield server


def operator(address: tuple[str, int]) -> AbstractAsyncContextManager[RemotingClient]:
    """The tool of an operator, who knows the secret."""
    credentials = credentials_of(SECRET, "DefaultCluster", ADMIN)
    return connected_client(address, proof=lambda: credentials.dial(REMOTING, ANY))


@attrs.define
class Pair:
    """A master and its slave, and a client of each."""

    names: NameServer
    master: Broker
    slave: Broker
    to_master: RemotingClient
    to_slave: RemotingClient


@asynccontextmanager
async def pair(*of_master: str, of_slave: tuple[str, ...] = ()) -> AsyncIterator[Pair]:
    """A pair behind a name server, once the master has taken the slave, which has copied its tables."""
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(name_server())
        address = "namesrvAddr={}:{}".format(*names.address)
        master = await stack.enter_async_context(running_broker(address, *of_master))
        slave = await stack.enter_async_context(running_broker(address, *SLAVE, *of_slave))
        with trio.fail_after(WAIT_S):
            await slave.synced.wait()
        await eventually(lambda: bool(master.slaves))
        yield Pair(
            names,
            master,
            slave,
            await stack.enter_async_context(connected_client(master.address)),
            await stack.enter_async_context(connected_client(slave.address)),
        )


SLAVE = ("brokerRole=SLAVE", "brokerId=1")


# What clients ask


async def ask(client: RemotingClient, code: int, header: Any = None, body: bytes = b"") -> Command:
    return await client.ask(Command(code, ext={} if header is None else header.ext(), body=body), timeout_s=ASK_S)


def send_header(topic: str = "T", queue_id: int = 0, **more: Any) -> SendMessageRequestHeader:
    return SendMessageRequestHeader(
        **{
            "producer_group": "p",
            "topic": topic,
            "queue_id": queue_id,
            "sys_flag": 0,
            "born_timestamp": 1_700_000_000_000,
            "flag": 0,
            **more,
        }
    )


async def send(client: RemotingClient, body: bytes, topic: str = "T", **more: Any) -> Command:
    request = Command(RequestCode.SEND_MESSAGE_V2, ext=send_header(topic, **more).ext_v2(), body=body)
    return await client.ask(request, timeout_s=ASK_S)


async def pull(client: RemotingClient, offset: int, topic: str = "T", **more: Any) -> Command:
    header = PullMessageRequestHeader(
        **{
            "consumer_group": "g",
            "topic": topic,
            "queue_id": 0,
            "queue_offset": offset,
            "max_msg_nums": 32,
            "sys_flag": SUSPENDS | HAS_SUBSCRIPTION,
            "suspend_timeout_millis": 0,
            "subscription": "*",
            **more,
        }
    )
    return await ask(client, RequestCode.PULL_MESSAGE, header)


def bodies(pulled: Command) -> list[bytes]:
    content = bytes(pulled.body)
    return [bytes(head.body(content[start:])) for start, head in read_heads(content)]


def heads(pulled: Command) -> list[RecordHead]:
    return [head for _, head in read_heads(bytes(pulled.body))]


async def pull_until(client: RemotingClient, count: int, topic: str = "T", **more: Any) -> Command:
    """Pull from 0 until there are so many messages."""
    with trio.fail_after(WAIT_S):
        while True:
            pulled = await pull(client, 0, topic, **{"suspend_timeout_millis": 1000, **more})
            if len(bodies(pulled)) >= count:
                return pulled
            await trio.sleep(0.01)


async def beat(client: RemotingClient, client_id: str, group: str = "g", *topics: str) -> Command:
    subscriptions = tuple(SubscriptionData(topic=topic, sub_version=1) for topic in topics or ("T",))
    consumer = ConsumerData(group_name=group, subscription_data_set=subscriptions)
    return await ask(
        client, RequestCode.HEART_BEAT, body=HeartbeatData(client_id=client_id, consumer_data_set=(consumer,)).encode()
    )


def collecting(found: list[Command]) -> OnRequest:
    """Keeps what a broker asks of its client."""

    def take(request: Command) -> None:
        found.append(request)

    return take

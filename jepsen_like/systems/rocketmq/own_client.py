"""Our own client of broker groups in Trio: connections, routes, and the slots of a producer.

Each call is one attempt, as of the C++ client. It reads the route again every second and after a failure, where the C++
client waits up to 30 s. It knows what an error proves: a message for which no request left, or whose request was
refused, is certainly not stored.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import attrs
import trio

from jepsen_like.history.ops import NONE
from jepsen_like.systems.rocketmq.bodies import body_of
from jepsen_like.systems.rocketmq.client_plan import RAISED, RocketClientPlan
from jepsen_like.systems.rocketmq.clients import REFUSALS
from jepsen_like.systems.rocketmq.connection import running_reactor
from jepsen_like.systems.rocketmq.outcomes import outcome_of
from jepsen_like.workload.client_rows import SentRow
from raft.addresses import address_of
from raft.net.reactor import Reactor
from rocketmq_compat.remoting.bodies import WRITABLE, TopicRouteData
from rocketmq_compat.remoting.client import Address, OnRequest, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader, SendMessageResponseHeader

MASTER: Final = 0
ANSWERS_WITHIN_S: Final = 0.5
SEND_WITHIN_S: Final = 1.5
ROUTE_EVERY_S: Final = 1.0
BACK_OFF_S: Final = 0.1
NO_ANSWER: Final = (RemotingFailed, BadBody, BadHeader)
_STATUSES: Final[Mapping[int, int]] = {
    ResponseCode.SUCCESS: 0,
    ResponseCode.FLUSH_DISK_TIMEOUT: 1,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: 2,
    ResponseCode.SLAVE_NOT_AVAILABLE: 3,
}


class Queue(NamedTuple):
    """A queue of the run's topic."""

    broker: str
    number: int


def queues_of(route: TopicRouteData) -> tuple[Queue, ...]:
    """The queues that can be read, in the order of clients: by broker name and number."""
    counts = {each.broker_name: each.read_queue_nums for each in route.queue_datas}
    return tuple(Queue(name, number) for name in sorted(counts) for number in range(counts[name]))


def places_of(route: TopicRouteData) -> tuple[Queue, ...]:
    """The queues that a producer chooses from: the pinned, there or not; else those whose master takes messages."""
    if route.order_topic_conf:
        pins = (each.split(":") for each in route.order_topic_conf.split(";"))
        counts = {name: int(count) for name, count in pins}
    else:
        led = {each.broker_name for each in route.broker_datas if MASTER in each.broker_addrs}
        counts = {
            each.broker_name: each.write_queue_nums
            for each in route.queue_datas
            if each.broker_name in led and each.perm & WRITABLE
        }
    return tuple(Queue(name, number) for name in sorted(counts) for number in range(counts[name]))


class OwnClient:
    """One client: a connection with each broker that it needs, and the route of its topic."""

    def __init__(self, plan: RocketClientPlan, reactor: Reactor, on_request: OnRequest | None) -> None:
        self._plan = plan
        self._name_servers = deque(map(address_of, plan.names.split(";")))
        """The first is asked; one that does not answer becomes the last."""
        self._reactor = reactor
        self._on_request = on_request
        self._connections: dict[Address, RemotingClient] = {}
        self._read_at = -ROUTE_EVERY_S
        self._reading = trio.Lock()
        self.route = TopicRouteData()

    def to(self, address: Address) -> RemotingClient:
        """The connection with a broker."""
        if address not in self._connections:
            self._connections[address] = RemotingClient(self._reactor, address, on_request=self._on_request)
        return self._connections[address]

    def close(self) -> None:
        """End all connections at once."""
        for each in self._connections.values():
            each.close()

    def forget(self) -> None:
        """The route may have changed."""
        self._read_at = -ROUTE_EVERY_S

    async def read_route(self) -> TopicRouteData:
        """The route, asked for again when it is old; the last one while no name server answers."""
        async with self._reading:
            if trio.current_time() - self._read_at >= ROUTE_EVERY_S:
                self._read_at = trio.current_time()
                header = GetRouteInfoRequestHeader(topic=self._plan.topic)
                request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=header.ext())
                for _ in tuple(self._name_servers):
                    with suppress(*NO_ANSWER):
                        answer = await self.to(self._name_servers[0]).ask(request, timeout_s=ANSWERS_WITHIN_S)
                        if answer.code == ResponseCode.SUCCESS:
                            self.route = TopicRouteData.decode(answer.body)
                        break
                    self._name_servers.rotate(-1)
            return self.route

    def brokers(self, name: str) -> Mapping[int, RemotingClient]:
        """Connections with the brokers of a name, by id; the master is first if there is one."""
        found = next((each.broker_addrs for each in self.route.broker_datas if each.broker_name == name), {})
        return {number: self.to(address_of(found[number])) for number in sorted(found)}


@asynccontextmanager
async def own_client(plan: RocketClientPlan, *, on_request: OnRequest | None = None) -> AsyncIterator[OwnClient]:
    """A client with a loop of its own; its connections end with the block."""
    async with running_reactor() as reactor:
        client = OwnClient(plan, reactor, on_request)
        try:
            yield client
        finally:
            client.close()


# -------------------------------------------------------------------- producers


@attrs.define
class Rate:
    """The times at which the messages of a producer's slots are due."""

    per_second: float
    stopping: trio.Event
    _started: float = attrs.field(factory=trio.current_time)
    _tickets: int = 0

    async def next(self) -> int | None:
        """Waits until the next message is due. Returns how late it is in µs, -1 in a closed loop; None to stop."""
        if not self.per_second:
            return None if self.stopping.is_set() else -1
        due = self._started + self._tickets / self.per_second
        self._tickets += 1
        with trio.move_on_at(due):
            await self.stopping.wait()
        return None if self.stopping.is_set() else max(0, round((trio.current_time() - due) * 1e6))


async def produce(
    plan: RocketClientPlan, stopping: trio.Event, objects: Mapping[Queue, int], tell: Callable[[SentRow], None]
) -> None:
    """Send until told to stop: each slot the messages of one key, the next one when the last call has ended."""
    async with own_client(plan) as client, trio.open_nursery() as nursery:
        rate = Rate(plan.rate, stopping)
        for slot in range(plan.slots):
            nursery.start_soon(_send_key, client, plan, slot, rate, objects, tell)


async def _send_key(
    client: OwnClient,
    plan: RocketClientPlan,
    slot: int,
    rate: Rate,
    objects: Mapping[Queue, int],
    tell: Callable[[SentRow], None],
) -> None:
    key, count = plan.first_key + slot, 0
    while (late_us := await rate.next()) is not None:
        places = places_of(await client.read_route())
        if not places:
            client.forget()
            await trio.sleep(BACK_OFF_S)
            continue
        count += 1
        value, queue = count * plan.keys + key, places[key % len(places)]
        t_inv = time.monotonic_ns()
        status, is_sent, offset = await _send(client, plan, queue, value)
        obj = objects[queue] if is_sent else plan.object_of_slot(slot)
        ended = outcome_of(status, is_sent=is_sent)
        tell(SentRow(slot, value, obj, t_inv, time.monotonic_ns(), *ended, offset, late_us))
        if status == RAISED:
            client.forget()
            await trio.sleep(BACK_OFF_S)


async def _send(client: OwnClient, plan: RocketClientPlan, queue: Queue, value: int) -> tuple[int, bool, int]:
    """Returns the status, whether the message may be stored, and its offset."""
    nothing_sent, unknown = (RAISED, False, NONE), (RAISED, True, NONE)
    master = client.brokers(queue.broker).get(MASTER)
    if master is None:
        return nothing_sent
    header = SendMessageRequestHeader(
        producer_group=f"producers-{plan.seed}",
        topic=plan.topic,
        queue_id=queue.number,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        properties="",
    )
    request = Command(RequestCode.SEND_MESSAGE_V2, ext=header.ext_v2(), body=body_of(value, plan.record_bytes))
    try:
        answer = await master.ask(request, timeout_s=SEND_WITHIN_S)
        if answer.code in REFUSALS:
            return nothing_sent
        if answer.code not in _STATUSES:
            return unknown
        stored = SendMessageResponseHeader.read(answer.ext)
        return _STATUSES[answer.code], True, stored.queue_offset
    except RemotingFailed as failed:
        return nothing_sent if failed.definite else unknown
    except BadHeader:
        return unknown


def number_queues(scopes: Sequence[str], queues: int) -> dict[Queue, int]:
    """The object of every queue: those of the first broker name come first."""
    return {
        Queue(name, number): place * queues + number for place, name in enumerate(scopes) for number in range(queues)
    }

"""A member of a consumer group by our own client: it divides the queues with the others, and consumes each of its own
one message at a time.

It looks about every second, and when a broker notifies it that members have come or gone: route, heartbeat, members,
division, locks, positions. A position is told for what the member was given, never before. A queue that goes to another
member is left between two messages; an orderly member tells its position then and gives the lock up. So no two members
have a message of one queue at once while a broker keeps its locks.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from jepsen_like.systems.rocketmq.bodies import value_of
from jepsen_like.systems.rocketmq.client_plan import RocketClientPlan
from jepsen_like.systems.rocketmq.own_client import (
    ANSWERS_WITHIN_S,
    BACK_OFF_S,
    MASTER,
    NO_ANSWER,
    OwnClient,
    Queue,
    own_client,
    queues_of,
)
from jepsen_like.workload.client_rows import GivenRow
from rocketmq_compat.records import MalformedRecord, RecordHead, read_heads
from rocketmq_compat.remoting.bodies import (
    ConsumeFromWhere,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    SubscriptionData,
)
from rocketmq_compat.remoting.client import RemotingClient
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.clients import ConsumerGroupRequestHeader, UnregisterClientRequestHeader
from rocketmq_compat.remoting.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketmq_compat.remoting.headers.pulling import (
    HAS_SUBSCRIPTION,
    SUSPENDS,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)

LOOKS_EVERY_S: Final = 1.0
SUSPENDS_S: Final = 2.0
PULL_WITHIN_S: Final = SUSPENDS_S + 1.0
MESSAGES_OF_A_PULL: Final = 32
LOCKED_FOR_S: Final = 30.0
"""So long after it was renewed a lock is relied on: brokers keep it for 60 s."""


def allocate(queues: Sequence[Queue], members: Iterable[str], member: str) -> Sequence[Queue]:
    """The queues of a member: an even share in order, one more for the first (AllocateMessageQueueAveragely)."""
    ids = sorted({*members})
    if member not in ids:
        return ()
    index = ids.index(member)
    size, more = divmod(len(queues), len(ids))
    start = index * size + min(index, more)
    return queues[start : start + size + (index < more)]


def start_of(answer: Command) -> int | None:
    """Returns where a member begins: the group's position, or 0 in a queue without one; None if not answered."""
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return 0
    return OffsetResponseHeader.read(answer.ext).offset if answer.code == ResponseCode.SUCCESS else None


@attrs.define(eq=False)
class Held:
    """A queue that a member has; `position`: the next message it will be given, None until it knows."""

    queue: Queue
    locked_until: float
    position: int | None = None
    told: int | None = None
    reads_at: int = MASTER
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)


class OwnMember:
    """One consumer."""

    def __init__(
        self, plan: RocketClientPlan, client_id: str, objects: Mapping[Queue, int], tell: Callable[[GivenRow], None]
    ) -> None:
        self._plan = plan
        self._id = client_id
        self._objects = objects
        self._tell = tell
        self._held: dict[Queue, Held] = {}
        self._news = trio.Event()
        self._client: OwnClient

    async def stay(self, leaving: trio.Event) -> None:
        """Consume until told to leave: a concurrent member as in a crash, between messages, an orderly one in order."""
        async with own_client(self._plan, on_request=self._on_request) as self._client, trio.open_nursery() as nursery:
            async with trio.open_nursery() as looking:
                looking.start_soon(self._look_about, nursery)
                await leaving.wait()
                looking.cancel_scope.cancel()
            if self._plan.is_orderly:
                await self._give_up(tuple(self._held))
                await self._unlock(
                    queues_of(self._client.route)
                )  # an answer to its last request for locks may be missing
                await self._unregister()
            nursery.cancel_scope.cancel()

    def _on_request(self, request: Command) -> None:
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._news.set()

    async def _look_about(self, nursery: trio.Nursery) -> None:
        while True:
            self._news = trio.Event()
            mine = await self._division()
            if mine is not None:
                await self._give_up([queue for queue in self._held if queue not in mine])
                for queue, until in (await self._lock(mine)).items():
                    if queue in self._held:
                        self._held[queue].locked_until = until
                    else:
                        held = self._held[queue] = Held(queue, until)
                        nursery.start_soon(self._consume, held)
            await self._tell_positions(self._held.values())
            with trio.move_on_after(LOOKS_EVERY_S):
                await self._news.wait()

    # ---------------------------------------------------------------- the group

    async def _division(self) -> Sequence[Queue] | None:
        """The queues that are this member's; None, to keep what it has, if no broker tells who is there."""
        self._client.forget()
        route = await self._client.read_route()
        queues = queues_of(route)
        brokers = [self._client.brokers(name) for name in sorted({queue.broker for queue in queues})]
        answered: dict[RemotingClient, tuple[str, ...]] = {}
        async with trio.open_nursery() as nursery:
            for broker in (each for of_name in brokers for each in of_name.values()):
                nursery.start_soon(self._beat, broker, answered)
        ids = next((answered[each] for of_name in brokers for each in of_name.values() if answered.get(each)), None)
        return None if ids is None else allocate(queues, ids, self._id)

    async def _beat(self, broker: RemotingClient, answered: dict[RemotingClient, tuple[str, ...]]) -> None:
        consumer = ConsumerData(
            group_name=self._plan.group_name,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            subscription_data_set=(SubscriptionData(topic=self._plan.topic),),
        )
        beat = HeartbeatData(client_id=self._id, consumer_data_set=(consumer,)).encode()
        group = ConsumerGroupRequestHeader(consumer_group=self._plan.group_name).ext()
        with suppress(*NO_ANSWER):
            await broker.ask(Command(RequestCode.HEART_BEAT, body=beat), timeout_s=ANSWERS_WITHIN_S)
            answer = await broker.ask(
                Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext=group), timeout_s=ANSWERS_WITHIN_S
            )
            if answer.code == ResponseCode.SUCCESS:
                answered[broker] = GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list

    async def _lock(self, mine: Sequence[Queue]) -> dict[Queue, float]:
        """The queues that may be consumed, and until when; an orderly member gives up those locked by another."""
        if not self._plan.is_orderly:
            return dict.fromkeys(mine, float("inf"))
        found: dict[Queue, float] = {}
        for name in sorted({queue.broker for queue in mine}):
            wanted = [queue for queue in mine if queue.broker == name]
            asked_at = trio.current_time()
            body = await self._ask_locks(RequestCode.LOCK_BATCH_MQ, wanted)
            if body is None:
                continue
            try:
                locked = LockBatchResponseBody.decode(body).lock_ok_mq_set
            except BadBody:
                continue  # as without an answer
            has = {Queue(each.broker_name, each.queue_id) for each in locked} & {*wanted}
            found |= dict.fromkeys(has, asked_at + LOCKED_FOR_S)
            await self._give_up([queue for queue in wanted if queue in self._held and queue not in has])
        return found

    async def _ask_locks(self, code: RequestCode, queues: Sequence[Queue]) -> bytes | None:
        """Asks the master of these queues of one broker name; None if it does not answer."""
        master = self._client.brokers(queues[0].broker).get(MASTER)
        if master is None:
            return None
        topic = self._plan.topic
        wanted = (MessageQueue(broker_name=one.broker, queue_id=one.number, topic=topic) for one in queues)
        body = LockBatchRequestBody(consumer_group=self._plan.group_name, client_id=self._id, mq_set=frozenset(wanted))
        with suppress(*NO_ANSWER):
            answer = await master.ask(Command(code, body=body.encode()), timeout_s=ANSWERS_WITHIN_S)
            return bytes(answer.body) if answer.code == ResponseCode.SUCCESS else None
        return None

    async def _give_up(self, queues: Sequence[Queue]) -> None:
        """Leave queues: after the message under way their positions are reported, then their locks are given up."""
        given_up = [self._held.pop(queue) for queue in queues]
        for held in given_up:
            held.scope.cancel()
        with trio.CancelScope(shield=True):  # what was begun is ended, also when the member is told to leave
            for held in given_up:
                await held.ended.wait()
            await self._tell_positions(given_up)
            if self._plan.is_orderly:
                await self._unlock([held.queue for held in given_up])

    async def _unlock(self, queues: Sequence[Queue]) -> None:
        for name in sorted({queue.broker for queue in queues}):
            await self._ask_locks(RequestCode.UNLOCK_BATCH_MQ, [queue for queue in queues if queue.broker == name])

    async def _unregister(self) -> None:
        header = UnregisterClientRequestHeader(client_id=self._id, consumer_group=self._plan.group_name)
        for name in sorted({each.broker_name for each in self._client.route.broker_datas}):
            for broker in self._client.brokers(name).values():
                with suppress(*NO_ANSWER):
                    request = Command(RequestCode.UNREGISTER_CLIENT, ext=header.ext())
                    await broker.ask(request, timeout_s=ANSWERS_WITHIN_S)

    # ---------------------------------------------------------------- messages

    async def _consume(self, held: Held) -> None:
        try:
            with held.scope:
                while held.position is None:
                    held.position = await self._start(held)
                while True:
                    for head, body in await self._pull(held):
                        await trio.lowlevel.checkpoint()
                        if trio.current_time() >= held.locked_until:
                            break
                        with trio.CancelScope(shield=True):
                            await self._take(held, head, body)
        finally:
            held.ended.set()

    async def _take(self, held: Held, head: RecordHead, body: bytes) -> None:
        t_inv = time.monotonic_ns()
        value, is_whole = value_of(body)
        if self._plan.holds_ms:
            await trio.sleep(self._plan.holds_ms / 1e3)
        self._tell(GivenRow(value, is_whole, self._objects[held.queue], head.queue_offset, t_inv, time.monotonic_ns()))
        held.position = head.queue_offset + 1

    async def _start(self, held: Held) -> int | None:
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._plan.group_name,
            topic=self._plan.topic,
            queue_id=held.queue.number,
            set_zero_if_not_found=False,
        )
        request = Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=header.ext())
        for broker in self._client.brokers(held.queue.broker).values():
            with suppress(*NO_ANSWER):
                start = start_of(await broker.ask(request, timeout_s=ANSWERS_WITHIN_S))
                if start is not None:
                    return start
            break  # a slave is asked where there is no master, not for one that is slow
        await trio.sleep(BACK_OFF_S)
        return None

    async def _pull(self, held: Held) -> Sequence[tuple[RecordHead, bytes]]:
        """The next messages, waited for; none after a while, or a failure."""
        brokers = self._client.brokers(held.queue.broker)
        broker = brokers.get(held.reads_at) or next(iter(brokers.values()), None)
        if broker is None or trio.current_time() >= held.locked_until:
            await trio.sleep(BACK_OFF_S)
            return ()
        assert held.position is not None
        header = PullMessageRequestHeader(
            consumer_group=self._plan.group_name,
            topic=self._plan.topic,
            queue_id=held.queue.number,
            queue_offset=held.position,
            max_msg_nums=MESSAGES_OF_A_PULL,
            sys_flag=SUSPENDS | HAS_SUBSCRIPTION,
            suspend_timeout_millis=round(SUSPENDS_S * 1e3),
            subscription="*",
        )
        try:
            answer = await broker.ask(Command(RequestCode.PULL_MESSAGE, ext=header.ext()), timeout_s=PULL_WITHIN_S)
            if answer.code == ResponseCode.SUCCESS:
                held.reads_at = PullMessageResponseHeader.read(answer.ext).suggest_which_broker_id
                body = bytes(answer.body)
                return [(head, bytes(head.body(body[at : at + head.size]))) for at, head in read_heads(body)]
            if answer.code == ResponseCode.PULL_OFFSET_MOVED:
                held.position = PullMessageResponseHeader.read(answer.ext).next_begin_offset
                return ()
            if answer.code == ResponseCode.PULL_NOT_FOUND:
                return ()
        except (*NO_ANSWER, MalformedRecord):
            pass
        held.reads_at = MASTER
        await trio.sleep(BACK_OFF_S)
        return ()

    async def _tell_positions(self, several: Iterable[Held]) -> None:
        """One-way, to the master, or to a slave where there is none."""
        for held in tuple(several):
            broker = next(iter(self._client.brokers(held.queue.broker).values()), None)
            if held.position is None or broker is None:
                continue
            header = UpdateConsumerOffsetRequestHeader(
                consumer_group=self._plan.group_name,
                topic=self._plan.topic,
                queue_id=held.queue.number,
                commit_offset=held.position,
            )
            with suppress(*NO_ANSWER):
                request = Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=header.ext())
                await broker.send_oneway(request, timeout_s=ANSWERS_WITHIN_S)

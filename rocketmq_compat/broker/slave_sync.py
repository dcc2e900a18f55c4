"""Copies the tables of a master to its slave: topics, groups, consumer offsets and delay offsets, every 10 s.

The log does not contain them, so after a failover they may be that old, as in RocketMQ (`SlaveSynchronize`). Only
topics are copied at once, each by itself, when a message appears in a new one. Otherwise a slave that became the master
would hide its messages. Delay offsets are taken over once this copy of the log holds all deliveries that they count.
Otherwise a slave that became the master would skip undelivered messages.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import trio

from raft.net.certificates import Certificates
from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.tables import offset_snapshot
from rocketmq_compat.membership import Proof
from rocketmq_compat.remoting.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketmq_compat.remoting.client import Address, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import DelayOffsetsResponseHeader
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader
from rocketmq_compat.remoting.json_body import JsonBody

WrapperT = TypeVar("WrapperT", bound=JsonBody)

SYNC_EVERY_S: Final = 10.0
AGAIN_AFTER_S: Final = 0.1
"""The least time between two copies, however many topics are new."""
RETRY_S: Final = 1.0
ASK_TIMEOUT_S: Final = 5.0


class SlaveSync:
    """Copies the tables of the master."""

    def __init__(
        self,
        context: Context,
        reactor: Reactor,
        delays: DelayedMessages,
        proof: Proof | None = None,
        tls: Certificates | None = None,
    ) -> None:
        """`proof` is how master and slave know each other."""
        self._proof = proof
        self._context = context
        self._reactor = reactor
        self._delays = delays
        self._tls = tls
        self._client: RemotingClient | None = None
        self._address: Address | None = None
        self._is_wanted = trio.Event()
        self._is_stale = True
        """True if all tables are to be copied."""
        self._missing: dict[str, None] = {}
        """Topics of messages that are here, which the tables lack."""
        self._delay_offsets: tuple[int, Mapping[int, int]] | None = None
        """The delay offsets that wait for the log to reach this offset."""
        self.synced = trio.Event()
        """Set when all was copied once."""
        self.on_synced: Callable[[], None] = lambda: None
        """Called whenever all was copied."""

    def set_master(self, address: Address | None) -> None:
        """Set the address at which the master serves clients; None while it is unknown."""
        if address != self._address:
            self._address = address
            self._is_stale = True
            self._is_wanted.set()

    def on_arrived(self, topics: Iterable[str]) -> None:
        """Messages of these topics are there."""
        self._take_delay_offsets()
        known = self._context.topics.topics
        missing = [topic for topic in topics if topic not in known]
        if missing:
            self._missing.update(dict.fromkeys(missing))
            self._is_wanted.set()

    async def run(self) -> None:
        """Copy until cancelled."""
        failed, due = "", 0.0
        while True:
            self._is_wanted = trio.Event()
            is_whole, self._is_stale = self._is_stale, False
            reason = await self._sync() if is_whole else await self._learn_topics()
            if reason is None:
                due = trio.current_time() + SYNC_EVERY_S if is_whole else due
                self.synced.set()
                await trio.sleep(AGAIN_AFTER_S)
            elif reason != failed:
                self._context.tell("slave_sync_failed", reason=reason)
            failed = reason or ""
            # A slave without its master's tables could not take its place, so the first copy is tried often.
            retry_s = RETRY_S if self.synced.is_set() else AGAIN_AFTER_S
            with trio.move_on_at(due) if reason is None else trio.move_on_after(retry_s):
                await self._is_wanted.wait()
            self._is_stale |= reason is not None or trio.current_time() >= due

    async def _learn_topics(self) -> str | None:
        """Returns None, or why not all topics of messages that are here were copied."""
        names, self._missing = list(self._missing), {}
        client, context = self._connect(), self._context
        if client is None:
            return "the master is not known"
        try:
            for name in names:
                ext = TopicRequestHeader(topic=name).ext()
                answer = await client.ask(Command(RequestCode.GET_TOPIC_CONFIG, ext=ext), timeout_s=ASK_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    context.topics.learn(TopicConfig.decode(answer.body))
                else:
                    self._is_stale = True  # it is gone there, or the master is too old for this request
        except (RemotingFailed, BadBody) as error:
            return str(error)
        return None

    def _connect(self) -> RemotingClient | None:
        if self._address is None:
            return None
        if self._client is None or self._client.address != self._address:
            self.close()
            self._client = RemotingClient(self._reactor, self._address, proof=self._proof, tls=self._tls)
        return self._client

    async def _sync(self) -> str | None:
        """Returns None, or why not all was copied."""
        client, context = self._connect(), self._context
        if client is None:
            return "the master is not known"
        self._missing.clear()
        try:
            topics = await self._ask(client, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigSerializeWrapper)
            groups = await self._ask(client, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupWrapper)
            offsets = await self._ask(client, RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetSerializeWrapper)
            answer = await self._answer(client, RequestCode.GET_ALL_DELAY_OFFSET)
            delays = DelayOffsetSerializeWrapper.decode(answer.body)
            log_end = DelayOffsetsResponseHeader.read(answer.ext).log_end
            snapshot = offset_snapshot(offsets)
        except (RemotingFailed, BadBody, BadHeader) as error:
            return str(error)
        context.topics.follow(topics.data_version, topics.topic_config_table)
        context.groups.load(groups.data_version, groups.subscription_group_table)
        context.offsets.follow(snapshot)
        self._delay_offsets = log_end or 0, delays.offset_table
        self._take_delay_offsets()
        self.on_synced()
        self._reactor.request_round()
        return None

    def _take_delay_offsets(self) -> None:
        if self._delay_offsets is not None and self._context.store.derived.dispatched >= self._delay_offsets[0]:
            self._delays.follow(self._delay_offsets[1])
            self._delay_offsets = None

    async def _ask(self, client: RemotingClient, code: RequestCode, wrapper: type[WrapperT]) -> WrapperT:
        return wrapper.decode((await self._answer(client, code)).body)

    @staticmethod
    async def _answer(client: RemotingClient, code: RequestCode) -> Command:
        answer = await client.ask(Command(code), timeout_s=ASK_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RemotingFailed(f"code {answer.code}: {answer.remark}", definite=True)
        return answer

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

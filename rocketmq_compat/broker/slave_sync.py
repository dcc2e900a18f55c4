"""What a slave copies from its master besides the commit log: topics, groups, consumer offsets and delay offsets, each 10 s.

They are not in the log, so after a failover they may be as old as that, as in RocketMQ (`SlaveSynchronize`). Only topics are copied as soon
as there is a message in one that is new: else a slave that became the master would hide what it holds.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

import trio

from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import BrokerContext
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.tables import offset_snapshot
from rocketmq_compat.remoting.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)
from rocketmq_compat.remoting.client import Address, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.json_body import JsonBody

WrapperT = TypeVar("WrapperT", bound=JsonBody)

SYNC_EVERY_S: Final = 10.0
AGAIN_AFTER_S: Final = 0.1
"""The least time between two copies, however many topics are new."""
RETRY_S: Final = 1.0
ASK_TIMEOUT_S: Final = 5.0


class SlaveSync:
    """Copies the tables of the master."""

    def __init__(self, context: BrokerContext, reactor: Reactor, delays: DelayedMessages) -> None:
        self._context = context
        self._reactor = reactor
        self._delays = delays
        self._client: RemotingClient | None = None
        self._address: Address | None = None
        self._is_wanted = trio.Event()
        self.synced = trio.Event()
        """Set when all was copied once."""

    def set_master(self, address: Address | None) -> None:
        """Where the master serves clients; None while it is not known."""
        if address != self._address:
            self._address = address
            self._is_wanted.set()

    def arrived(self, topics: Iterable[str]) -> None:
        """Messages of these topics are there."""
        if not self._context.topics.topics.keys() >= set(topics):
            self._is_wanted.set()

    async def run(self) -> None:
        """Copy until cancelled."""
        failed = ""
        while True:
            self._is_wanted = trio.Event()
            reason = await self._sync()
            if reason is None:
                self.synced.set()
                await trio.sleep(AGAIN_AFTER_S)
            elif reason != failed:
                self._context.tell("slave_sync_failed", reason=reason)
            failed = reason or ""
            with trio.move_on_after(SYNC_EVERY_S if reason is None else RETRY_S):
                await self._is_wanted.wait()

    async def _sync(self) -> str | None:
        """Returns None, or why not all was copied."""
        if self._address is None:
            return "the master is not known"
        if self._client is None or self._client.address != self._address:
            self.close()
            self._client = RemotingClient(self._reactor, self._address)
        context = self._context
        try:
            topics = await self._ask(self._client, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigSerializeWrapper)
            groups = await self._ask(
                self._client, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupWrapper
            )
            offsets = await self._ask(self._client, RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetSerializeWrapper)
            delays = await self._ask(self._client, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetSerializeWrapper)
            snapshot = offset_snapshot(offsets)
        except (RemotingFailed, BadBody) as error:
            return str(error)
        context.topics.follow(topics.data_version, topics.topic_config_table)
        context.groups.load(groups.data_version, groups.subscription_group_table)
        context.offsets.follow(snapshot)
        self._delays.follow(delays.offset_table)
        self._reactor.request_round()
        return None

    @staticmethod
    async def _ask(client: RemotingClient, code: RequestCode, wrapper: type[WrapperT]) -> WrapperT:
        answer = await client.ask(Command(code), timeout_s=ASK_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RemotingFailed(f"code {answer.code}: {answer.remark}", definite=True)
        return wrapper.decode(answer.body)

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

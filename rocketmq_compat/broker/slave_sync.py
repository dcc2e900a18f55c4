"""What a slave copies from its master besides the commit log: topics, groups, consumer offsets and delay offsets, each 10 s.

They are not in the log, so after a failover they may be as old as that, as in RocketMQ (`SlaveSynchronize`).
"""

from typing import Final, TypeVar

import trio

from raft.addresses import address_of, is_address
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
from rocketmq_compat.remoting.client import RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.json_body import JsonBody

WrapperT = TypeVar("WrapperT", bound=JsonBody)

SYNC_EVERY_S: Final = 10.0
RETRY_S: Final = 1.0
ASK_TIMEOUT_S: Final = 5.0


class SlaveSync:
    """Copies the tables of the master."""

    def __init__(self, context: BrokerContext, reactor: Reactor, delays: DelayedMessages) -> None:
        self._context = context
        self._reactor = reactor
        self._delays = delays
        self._client: RemotingClient | None = None
        self._address: str | None = None
        self._master_changed = trio.Event()
        self.synced = trio.Event()
        """Set when all was copied once."""

    def set_master(self, address: str | None) -> None:
        """Where the master serves clients, HOST:PORT; None while it is not known."""
        if address != self._address and (address is None or is_address(address)):
            self._address = address
            self._master_changed.set()

    async def run(self) -> None:
        """Copy until cancelled."""
        failed = ""
        while True:
            self._master_changed = trio.Event()
            reason = await self._sync()
            if reason is None:
                self.synced.set()
            elif reason != failed:
                self._context.tell("slave_sync_failed", reason=reason)
            failed = reason or ""
            with trio.move_on_after(SYNC_EVERY_S if reason is None else RETRY_S):
                await self._master_changed.wait()

    async def _sync(self) -> str | None:
        """Returns None, or why not all was copied."""
        if self._address is None:
            return "the master is not known"
        address = address_of(self._address)
        if self._client is None or self._client.address != address:
            self.close()
            self._client = RemotingClient(self._reactor, address)
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

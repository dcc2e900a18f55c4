"""The broker's side of the name servers: registers with every one, again and again, and at once when a topic
or its role has changed.

A name server that cannot be reached is tried again with the next registration; the others are not kept waiting. A slave learns from their
answers where its master is.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import trio

from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import BrokerContext
from rocketmq_compat.broker.tables import topic_wrapper
from rocketmq_compat.remoting.bodies import RegisterBrokerBody
from rocketmq_compat.remoting.client import Address, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.routes import RegisterBrokerRequestHeader, RegisterBrokerResponseHeader

RETRY_S: Final = 1.0
"""After a registration that failed."""
UNREGISTER_TIMEOUT_S: Final = 1.0

OnMaster = Callable[[str | None, str | None], None]
"""Takes the address of the master for clients, and that for slaves; None while there is no master."""


class Registration:
    """All name servers of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        reactor: Reactor,
        name_servers: Sequence[Address],
        ha_address: str,
        on_master: OnMaster,
    ) -> None:
        """`ha_address` is where slaves reach this broker."""
        self._context = context
        self._clients = [RemotingClient(reactor, address) for address in name_servers]
        self._ha_address = ha_address
        self._on_master = on_master
        self._changed = [trio.Event() for _ in self._clients]
        self._registered_as: object = context.topics.version, context.broker_id
        self.registered = trio.Event()
        """Set when one name server knows this broker; at once without name servers."""
        if not self._clients:
            self.registered.set()

    def tick(self) -> None:
        """Once a round: register again if the topics or the role have changed."""
        registers_as = self._context.topics.version, self._context.broker_id
        if self._registered_as != registers_as:
            self._registered_as = registers_as
            for each in self._changed:
                each.set()

    async def run(self) -> None:
        """Register until cancelled."""
        async with trio.open_nursery() as nursery:
            for number, client in enumerate(self._clients):
                nursery.start_soon(self._keep_registered, number, client)

    async def _keep_registered(self, number: int, client: RemotingClient) -> None:
        period_s = self._context.properties.seconds("registerNameServerPeriod")
        was_registered: bool | None = None
        while True:
            self._changed[number] = trio.Event()
            reason = await self._register(client)
            if was_registered != (reason is None):
                was_registered = reason is None
                address = "{}:{}".format(*client.address)
                if reason is None:
                    self._context.tell("registered", name_server=address)
                else:
                    self._context.tell("registration_failed", name_server=address, reason=reason)
            with trio.move_on_after(period_s if reason is None else min(RETRY_S, period_s)):
                await self._changed[number].wait()

    async def _register(self, client: RemotingClient) -> str | None:
        """Returns None, or why the name server does not know this broker."""
        body = RegisterBrokerBody(topic_config_serialize_wrapper=topic_wrapper(self._context.topics)).encode()
        request = Command(RequestCode.REGISTER_BROKER, ext=self._header().ext(), body=body)
        try:
            answer = await client.ask(request, timeout_s=self._context.properties.seconds("registerBrokerTimeoutMills"))
            if answer.code != ResponseCode.SUCCESS:
                return answer.remark or f"code {answer.code}"
            found = RegisterBrokerResponseHeader.read(answer.ext)
        except (RemotingFailed, BadHeader) as error:
            return str(error)
        self._on_master(found.master_addr or None, found.ha_server_addr or None)
        self.registered.set()
        return None

    async def unregister(self) -> None:
        """Tell the name servers that this broker stops, so that clients ask others at once. Failures are ignored: its connections end."""
        request = Command(RequestCode.UNREGISTER_BROKER, ext=self._header().ext())
        with trio.move_on_after(UNREGISTER_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for client in self._clients:
                    nursery.start_soon(_ask_in_vain, client, request)

    def close(self) -> None:
        """End all connections."""
        for client in self._clients:
            client.close()

    def _header(self) -> RegisterBrokerRequestHeader:
        context = self._context
        return RegisterBrokerRequestHeader(
            cluster_name=context.cluster,
            broker_name=context.broker_name,
            broker_addr=context.address,
            broker_id=context.broker_id,
            ha_server_addr=self._ha_address,
        )


async def _ask_in_vain(client: RemotingClient, request: Command) -> None:
    with contextlib.suppress(RemotingFailed):
        await client.ask(request, timeout_s=UNREGISTER_TIMEOUT_S)

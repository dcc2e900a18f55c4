"""The broker's side of the name servers: it registers with every one, at intervals.

It also registers at once when its role, or its topics as a whole, have changed. A single changed topic is published by
itself (REGISTER_TOPIC_IN_NAMESRV), so that it costs the same for any number of topics.

An unreachable name server is tried again with the next registration; the others do not wait for it. A slave learns from
their answers the address of its master.

A client that gets an answer after a change of a topic finds the topic at every name server that this broker is
registered with (`when_known`). The answer waits for theirs, at most `PUBLISH_S`. It waits only for name servers that
answered the last time, as with RocketMQ's brokers; others learn the topic with the next registration.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from raft.net.certificates import Certificates
from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.tables import topic_wrapper
from rocketmq_compat.membership import Proof
from rocketmq_compat.remoting.bodies import QueueData, RegisterBrokerBody, TopicRouteData
from rocketmq_compat.remoting.client import Address, RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.routes import RegisterBrokerRequestHeader, RegisterBrokerResponseHeader
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader

RETRY_S: Final = 1.0
"""After a registration that failed."""
UNREGISTER_TIMEOUT_S: Final = 1.0
PUBLISH_S: Final = 2.0
"""The time that an answer waits for name servers: clients give a request up after three seconds."""
PUBLISHED_AT_ONCE: Final = 64
"""Topics that are on their way to one name server."""

OnMaster = Callable[[str | None, str | None], None]
"""Takes the address of the master for clients, and the one for slaves; both are None without a master."""


@attrs.define(eq=False)
class _NameServer:
    """One name server, as this broker knows it."""

    client: RemotingClient
    is_registered: bool = False
    """True if it answered the last request."""
    master: tuple[str | None, str | None] = (None, None)
    """The addresses of the master in its last answer."""
    changed: trio.Event = attrs.field(factory=trio.Event)
    """Set when it is to be registered with at once."""
    queued: trio.Event = attrs.field(factory=trio.Event)
    topics: dict[str, None] = attrs.field(factory=dict)
    """The changed topics that it has not received."""


@attrs.define(eq=False)
class _Publication:
    """A topic that has changed: the number of missing answers, and the callbacks that wait for them."""

    pending: int = 0
    waiting: list[Callable[[], None]] = attrs.field(factory=list)


class Registration:
    """All name servers of one broker."""

    def __init__(
        self,
        context: Context,
        reactor: Reactor,
        name_servers: Sequence[Address],
        ha_address: str,
        on_master: OnMaster,
        proof: Proof | None = None,
        tls: Certificates | None = None,
    ) -> None:
        """`ha_address` is where slaves reach this broker; `proof` is how name servers know it."""
        self._context = context
        self._reactor = reactor
        self._name_servers = [
            _NameServer(RemotingClient(reactor, address, proof=proof, tls=tls)) for address in name_servers
        ]
        self._ha_address = ha_address
        self._on_master = on_master
        self._changes = context.topics.watch()
        self._changes.take()
        self._publications: dict[str, _Publication] = {}
        self._registered_as = context.broker_id
        context.when_known = self.when_known
        self.registered = trio.Event()
        """Set when one name server knows this broker; at once without name servers."""
        if not self._name_servers:
            self.registered.set()

    # ---------------------------------------------------------------- topics that change

    def when_known(self, topic: str, done: Callable[[], None]) -> None:
        """Calls `done` when the name servers know this topic's state or the wait ends; at once for an unchanged one."""
        publication = self._publications.get(topic)
        if (
            publication is None
            and topic in self._changes.keys
            and any(each.is_registered for each in self._name_servers)
        ):
            publication = self._publications[topic] = _Publication()
        if publication is None:
            done()
        else:
            publication.waiting.append(done)

    def tick(self) -> None:
        """Once a round: register again if the role or the topics as a whole have changed, and publish single topics."""
        if self._changes.is_empty and self._registered_as == self._context.broker_id:
            return
        names = self._changes.take()
        has_news = names is None and not self._context.is_slave  # name servers take topics of masters alone
        if has_news or self._registered_as != self._context.broker_id:
            self._registered_as = self._context.broker_id
            for name_server in self._name_servers:
                name_server.changed.set()
        for name in names or ():
            self._publish(name)
        for name in [name for name, each in self._publications.items() if not each.pending]:
            self._settle(name)

    def _publish(self, name: str) -> None:
        if self._context.is_slave:
            return
        for name_server in self._name_servers:
            if name_server.is_registered and name not in name_server.topics:
                name_server.topics[name] = None
                name_server.queued.set()
                self._publications.setdefault(name, _Publication()).pending += 1

    def _on_published(self, name: str) -> None:
        publication = self._publications[name]
        publication.pending -= 1
        if not publication.pending:
            self._settle(name)

    def _settle(self, name: str) -> None:
        for done in self._publications.pop(name).waiting:
            done()

    # ---------------------------------------------------------------- the work

    async def run(self) -> None:
        """Register until cancelled."""
        async with trio.open_nursery() as nursery:
            for name_server in self._name_servers:
                nursery.start_soon(self._keep_registered, name_server)
                nursery.start_soon(self._keep_published, name_server)

    async def _keep_registered(self, name_server: _NameServer) -> None:
        period_s = self._context.properties.seconds("registerNameServerPeriod")
        was_registered: bool | None = None
        while True:
            name_server.changed = trio.Event()
            reason = await self._register(name_server)
            if was_registered != (reason is None):
                was_registered = reason is None
                address = "{}:{}".format(*name_server.client.address)
                if reason is None:
                    self._context.tell("registered", name_server=address)
                else:
                    self._context.tell("registration_failed", name_server=address, reason=reason)
            with trio.move_on_after(period_s if reason is None else min(RETRY_S, period_s)):
                await name_server.changed.wait()

    async def _register(self, name_server: _NameServer) -> str | None:
        """Returns None, or why the name server does not know this broker."""
        body = RegisterBrokerBody(topic_config_serialize_wrapper=topic_wrapper(self._context.topics)).encode()
        request = Command(RequestCode.REGISTER_BROKER, ext=self._header().ext(), body=body)
        timeout_s = self._context.properties.seconds("registerBrokerTimeoutMills")
        try:
            answer = await name_server.client.ask(request, timeout_s=timeout_s)
            if answer.code != ResponseCode.SUCCESS:
                raise RemotingFailed(answer.remark or f"code {answer.code}", definite=True)
            found = RegisterBrokerResponseHeader.read(answer.ext)
        except (RemotingFailed, BadHeader) as error:
            name_server.is_registered = False
            return error.reason if isinstance(error, RemotingFailed) else str(error)
        name_server.is_registered = True
        name_server.master = found.master_addr or None, found.ha_server_addr or None
        self._on_master(*self._master_known_to(name_server))
        self.registered.set()
        return None

    def _master_known_to(self, name_server: _NameServer) -> tuple[str | None, str | None]:
        """Returns the master in this answer; one without a master hides none that another name server knows."""
        known = (each.master for each in (name_server, *self._name_servers) if each.is_registered)
        return next((master for master in known if master[0] is not None), (None, None))

    async def _keep_published(self, name_server: _NameServer) -> None:
        while True:
            await name_server.queued.wait()
            names = list(name_server.topics)[:PUBLISHED_AT_ONCE]
            for name in names:
                del name_server.topics[name]
            if not name_server.topics:
                name_server.queued = trio.Event()
            try:
                with trio.move_on_after(PUBLISH_S) as scope:
                    await self._make_known(name_server, names)
                if scope.cancelled_caught:
                    name_server.is_registered = False
                    name_server.changed.set()
            finally:
                for name in names:
                    self._on_published(name)
                self._reactor.request_round()

    async def _make_known(self, name_server: _NameServer, names: Iterable[str]) -> None:
        """Send single topics; if the name server refuses one, send all topics of this broker."""
        refused: list[str] = []
        if name_server.client.is_connected:
            async with trio.open_nursery() as nursery:
                for name in names:
                    nursery.start_soon(self._send_topic, name_server, name, refused)
        else:
            refused += names  # it has removed this broker when the connection ended
        if refused:
            await self._register(name_server)

    async def _send_topic(self, name_server: _NameServer, name: str, refused: list[str]) -> None:
        topic, broker_name = self._context.topics.get(name), self._context.broker_name
        # A topic that is gone has no queues here.
        queues = QueueData(broker_name=broker_name, read_queue_nums=0, write_queue_nums=0, perm=0)
        if topic is not None:
            queues = QueueData(
                broker_name=broker_name,
                read_queue_nums=topic.read_queue_nums,
                write_queue_nums=topic.write_queue_nums,
                perm=topic.perm,
                topic_sys_flag=topic.topic_sys_flag,
            )
        ext = TopicRequestHeader(topic=name).ext()
        body = TopicRouteData(queue_datas=(queues,)).encode()
        request = Command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, ext=ext, body=body)
        try:
            answer = await name_server.client.ask(request, timeout_s=PUBLISH_S)
        except RemotingFailed:
            refused.append(name)
        else:
            if answer.code != ResponseCode.SUCCESS:
                refused.append(name)

    async def unregister(self) -> None:
        """Announce the stop to the name servers, so that clients use others at once.

        Failures are ignored: its connections end anyway.
        """
        request = Command(RequestCode.UNREGISTER_BROKER, ext=self._header().ext())
        with trio.move_on_after(UNREGISTER_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for name_server in self._name_servers:
                    nursery.start_soon(partial(_ask_in_vain, name_server.client, request))

    def close(self) -> None:
        """End all connections."""
        for name_server in self._name_servers:
            name_server.client.close()

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

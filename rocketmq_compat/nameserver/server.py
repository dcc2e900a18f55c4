"""The shell of a name server, around the decider in `routes`: requests in, answers out.

Each request is answered within its round. If there is a file for it, an administrator's value is on disk before the
answer; a disk that fails ends the name server. Brokers register with each name server.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import attrs
import trio

from log.disk import Disk, RealDisk
from log.errors import NoSpace
from raft.addresses import is_address, is_loopback
from raft.metrics import Figure, loop_figures
from raft.net.listener import ListenerLimits, bind
from raft.net.reactor import Reactor
from raft.net.running_clock import RunningClock
from raft.notices import warn_of_long_turns
from raft.secret_file import credentials_of
from raft.trust import SecretSource
from rocketmq_compat.config import InvalidProperty, Properties, assignments_of
from rocketmq_compat.config_keys import NAMESRV_PROPERTIES
from rocketmq_compat.membership import ANY_CLUSTER, NAME_SERVER, NAMES, Membership
from rocketmq_compat.nameserver.events import (
    BrokerAppeared,
    BrokerBeat,
    BrokerConnectionLost,
    BrokerIdentity,
    BrokerRegistered,
    BrokerRemoved,
    BrokerUnregistered,
    CloseBrokerConnection,
    DataVersionCompared,
    DataVersionQuery,
    KvChanged,
    KvDeletion,
    KvPut,
    KvRefused,
    NamesrvEffect,
    NamesrvEvent,
    RegistrationAccepted,
    RegistrationRefused,
    RegistrationTimePassed,
    TopicDeletion,
    TopicRegistered,
    TopicsChanged,
    WritePermChange,
)
from rocketmq_compat.nameserver.kv_file import KvFile
from rocketmq_compat.nameserver.metrics import table_figures
from rocketmq_compat.nameserver.routes import ORDER_TOPIC_CONFIG, RouteTable
from rocketmq_compat.records import body_crc
from rocketmq_compat.remoting.bodies import (
    DataVersion,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
)
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadHeader
from rocketmq_compat.remoting.headers.routes import (
    AddWritePermResponseHeader,
    BrokerMemberGroupRequestHeader,
    BrokerNameRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    KvConfigRequestHeader,
    NamesrvTopicRequestHeader,
    PutKvConfigRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    WipeWritePermResponseHeader,
)
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader
from rocketmq_compat.remoting.server import MEMBER_PLACES, RemotingServer, Tell, budget_of
from rocketmq_compat.remoting.session import Handler, RemotingCall, RemotingSession
from rocketmq_compat.tls import Tls, tls_of

CONNECTIONS_MAX: Final = 16_384
GREETING_TIMEOUT_S: Final = 30.0
NAME_SERVER_STOPS: Final = "the name server stops"

Address = tuple[str, int]


@attrs.frozen(kw_only=True)
class NameServerPlan:
    """One name server: its address and its properties."""

    listen: Address
    properties: Properties = attrs.field(factory=lambda: Properties.read(NAMESRV_PROPERTIES))
    secret: SecretSource | None = None
    """The secret by which it knows brokers. Without it, all that register are believed."""
    insecure: bool = False
    """True if it may listen beyond loopback without a secret."""


class NameServer:
    """One name server, opened by `open`."""

    def __init__(
        self, plan: NameServerPlan, *, reactor: Reactor, listening: Any, tell: Tell, kv_file: KvFile | None, tls: Tls
    ) -> None:
        """Use `open`."""
        self._properties = plan.properties
        self._reactor = reactor
        self._clock = RunningClock(trio.lowlevel.current_clock().current_time)
        self._tell = tell
        self._kv_file = kv_file
        self.table = RouteTable({} if kv_file is None else kv_file.read())
        """The table of the decider. Callers only read it."""
        credentials = credentials_of(plan.secret, ANY_CLUSTER, NAME_SERVER) if plan.secret else None
        self._membership = Membership(credentials, NAMES, self._clock)
        self._sessions: dict[int, RemotingSession] = {}
        """Those by which brokers have registered."""
        idle_s = plan.properties.number("serverChannelMaxIdleTimeSeconds")
        self._server = RemotingServer(
            reactor,
            listening,
            self._handlers(),
            limits=ListenerLimits(
                connections_max=CONNECTIONS_MAX,
                member_places=MEMBER_PLACES,
                greeting_timeout_s=GREETING_TIMEOUT_S,
                idle_timeout_s=float(idle_s),
            ),
            tell=tell,
            on_closed=self._connection_closed,
            tls=tls,
        )

    def figures(self) -> list[Figure]:
        """See `Observed`: those of the loop and of the table."""
        return [*loop_figures(self._reactor), *table_figures(self.table)]

    def obstacle(self) -> str | None:
        """See `Observed`: it serves as long as it runs."""
        return None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, plan: NameServerPlan, *, tell: Tell, disk: Disk | None = None, owns_thread: bool = False
    ) -> AsyncIterator["NameServer"]:
        """Serve until the end of the block.

        `tell` receives the events `listening`, `broker_registered`, `broker_removed`, `connection_closed` and
        `connection_refused`. Raises `ValueError` without a secret beyond loopback, unless it is `insecure`, `OSError`
        if the port cannot be bound, `DamagedKvFile`, and the disk's `StorageError`; also out of the block.
        """
        if plan.secret is None and not plan.insecure and not is_loopback(plan.listen):
            raise ValueError(
                f"{plan.listen[0]} can be reached from outside: give the name server the `secret` of its brokers"
            )
        path = plan.properties.text("kvConfigPath")
        kv_file = None if path is None else KvFile(disk or RealDisk(), path)
        tls = tls_of(plan.properties)
        reactor = Reactor(owns_thread=owns_thread, limits=budget_of(plan.properties))
        warn_of_long_turns(reactor.turns, tell)
        try:
            with bind(*plan.listen) as listening:
                server = cls(plan, reactor=reactor, listening=listening, tell=tell, kv_file=kv_file, tls=tls)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(reactor.run)
                    nursery.start_soon(server._server.run)
                    nursery.start_soon(server._scan)
                    tell("listening", address="{}:{}".format(*server.address))
                    try:
                        yield server
                    finally:
                        server._sessions.clear()  # no broker is gone because this process ends
                        server._server.close(NAME_SERVER_STOPS)
                        nursery.cancel_scope.cancel()
        finally:
            reactor.close()

    @property
    def address(self) -> Address:
        """The address on which it listens."""
        return self._server.address

    # ---------------------------------------------------------------- events and effects

    def _step(self, event: NamesrvEvent) -> list[NamesrvEffect]:
        effects = self.table.step(self._clock(), event)
        for effect in effects:
            match effect:
                case BrokerAppeared(broker):
                    self._tell("broker_registered", **attrs.asdict(broker))
                case BrokerRemoved(broker, reason):
                    self._tell("broker_removed", **attrs.asdict(broker), reason=reason)
                case CloseBrokerConnection(connection, reason):
                    session = self._sessions.get(connection) if isinstance(connection, int) else None
                    if session is not None:
                        session.connection.close(reason)
                case KvChanged(namespace, key, value):
                    self._keep(namespace, key, value)
                case _:
                    pass  # an answer, which the handler sends
        return effects

    def _keep(self, namespace: str, key: str, value: str | None) -> None:
        """Keep a change.

        Raises `NoSpace` if there is no room for it; the file is shortened another time if there is no room for that.
        """
        if self._kv_file is not None and self._kv_file.change(namespace, key, value):
            with suppress(NoSpace):
                self._kv_file.write(self.table.all_values())

    def _connection_closed(self, session: RemotingSession) -> None:
        if self._sessions.pop(id(session), None) is not None:
            self._step(BrokerConnectionLost(id(session)))

    async def _scan(self) -> None:
        while True:
            self._clock.pulse_s = self._properties.seconds("scanNotActiveBrokerInterval")
            await trio.sleep(self._clock.pulse_s)
            self._step(RegistrationTimePassed())

    def _key(self, call: RemotingCall) -> int:
        """Returns the decider's key of the connection, and arranges to report its end."""
        self._sessions[id(call.session)] = call.session
        return id(call.session)

    # ---------------------------------------------------------------- requests

    def _handlers(self) -> Mapping[int, Handler]:
        of_brokers: Mapping[int, Handler] = {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
        }
        return {
            **{code: self._membership.for_members(handler) for code, handler in of_brokers.items()},
            RequestCode.PROVE_MEMBERSHIP: self._membership.prove,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topic_list,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write_perm,
            RequestCode.PUT_KV_CONFIG: self._put_value,
            RequestCode.GET_KV_CONFIG: self._get_value,
            RequestCode.DELETE_KV_CONFIG: self._delete_value,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._values,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
        }

    def _register(self, call: RemotingCall) -> None:
        header, broker = self._broker(call)
        if header.compressed:
            raise BadHeader("a compressed registration is not understood; set compressedRegister=false", "compressed")
        body = call.request.body
        if header.body_crc32 and len(body) and header.body_crc32 != body_crc(body):
            raise BadHeader("it is not that of the body", "bodyCrc32")
        topics = _topics_of(call)
        expires_ms = header.heartbeat_timeout_millis or self._properties.number("brokerChannelExpiredTime")
        event = BrokerRegistered(self._key(call), broker, header.ha_server_addr, topics, expires_ms / 1000)
        match self._step(event)[-1]:
            case RegistrationAccepted(master_address, ha_address):
                pinned = self._properties.flag("returnOrderTopicConfigToBroker")
                values = self.table.values(ORDER_TOPIC_CONFIG) if pinned else {}
                answer = RegisterBrokerResponseHeader(master_addr=master_address, ha_server_addr=ha_address)
                call.answer(header=answer, body=KVTable(table=values).encode())
            case RegistrationRefused(reason):
                call.refuse(ResponseCode.SYSTEM_ERROR, reason)
            case other:
                raise AssertionError(f"a registration ends with its answer, not with {other}")

    def _register_topic(self, call: RemotingCall) -> None:
        topic = TopicRequestHeader.read(call.request.ext).topic
        queues = TopicRouteData.decode(call.request.body).queue_datas
        for each in queues:
            self._membership.require(call, each.broker_name or "")
        match self._step(TopicRegistered(topic, queues)):
            case [RegistrationRefused(reason)]:
                call.refuse(ResponseCode.SYSTEM_ERROR, reason)
            case _:
                call.answer()

    def _unregister(self, call: RemotingCall) -> None:
        self._step(BrokerUnregistered(self._broker(call)[1]))
        call.answer()

    def _heartbeat(self, call: RemotingCall) -> None:
        self._step(BrokerBeat(self._key(call), self._broker(call)[1]))
        call.answer()

    def _query_data_version(self, call: RemotingCall) -> None:
        version = DataVersion.decode(call.request.body)
        (compared,) = self._step(DataVersionQuery(self._key(call), self._broker(call)[1], version))
        assert isinstance(compared, DataVersionCompared), "a query has one answer"
        call.answer(header=QueryDataVersionResponseHeader(changed=compared.is_changed))

    def _broker(self, call: RemotingCall) -> tuple[RegisterBrokerRequestHeader, BrokerIdentity]:
        """Returns the fields of a request about a broker.

        Raises `BadHeader` also for an address that clients could not connect to, and `WireError` for a broker that has
        proven to be another one.
        """
        header = RegisterBrokerRequestHeader.read(call.request.ext)
        self._membership.require(call, header.broker_name, header.broker_id)
        if not is_address(header.broker_addr):
            raise BadHeader(f"{header.broker_addr[:60]!r} is not of the form HOST:PORT", "brokerAddr")
        return header, BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)

    def _route(self, call: RemotingCall) -> None:
        topic = GetRouteInfoRequestHeader.read(call.request.ext).topic
        route = self.table.route(topic, with_order=self._properties.flag("orderMessageEnable"))
        if route is None:
            call.refuse(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic[:255]}"
            )
        else:
            call.answer(body=route.encode())

    def _cluster_info(self, call: RemotingCall) -> None:
        call.answer(body=self.table.cluster_info().encode())

    def _member_group(self, call: RemotingCall) -> None:
        header = BrokerMemberGroupRequestHeader.read(call.request.ext)
        group = self.table.member_group(header.cluster_name, header.broker_name)
        call.answer(body=GetBrokerMemberGroupResponseBody(broker_member_group=group).encode())

    def _topic_list(self, call: RemotingCall) -> None:
        call.answer(body=TopicList(topic_list=tuple(self.table.topics())).encode())

    def _topics_of_cluster(self, call: RemotingCall) -> None:
        cluster = GetTopicsByClusterRequestHeader.read(call.request.ext).cluster
        call.answer(body=TopicList(topic_list=tuple(self.table.topics(cluster))).encode())

    def _system_topics(self, call: RemotingCall) -> None:
        """Answer with a topic for each cluster and each broker name, as brokers create them.

        One broker can be asked for the rest.
        """
        info = self.table.cluster_info()
        addresses = [
            data.broker_addrs[broker] for data in info.broker_addr_table.values() for broker in data.broker_addrs
        ]
        names = (*info.cluster_addr_table, *info.broker_addr_table)
        call.answer(body=TopicList(topic_list=names, broker_addr=addresses[0] if addresses else None).encode())

    def _delete_topic(self, call: RemotingCall) -> None:
        header = NamesrvTopicRequestHeader.read(call.request.ext)
        self._step(TopicDeletion(header.topic, header.cluster_name))
        call.answer()

    def _wipe_write_perm(self, call: RemotingCall) -> None:
        call.answer(header=WipeWritePermResponseHeader(wipe_topic_count=self._change_perm(call, is_writable=False)))

    def _add_write_perm(self, call: RemotingCall) -> None:
        call.answer(header=AddWritePermResponseHeader(add_topic_count=self._change_perm(call, is_writable=True)))

    def _change_perm(self, call: RemotingCall, *, is_writable: bool) -> int:
        name = BrokerNameRequestHeader.read(call.request.ext).broker_name
        (changed,) = self._step(WritePermChange(name, is_writable))
        assert isinstance(changed, TopicsChanged), "a change has one answer"
        return changed.count

    def _put_value(self, call: RemotingCall) -> None:
        header = PutKvConfigRequestHeader.read(call.request.ext)
        self._store(call, KvPut(header.namespace, header.key, header.value))

    def _get_value(self, call: RemotingCall) -> None:
        header = KvConfigRequestHeader.read(call.request.ext)
        value = self.table.value(header.namespace, header.key)
        if value is None:
            call.refuse(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}"
            )
        else:
            call.answer(header=GetKvConfigResponseHeader(value=value))

    def _delete_value(self, call: RemotingCall) -> None:
        header = KvConfigRequestHeader.read(call.request.ext)
        self._store(call, KvDeletion(header.namespace, header.key))

    def _store(self, call: RemotingCall, event: KvPut | KvDeletion) -> None:
        before = self.table.value(event.namespace, event.key)
        try:
            effects = self._step(event)
        except NoSpace as error:  # the file is as it was, and so is the table again
            undone = (
                KvDeletion(event.namespace, event.key) if before is None else KvPut(event.namespace, event.key, before)
            )
            self.table.step(self._clock(), undone)
            call.refuse(ResponseCode.SYSTEM_ERROR, str(error))
        else:
            match effects:
                case [KvRefused(reason)]:
                    call.refuse(ResponseCode.SYSTEM_ERROR, reason)
                case _:
                    call.answer()

    def _values(self, call: RemotingCall) -> None:
        namespace = GetKvListRequestHeader.read(call.request.ext).namespace
        values = self.table.values(namespace)
        if not values:
            call.refuse(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        else:
            call.answer(body=KVTable(table=values).encode())

    def _get_config(self, call: RemotingCall) -> None:
        call.answer(body=self._properties.file_text().encode())

    def _update_config(self, call: RemotingCall) -> None:
        try:
            assignments = assignments_of(bytes(call.request.body).decode(errors="replace"))
            self._properties = self._properties.with_assignments(assignments, running=True)
        except InvalidProperty as error:
            call.refuse(ResponseCode.SYSTEM_ERROR, str(error))
        else:
            call.answer()


def _topics_of(call: RemotingCall) -> TopicConfigSerializeWrapper | None:
    body = call.request.body
    return RegisterBrokerBody.decode(body).topic_config_serialize_wrapper if len(body) else None

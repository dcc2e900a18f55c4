"""The ports of a broker: one for each listener, and the connections on them.

The first is that of the brokers: it alone serves what brokers ask of each other, and the raft group of the controllers
has it, too (`raft.net.sharing`).
"""

import contextlib
import math
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

from kafka_compat.broker.authentication import refusal_of
from kafka_compat.broker.caller import Caller
from kafka_compat.broker.calls import Requests
from kafka_compat.broker.parts import BrokerParts
from kafka_compat.broker.reporter import Tell
from kafka_compat.config import InvalidSetting, Settings
from kafka_compat.config_keys import INT_MAX
from kafka_compat.listeners import Address, ListenerPlan
from kafka_compat.model import Endpoint
from kafka_compat.protocol.registry import BROKER_APIS
from raft.net.budget import BudgetLimits
from raft.net.certificates import Certificates
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer, Decoder
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.memory import default_total_bytes
from raft.net.reactor import Reactor
from raft.net.sharing import UndecidedDecoder, is_native
from raft.net.tls_socket import StreamSocket

GREETING_TIMEOUT_S: Final = 30.0
"""A connection whose first request has not come by then is closed."""
MEMBER_PLACES: Final = 64
"""Connections beyond `max.connections` for brokers and controllers, and for those that may turn out to be some."""
OUTBOUND_BYTES_MAX: Final = 4 * 1024 * 1024
"""The bound of answers that wait for a client; above it, the broker stops reading the client's requests."""
BROKER_STOPS: Final = "the broker stops"

TakeOver = Callable[[SocketConnection[Any]], Decoder[Any]]


class BoundPorts:
    """The sockets of all listeners, bound and not served yet; that of the brokers is first."""

    def __init__(self, plans: Sequence[ListenerPlan], tls: Certificates | None, stack: contextlib.ExitStack) -> None:
        """Bind them; `stack` closes them. Raises `OSError`."""
        self.tls = tls
        self.bound = [(plan, stack.enter_context(bind(*plan.listen))) for plan in plans]

    @property
    def peers_tls(self) -> Certificates | None:
        """The certificates with which brokers reach each other; None for plain text."""
        return self.tls if self.bound[0][0].protocol.has_tls else None

    @property
    def address(self) -> Address:
        """The address at which other brokers reach this one."""
        return _address_of(*self.bound[0])

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses for clients by listener, if there are several."""
        if len(self.bound) == 1:
            return ()
        return tuple(Endpoint(plan.name, *_address_of(plan, socket_)) for plan, socket_ in self.bound)


class Ports:
    """All listeners of a broker, served by its parts."""

    def __init__(self, reactor: Reactor, ports: BoundPorts, parts: BrokerParts, settings: Settings, tell: Tell) -> None:
        self.take_over: TakeOver | None = None
        """Takes connections of the native wire, once the raft group is open."""
        self.peers_tls = ports.peers_tls
        """See `BoundPorts`."""
        self._reactor = reactor
        self._parts = parts
        self._request_bytes_max = settings.number("socket.request.max.bytes")
        self._limits = _limits(settings)
        self._tell = tell
        self._for_clients = {key: handler for key, handler in parts.handlers.items() if key not in BROKER_APIS}
        self._listeners = {plan.name: self._listen(plan, bound, ports.tls) for plan, bound in ports.bound}
        self.first: Listener[Any] = self._listeners[ports.bound[0][0].name]
        """The one by which brokers reach each other."""

    def _listen(self, plan: ListenerPlan, bound: socket.socket, tls: Certificates | None) -> Listener[Any]:
        return Listener(
            self._reactor,
            bound,
            lambda accepted, name: self._open_connection(plan, accepted, name),
            limits=self._limits,
            on_refused=lambda name, reason: self._tell("connection_refused", peer=name, reason=reason),
            tls=tls if plan.protocol.has_tls else None,
        )

    def address_of(self, listener: str) -> Address:
        """Returns the address on which a listener listens. Raises `KeyError` for one that is not there."""
        return self._listeners[listener].address

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that close connections whose time is up."""
        for listener in self._listeners.values():
            nursery.start_soon(listener.run)

    def close(self) -> None:
        """Stop listening and close every connection. A second call is harmless."""
        for listener in self._listeners.values():
            listener.close(BROKER_STOPS)

    # ---------------------------------------------------------------- connections

    def _open_connection(self, plan: ListenerPlan, accepted: StreamSocket, name: str) -> SocketConnection[Any]:
        parts, listener = self._parts, self._listeners[plan.name]
        caller = Caller(plan.name, plan.mechanisms)
        requests = Requests(
            parts.handlers if listener is self.first else self._for_clients,
            parts.gate,
            lambda connection, reason: self._on_closed(listener, connection, caller, reason),
            listener.on_greeted,
            caller,
            lambda caller, api_key: refusal_of(caller, api_key, parts.context.clock()),
        )
        session = requests.session

        def decide(first: Buffer) -> Decoder[Any]:
            if is_native(first) and self.take_over is not None and listener is self.first:
                return self.take_over(session.connection)
            session.connection.decoder = BodyDecoder(self._request_bytes_max)
            return session.connection.decoder

        session.connection = SocketConnection(
            self._reactor, accepted, UndecidedDecoder(decide), session, outbound_bytes_max=OUTBOUND_BYTES_MAX, name=name
        )
        return session.connection

    def _on_closed(
        self, listener: Listener[Any], connection: SocketConnection[Any], caller: Caller, reason: str
    ) -> None:
        listener.forget(connection)
        self._parts.gate.forget(connection)
        self._parts.fetches.connection_closed(connection)
        self._parts.node.connection_closed(connection)
        if reason not in (CLOSED_BY_OTHER_SIDE, BROKER_STOPS):
            identity = caller.identity
            named = {"principal": identity.principal} if identity is not None and identity.principal is not None else {}
            self._tell("connection_closed", peer=connection.name, reason=reason, **named)


def _address_of(plan: ListenerPlan, bound: socket.socket) -> Address:
    """Returns the address at which clients of a listener reach this broker."""
    host, port = bound.getsockname()[:2]
    return plan.advertised or (host, port)


def _limits(settings: Settings) -> ListenerLimits:
    idle_ms = settings.number("connections.max.idle.ms")
    return ListenerLimits(
        connections_max=min(settings.number("max.connections"), 100_000) + MEMBER_PLACES,
        member_places=MEMBER_PLACES,
        greeting_timeout_s=GREETING_TIMEOUT_S,
        idle_timeout_s=None if idle_ms < 0 else max(idle_ms, 1) / 1000,
    )


def budget_of(settings: Settings) -> BudgetLimits:
    """Returns the bounds of all connections of a broker. Raises `InvalidSetting` if the largest request does not fit."""
    name, largest = "queued.max.request.bytes", settings.number("socket.request.max.bytes")
    total, rate = settings.number(name), settings.number("max.connection.creation.rate")
    limits = BudgetLimits(
        total_bytes=total if total > 0 else max(default_total_bytes(), 2 * largest),
        per_address_max=settings.number("max.connections.per.ip"),
        accepts_per_s=math.inf if rate == INT_MAX else rate,
    )
    if limits.others_bytes < largest:
        raise InvalidSetting(
            name,
            f"{name}={total} leaves {limits.others_bytes} bytes to clients, and socket.request.max.bytes is {largest}.",
        )
    return limits

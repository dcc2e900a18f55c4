"""The processes of a RocketMQ cluster: their names, their proofs, and whom their requests may speak for. Pure.

Processes prove their names by `raft.trust`, in requests of code 51903 before any others, and on the HA stream in frames
of their own. A broker with fixed roles is `NAME:ID`, a member of a raft group `NAME:nNUMBER`, since its id changes with
its role. A name server has no name of its own, as it serves any cluster that shares its secret.
"""

from collections.abc import Callable
from typing import Final

import attrs

from raft.net.budget import Standing
from raft.net.errors import WireError
from raft.trust import ADMIN, Acceptor, Credentials, Dialer, Step
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.session import Handler, RemotingCall

REMOTING: Final = "rocketmq"
NAMES: Final = "rocketmq-names"
HA: Final = "rocketmq-ha"
NAME_SERVER: Final = "nameserver"
ANY_CLUSTER: Final = ""
REFUSAL: Final = "Authentication failed"

Proof = Callable[[], Dialer]
"""Begins this side's steps on a connection that it dials."""


def broker_named(name: str, broker_id: int, node_id: int | None) -> str:
    """Returns the name by which a broker proves itself; `node_id` is its number in a raft group."""
    return f"{name}:{broker_id}" if node_id is None else f"{name}:n{node_id}"


def is_of_group(member: str, broker_name: str) -> bool:
    """Returns True if a member is one of the brokers that share this name."""
    return member.rpartition(":")[0] == broker_name


def may_register(member: str, broker_name: str, broker_id: int) -> bool:
    """Returns True if a member may speak to name servers for this broker."""
    own = member.rpartition(":")[2]
    return is_of_group(member, broker_name) and (own.startswith("n") or own == str(broker_id))


@attrs.frozen
class BrokerCredentials:
    """Proves a broker to others."""

    credentials: Credentials

    def to_name_server(self) -> Proof:
        """Returns the proof for a name server."""
        credentials = attrs.evolve(self.credentials, cluster_id=ANY_CLUSTER)
        return lambda: credentials.dial(NAMES, NAME_SERVER)

    def to_broker(self, name: str) -> Proof:
        """Returns the proof for the broker that `broker_named` names."""
        return lambda: self.credentials.dial(REMOTING, name)

    def to_master(self, broker_name: str) -> Dialer:
        """Returns this side's steps on an HA connection."""
        return self.credentials.dial(HA, broker_named(broker_name, 0, None))


class Membership:
    """The server's side of the proof, and the guard of the requests that need one. Without credentials all are believed."""

    def __init__(self, credentials: Credentials | None, wire: str, clock: Callable[[], float]) -> None:
        self._credentials = credentials
        self._wire = wire
        self._clock = clock

    @property
    def is_known(self) -> bool:
        """True if members have to prove themselves."""
        return self._credentials is not None

    def prove(self, call: RemotingCall) -> None:
        """Serve PROVE_MEMBERSHIP: the next message of the proof. Raises `WireError`, which ends the connection."""
        session, now = call.session, self._clock()
        if self._credentials is None:
            call.refuse(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "this process has no secret by which members are known"
            )
            return
        if session.acceptor is None:
            session.acceptor = self._credentials.accept(self._wire, now)
        step = self._step(session.acceptor, now, call)
        if step.admitted is not None:
            session.member = step.admitted.name
            session.standing = Standing.MEMBER
        call.answer(body=step.reply)

    def _step(self, acceptor: Acceptor, now: float, call: RemotingCall) -> Step:
        try:
            return acceptor.step(now, bytes(call.request.body))
        except WireError:
            call.refuse(ResponseCode.NO_PERMISSION, REFUSAL)
            raise

    def for_members(self, handler: Handler, may: Callable[[str], bool] = lambda member: True) -> Handler:
        """Returns a handler that serves a request of members that `may` ask, by name. Another member loses its
        connection.
        """
        if not self.is_known:
            return handler

        def serve(call: RemotingCall) -> None:
            member = call.session.member
            if member is None:
                call.refuse(ResponseCode.NO_PERMISSION, REFUSAL)
            elif not may(member):
                raise WireError(f"{member!r} may not ask for {call.request.code}")
            else:
                handler(call)

        return serve

    def require(self, call: RemotingCall, broker_name: str, broker_id: int | None = None) -> None:
        """Raises `WireError` if the request speaks for a broker that the other end is not; `broker_id` None: for any of
        the name.
        """
        member = call.session.member
        if member is None:
            return  # only where all are believed: `for_members` has refused the others
        speaks = is_of_group(member, broker_name) if broker_id is None else may_register(member, broker_name, broker_id)
        if not speaks:
            raise WireError(f"{member!r} speaks for broker {broker_id} of {broker_name[:255]!r}")


def is_operator(member: str) -> bool:
    """Returns True for the tools of an operator."""
    return member == ADMIN

"""Connections to other brokers, over which this one fetches as a follower and calls the controller.

A `PeerClient` is dialled when it is first used. Where brokers know each other by a secret, calls leave once both sides
have proven who they are. A broker answers requests in their order, so each answer belongs to the oldest waiting call.
When the connection breaks or cannot be made, or an answer is late, all waiting calls end with `PeerFailed`: their
requests may have been carried out. The next call dials again, after a pause that grows with every failure in a row.
"""

import logging
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
import trio

from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.errors import MalformedMessage
from raft.net.certificates import Certificates
from raft.net.connection import Session, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer
from raft.net.dialing import dial_within
from raft.net.errors import WireError
from raft.net.reactor import Reactor
from raft.net.redial import Redial
from raft.net.running_clock import RunningClock
from raft.net.tls import TlsFailed
from raft.net.tls_socket import StreamSocket

logger = logging.getLogger(__name__)

DIAL_TIMEOUT_S = 2.0
PROOF_TIMEOUT_S = 2.0
OUTBOUND_BYTES_MAX = 64 * 1024 * 1024
RESPONSE_BYTES_MAX = 256 * 1024 * 1024
CLOSED_ON_PURPOSE = "this broker stops"

Address = tuple[str, int]


@attrs.frozen
class PeerFailed:
    """A call has no answer; its request may have been carried out, unless `was_sent` is false."""

    reason: str
    was_sent: bool


ProofCall = tuple[Api[Any, Any], int, object]
"""An API, the version and the request."""


class Peer(Protocol):
    """Calls to one broker: a `PeerClient`."""

    def call(
        self,
        api: Api[Any, Any],
        version: int,
        request: object,
        done: Callable[[Any | PeerFailed], None],
        *,
        timeout_s: float,
    ) -> None:
        """See `PeerClient`."""


class ProofSteps(Protocol):
    """One conversation in which both sides prove who they are, as calls."""

    first: Sequence[ProofCall]
    is_done: bool
    """True once both have."""

    def step(self, answer: Any) -> Sequence[ProofCall]:
        """Returns the calls that follow an answer. Raises `WireError` if the other side proves nothing."""


class Proof(Protocol):
    """Begins such a conversation on each new connection."""

    def begin(self) -> ProofSteps:
        """Returns its steps."""


@attrs.define
class _Call:
    api: Api[Any, Any]
    version: int
    correlation_id: int
    done: Callable[[Any | PeerFailed], None]
    deadline: float


class PeerClient(Session[Buffer]):
    """Calls to one broker at one address.

    `run` keeps its connection while there is work; `call` may be used at any time. Calls are timed by `clock`: an
    answer is not late because this process stood still.
    """

    def __init__(
        self,
        reactor: Reactor,
        address: Address,
        client_id: str,
        clock: RunningClock,
        rng: random.Random,
        proof: Proof | None = None,
        tls: Certificates | None = None,
    ) -> None:
        """`proof` is how both sides prove who they are; None where no one has to."""
        self.address = address
        self._proof = proof
        self._tls = tls
        self._reactor = reactor
        self._client_id = client_id
        self._clock = clock
        self._redial = Redial(self._session, rng, on_demand=True)
        self._calls: deque[_Call] = deque()
        self._waiting: list[tuple[_Call, Sequence[Buffer]]] = []
        """Calls made before the connection is up and proven, with their frames."""
        self._is_ready = False
        self._connection: SocketConnection[Buffer] | None = None
        self._last_id = 0
        self._refusal = ""
        """Why TLS failed at the last dial: it does so at every one, and once is enough."""
        self._ended = trio.Event()

    # ---------------------------------------------------------------- calls

    @property
    def is_connected(self) -> bool:
        """True while there is a connection that takes calls."""
        return self._connection is not None and self._is_ready

    def call(
        self,
        api: Api[Any, Any],
        version: int,
        request: object,
        done: Callable[[Any | PeerFailed], None],
        *,
        timeout_s: float,
    ) -> None:
        """Send a request.

        `done` is called once with the response or a `PeerFailed`, in the loop and after this call has returned.
        """
        call, frame = self._prepare(api, version, request, done, timeout_s)
        if self._connection is not None and self._is_ready:
            self._send(self._connection, call, frame)
            return
        self._waiting.append((call, frame))
        if self._connection is None:
            self._redial.want()

    async def ask(self, api: Api[Any, Any], version: int, request: object, *, timeout_s: float) -> Any | PeerFailed:
        """Like `call`, and returns the response or the `PeerFailed`."""
        answered = trio.Event()
        outcome: list[Any] = []

        def on_response(response: Any | PeerFailed) -> None:
            outcome.append(response)
            answered.set()

        self.call(api, version, request, on_response, timeout_s=timeout_s)
        self._reactor.request_round()
        await answered.wait()
        return outcome[0]

    def _prepare(
        self,
        api: Api[Any, Any],
        version: int,
        request: object,
        done: Callable[[Any | PeerFailed], None],
        timeout_s: float,
    ) -> tuple[_Call, Sequence[Buffer]]:
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        frame = api.encode_request(RequestHeader(api.key, version, self._last_id, self._client_id), request)
        return _Call(api, version, self._last_id, done, self._clock() + timeout_s), frame

    def _send(self, connection: SocketConnection[Buffer], call: _Call, frame: Sequence[Buffer]) -> None:
        self._calls.append(call)
        connection.write_pieces(frame)

    # ---------------------------------------------------------------- the connection

    async def run(self) -> None:
        """Dial when there is a call, and end calls that are late, until cancelled."""
        await self._redial.run()

    async def _session(self) -> bool:
        """Run one connection from dial to end. Returns True if it was up."""
        self._ended = trio.Event()
        try:
            connected = await dial_within(self.address, DIAL_TIMEOUT_S, awaits_answers=True, tls=self._tls)
        except TlsFailed as error:
            if str(error) != self._refusal:
                logger.error("no connection to %s:%s: %s", *self.address, error)
            self._refusal = str(error)
            connected = None
        if connected is None:
            self._fail_all("no connection")
            return False
        self._refusal = ""
        self._open(connected)
        try:
            while not self._ended.is_set():
                oldest = self._clock.when(self._calls[0].deadline) if self._calls else math.inf
                with trio.move_on_at(min(oldest, trio.current_time() + self._clock.pulse_s)):
                    await self._ended.wait()
                if self._calls and self._clock() >= self._calls[0].deadline:
                    self._close("no answer in time")
            was_ready, self._is_ready = self._is_ready, False
            self._fail_all("the connection ended")
            return was_ready
        finally:
            self._close(CLOSED_ON_PURPOSE)

    def _open(self, connected: StreamSocket) -> None:
        decoder = BodyDecoder(RESPONSE_BYTES_MAX)
        decoder.trusted = True
        self._connection = SocketConnection(
            self._reactor, connected, decoder, self, outbound_bytes_max=OUTBOUND_BYTES_MAX, name=f"to {self.address}"
        )
        if self._proof is None:
            self._begin()
        else:
            self._prove(self._proof, self._connection)

    def _begin(self) -> None:
        assert self._connection is not None, "it has just been opened or proven"
        self._is_ready = True
        waiting, self._waiting = self._waiting, []
        for call, frame in waiting:
            self._send(self._connection, call, frame)

    def _prove(self, proof: Proof, connection: SocketConnection[Buffer]) -> None:
        """Let both sides prove who they are, in two round trips."""
        steps = proof.begin()

        def say(api: Api[Any, Any], version: int, request: object) -> None:
            self._send(connection, *self._prepare(api, version, request, on_answer, PROOF_TIMEOUT_S))

        def on_answer(answer: Any | PeerFailed) -> None:
            if isinstance(answer, PeerFailed):
                return  # the connection has ended
            for request in steps.step(answer):
                say(*request)
            if steps.is_done:
                self._begin()

        for request in steps.first:
            say(*request)

    def _close(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.close(reason)

    def _fail_all(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, []
        for call, _ in waiting:
            call.done(PeerFailed(reason, was_sent=False))

    def close(self) -> None:
        """End the connection; waiting calls fail."""
        self._close(CLOSED_ON_PURPOSE)
        self._fail_all(CLOSED_ON_PURPOSE)

    # ---------------------------------------------------------------- the session

    def on_frames(self, frames: list[Buffer]) -> None:
        """Answers, in the order of the calls."""
        for frame in frames:
            if not self._calls:
                raise WireError("an answer to no request")
            call = self._calls[0]
            correlation_id, response = call.api.decode_response(frame, call.version)
            if correlation_id != call.correlation_id:
                raise MalformedMessage(f"answer {correlation_id} where {call.correlation_id} was due")
            self._calls.popleft()
            call.done(response)

    def on_wire_error(self, error: WireError) -> None:
        """Note what the other side has sent."""
        logger.error("the connection to %s:%s is closed: %s", *self.address, error)

    def on_closed(self, reason: str) -> None:
        """End all calls of a connection that is gone."""
        self._connection = None
        calls, self._calls = self._calls, deque()
        self._ended.set()
        for call in calls:
            call.done(PeerFailed(reason, was_sent=True))
        self._reactor.request_round()

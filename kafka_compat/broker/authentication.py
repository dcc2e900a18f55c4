"""A connection proves who is at its other end: SaslHandshake names a mechanism, SaslAuthenticate carries its messages.

`Mechanisms` is the table of what a broker serves, by name. `MEMBER` is the one by which brokers know each other
(`raft.trust`); it is not listed to clients, and served on every listener. Those for clients are served where the
listener has SASL (`Caller.offered`).

After version 0 of SaslHandshake the messages come without headers (`TokenCall`), and an error has no answer.

A failed exchange is answered with Kafka's text, which tells no more than that name and password do not fit, and ends
the connection a little later, with the reason in the log. A client may prove itself again on the same connection, by the same mechanism
and as the same principal, and has to when `connections.max.reauth.ms` is over (KIP-368).
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kafka_compat.broker.caller import Answer, Caller, Exchange, Identity
from kafka_compat.broker.calls import ClientCall, Gate
from kafka_compat.broker.turns import LongWork
from kafka_compat.config import Settings
from kafka_compat.config_keys import OAUTHBEARER, PLAIN
from kafka_compat.model import ScramMechanism
from kafka_compat.protocol.api import API_VERSIONS_KEY
from kafka_compat.protocol.apis.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.sasl.oauthbearer import OAuthBearerExchange, TokenRules
from kafka_compat.sasl.plain import PlainExchange
from kafka_compat.sasl.refused import REFUSAL, SaslRefused
from kafka_compat.sasl.scram import ScramExchange, ScramUsers
from raft.net.connection import SocketConnection
from raft.net.errors import WireError
from raft.net.handlers import serves
from raft.trust import Credentials, Untrusted

MEMBER: Final = "QUORUMLOG-MEMBER"
WIRE: Final = "kafka"
REAUTHENTICATION_S_MIN: Final = 1.0
"""A client proves itself again no sooner after the last time (SaslServerAuthenticator)."""
REFUSED_S: Final = 0.1
"""A refused connection stays open so long: some clients notice its end before they read why.

The default of Kafka's `connection.failed.authentication.delay.ms`.
"""
_BEFORE_PROOF: Final = frozenset((API_VERSIONS_KEY, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key))


Mechanisms = Mapping[str, Callable[[float], Exchange]]
"""By name; each begins an exchange now."""


class MemberExchange:
    """A broker of this cluster proves that it is one."""

    takes_long = False

    def __init__(self, credentials: Credentials, now: float) -> None:
        self._acceptor = credentials.accept(WIRE, now)

    def step(self, now: float, message: bytes) -> Answer:
        """See `Exchange`."""
        step = self._acceptor.step(now, message)
        if step.admitted is None:
            return Answer(step.reply)
        if not step.admitted.name.isdecimal():
            raise Untrusted(f"{step.admitted.name!r} is the name of no broker")
        return Answer(step.reply, Identity(member=int(step.admitted.name)))


def mechanisms_of(
    credentials: Credentials | None, users: ScramUsers, tokens: TokenRules, wall_ms: Callable[[], int]
) -> Mechanisms:
    """Returns what a broker with these credentials serves, and how its users prove themselves."""
    members: Mechanisms = {} if credentials is None else {MEMBER: lambda now: MemberExchange(credentials, now)}
    sha_256, sha_512 = ScramMechanism
    return {
        **members,
        PLAIN: lambda now: PlainExchange(users),
        sha_256.sasl_name: lambda now: ScramExchange(sha_256, users),
        sha_512.sasl_name: lambda now: ScramExchange(sha_512, users),
        OAUTHBEARER: lambda now: OAuthBearerExchange(tokens, wall_ms),
    }


def token_rules(settings: Settings) -> TokenRules:
    """Returns what a broker with these settings asks of a token."""
    return TokenRules(
        principal_claim=settings.text("sasl.oauthbearer.sub.claim.name") or "sub",
        scope_claim=settings.text("sasl.oauthbearer.scope.claim.name") or "scope",
        scopes=frozenset((settings.text("sasl.oauthbearer.required.scope") or "").split()),
        skew_s=settings.number("sasl.oauthbearer.clock.skew.seconds"),
    )


def refusal_of(caller: Caller, api_key: int, now: float) -> str | None:
    """Returns why a client that has to prove who it is may not make this request now; None if it may."""
    if api_key in _BEFORE_PROOF:
        return None
    if caller.mechanism is None:
        return f"a request of API {api_key} before the client has proven who it is by SASL"
    return "the client has not proven again in time who it is" if now >= caller.expires_at else None


class Authentication:
    """The handlers of one broker."""

    def __init__(
        self,
        mechanisms: Mechanisms,
        clock: Callable[[], float],
        gate: Gate,
        lifetime_s: Callable[[], float],
        turns: LongWork,
    ) -> None:
        """`lifetime_s` returns how long a proof of a client lasts; 0 without end."""
        self._mechanisms = mechanisms
        self._turns = turns
        self._clock = clock
        self._gate = gate
        self._lifetime_s = lifetime_s
        self._refused: deque[tuple[float, SocketConnection[Any], str]] = deque()
        """The connections to close, when and why."""

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return self._refused[0][0] if self._refused else math.inf

    def tick(self, now: float) -> None:
        """Close the connections that were refused."""
        while self._refused and self._refused[0][0] <= now:
            _, connection, reason = self._refused.popleft()
            connection.close(reason)

    def _refuse(self, call: ClientCall, error: WireError) -> None:
        """Read nothing more from a client that was answered why, and close its connection soon."""
        call.caller.exchange = call.caller.mechanism = None
        call.connection.pause_reading()
        self._refused.append((self._clock() + REFUSED_S, call.connection, str(error)))

    # ---------------------------------------------------------------- SaslHandshake

    @serves(SASL_HANDSHAKE.key)
    def handshake(self, call: ClientCall) -> None:
        """Begin the exchange of a mechanism."""
        request: SaslHandshakeRequest = call.request
        if request.mechanism != MEMBER and not self._gate.is_open:
            self._gate.keep(self.handshake, call)  # until then this broker does not know all users
            return
        caller, now = call.caller, self._clock()
        error, reason = self._handshake_error(caller, request.mechanism, now)
        if error is KafkaErrorCode.NONE:
            caller.exchange = self._mechanisms[request.mechanism](now)
            caller.chosen, caller.began_at = request.mechanism, now
            caller.sends_tokens = call.version == 0
        call.answer(SaslHandshakeResponse(error_code=error, mechanisms=caller.offered))
        if reason is not None:
            self._refuse(call, WireError(reason))

    def _handshake_error(self, caller: Caller, mechanism: str, now: float) -> tuple[KafkaErrorCode, str | None]:
        """Returns the error of a handshake, and why the connection ends; None if it stays."""
        served = (*caller.offered, MEMBER) if MEMBER in self._mechanisms else caller.offered
        if caller.exchange is not None:
            return KafkaErrorCode.ILLEGAL_SASL_STATE, "a second SASL exchange within the first"
        if mechanism not in served:
            if not caller.offered and mechanism in self._mechanisms:
                return KafkaErrorCode.ILLEGAL_SASL_STATE, None  # a mechanism that other listeners have
            return (
                KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"the SASL mechanism {mechanism[:64]!r} is not served here",
            )
        if caller.mechanism is None:
            return KafkaErrorCode.NONE, None
        if MEMBER in (caller.mechanism, mechanism):
            return KafkaErrorCode.ILLEGAL_SASL_STATE, "a broker proves itself once on a connection"
        if mechanism != caller.mechanism:
            reason = f"a proof by {mechanism} after one by {caller.mechanism}"
            return KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM, reason
        if now < caller.began_at + REAUTHENTICATION_S_MIN:
            return KafkaErrorCode.ILLEGAL_SASL_STATE, None
        return KafkaErrorCode.NONE, None

    # ---------------------------------------------------------------- SaslAuthenticate

    @serves(SASL_AUTHENTICATE.key)
    def authenticate(self, call: ClientCall) -> None:
        """Take the next message of the exchange."""
        request: SaslAuthenticateRequest = call.request
        caller, now = call.caller, self._clock()
        exchange = caller.exchange
        if exchange is None:
            call.answer(SaslAuthenticateResponse(error_code=KafkaErrorCode.ILLEGAL_SASL_STATE, error_message=REFUSAL))
            if caller.mechanism is None:
                self._refuse(call, WireError("a message of a SASL exchange that has not begun"))
            return
        if exchange.takes_long:
            caller.exchange = None  # what comes before the answer belongs to no exchange
            step = partial(_step, exchange, now, request.auth_bytes)
            self._turns.do_apart(call, step, partial(self._settle, call))
        else:
            self._settle(call, _step(exchange, now, request.auth_bytes))

    def _settle(self, call: ClientCall, found: Answer | Untrusted) -> None:
        """Answer a message by what it has proven."""
        caller, now = call.caller, self._clock()
        if isinstance(found, Answer) and found.identity is not None:
            found = _of_same(caller, found, found.identity)
        if isinstance(found, Untrusted):
            told = found.told if isinstance(found, SaslRefused) else REFUSAL
            code = KafkaErrorCode.SASL_AUTHENTICATION_FAILED
            call.answer(SaslAuthenticateResponse(error_code=code, error_message=told))
            self._refuse(call, found)
            return
        answer, lifetime_s = found, 0.0
        if answer.identity is not None:
            caller.identity, caller.mechanism, caller.exchange = answer.identity, caller.chosen, None
            limit_s = min(answer.lifetime_s, self._lifetime_s() or math.inf)
            if answer.identity.member is None and limit_s < math.inf:
                lifetime_s, caller.expires_at = limit_s, now + limit_s
        call.answer(
            SaslAuthenticateResponse(
                error_code=KafkaErrorCode.NONE, auth_bytes=answer.message, session_lifetime_ms=round(1000 * lifetime_s)
            )
        )


def _step(exchange: Exchange, now: float, message: bytes) -> Answer | Untrusted:
    """Returns what a step returns or raises."""
    try:
        return exchange.step(now, message)
    except Untrusted as error:
        return error


def _of_same(caller: Caller, answer: Answer, found: Identity) -> Answer | Untrusted:
    """Returns the answer, or a refusal if a later proof is of another client than the first."""
    if caller.mechanism is None or found == caller.identity:
        return answer
    told = f"Cannot change principals during re-authentication from {caller.principal} to {found.principal}"
    return SaslRefused("a later proof of another principal", told)

"""A connection proves who is at its other end: SaslHandshake names a mechanism, SaslAuthenticate carries its messages.

`Mechanisms` is the table of what a broker serves, by name. `MEMBER` is the one by which brokers know each other
(`raft.trust`); it is not listed to clients. A mechanism for clients is one more entry there, and its name in `LISTED`.

A failed exchange is answered with always the same error, and ends the connection with the reason in the log.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kafka_compat.broker.caller import Answer, Exchange, Identity
from kafka_compat.broker.calls import ClientCall
from kafka_compat.protocol.apis.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.errors import WireError
from raft.net.handlers import serves
from raft.trust import Credentials, Untrusted

MEMBER: Final = "QUORUMLOG-MEMBER"
WIRE: Final = "kafka"
LISTED: Final[tuple[str, ...]] = ()
"""The mechanisms for clients, as SaslHandshake names them."""
REFUSAL: Final = "Authentication failed"


Mechanisms = Mapping[str, Callable[[float], Exchange]]
"""By name; each begins an exchange now."""


class MemberExchange:
    """A broker of this cluster proves that it is one."""

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


def mechanisms_of(credentials: Credentials | None) -> Mechanisms:
    """Returns what a broker with these credentials serves."""
    return {} if credentials is None else {MEMBER: lambda now: MemberExchange(credentials, now)}


class Authentication:
    """The handlers of one broker."""

    def __init__(self, mechanisms: Mechanisms, clock: Callable[[], float]) -> None:
        self._mechanisms = mechanisms
        self._clock = clock

    @serves(SASL_HANDSHAKE.key)
    def handshake(self, call: ClientCall) -> None:
        """Begin the exchange of a mechanism."""
        request: SaslHandshakeRequest = call.request
        begin = self._mechanisms.get(request.mechanism)
        if begin is None:
            call.answer(SaslHandshakeResponse(error_code=KafkaErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=LISTED))
            raise WireError("a SASL mechanism that is not served")
        if call.caller.exchange is not None:
            call.answer(SaslHandshakeResponse(error_code=KafkaErrorCode.ILLEGAL_SASL_STATE, mechanisms=LISTED))
            raise WireError("a second SASL exchange on one connection")
        call.caller.exchange = begin(self._clock())
        call.answer(SaslHandshakeResponse(error_code=KafkaErrorCode.NONE, mechanisms=LISTED))

    @serves(SASL_AUTHENTICATE.key)
    def authenticate(self, call: ClientCall) -> None:
        """Take the next message of the exchange."""
        request: SaslAuthenticateRequest = call.request
        exchange = call.caller.exchange
        if exchange is None:
            call.answer(SaslAuthenticateResponse(error_code=KafkaErrorCode.ILLEGAL_SASL_STATE, error_message=REFUSAL))
            raise WireError("a message of a SASL exchange that has not begun")
        try:
            answer = exchange.step(self._clock(), request.auth_bytes)
        except Untrusted:
            error = KafkaErrorCode.SASL_AUTHENTICATION_FAILED
            call.answer(SaslAuthenticateResponse(error_code=error, error_message=REFUSAL))
            raise
        call.answer(SaslAuthenticateResponse(error_code=KafkaErrorCode.NONE, auth_bytes=answer.message))
        if answer.identity is not None:
            call.caller.identity = answer.identity

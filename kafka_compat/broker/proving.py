"""A broker proves to another that both are of the same cluster: `raft.trust` in calls of SASL."""

from collections.abc import Sequence
from typing import Any

import attrs

from kafka_compat.broker.authentication import MEMBER, WIRE
from kafka_compat.broker.peers import ProofCall
from kafka_compat.protocol.apis.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from raft.net.errors import WireError
from raft.trust import Credentials, Dialer

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


@attrs.frozen
class MemberProof:
    """The proof of the process that dials, with these credentials, to broker `to`."""

    credentials: Credentials
    to: int

    def begin(self) -> "MemberSteps":
        """See `Proof`."""
        return MemberSteps(self.credentials.dial(WIRE, str(self.to)))


class MemberSteps:
    """See `ProofSteps`."""

    def __init__(self, dialer: Dialer) -> None:
        self.is_done = False
        self.first: Sequence[ProofCall] = (
            (SASL_HANDSHAKE, HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism=MEMBER)),
            _message(dialer.opening),
        )
        self._dialer = dialer

    def step(self, answer: Any) -> Sequence[ProofCall]:
        """See `ProofSteps`."""
        if answer.error_code:
            raise WireError(f"the broker does not admit this one: error {answer.error_code}")
        if isinstance(answer, SaslHandshakeResponse):
            return ()
        step = self._dialer.step(answer.auth_bytes)
        self.is_done = step.admitted is not None
        return (_message(step.reply),) if step.reply else ()


def _message(message: bytes) -> ProofCall:
    return SASL_AUTHENTICATE, AUTHENTICATE_VERSION, SaslAuthenticateRequest(auth_bytes=message)

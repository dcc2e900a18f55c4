"""PLAIN (RFC 4616): user and password in one message, checked against the same credentials as SCRAM's.

The password is on the wire, so a broker serves this over TLS only, unless it is asked to.
"""

from collections.abc import Callable
from typing import Final

from kafka_compat.broker.caller import Answer, Identity
from kafka_compat.model import ScramCredential, ScramMechanism
from kafka_compat.sasl.credentials import password_fits
from kafka_compat.sasl.refused import SaslRefused
from kafka_compat.sasl.scram import ITERATIONS, ScramUsers

MESSAGE_BYTES_MAX: Final = 4096
INVALID: Final = "Authentication failed: Invalid username or password"
_STRONGEST_FIRST: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)
_NO_ONE: Final = ScramCredential(b"salt", b"", b"", ITERATIONS)

PasswordFits = Callable[[ScramMechanism, ScramCredential, str], bool]


class PlainExchange:
    """One exchange; see `Exchange`."""

    takes_long = True
    """The password is salted as often as its credential asks for."""

    def __init__(self, users: ScramUsers, fits: PasswordFits = password_fits) -> None:
        self._users = users
        self._fits = fits

    def step(self, now: float, message: bytes) -> Answer:
        """Returns an empty answer and the user. Raises `SaslRefused`."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise SaslRefused("a message of PLAIN that is too long")
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslRefused("a message of PLAIN that is no UTF-8") from None
        if len(parts) != 3:
            told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise SaslRefused("a message that is none of PLAIN", told)
        authorized, user, password = parts
        if not user:
            raise SaslRefused("PLAIN without a user", "Authentication failed: username not specified")
        if not password:
            raise SaslRefused("PLAIN without a password", "Authentication failed: password not specified")
        if authorized and authorized != user:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise SaslRefused("an authorization id that is not the user's", told)
        if not self._knows(user, password):
            raise SaslRefused(f"a wrong user or password: {user[:100]!r}", INVALID)
        return Answer(b"", Identity(principal=f"User:{user}"))

    def _knows(self, user: str, password: str) -> bool:
        for mechanism in _STRONGEST_FIRST:
            credential = self._users.find(user, mechanism)
            if credential is not None:
                return self._fits(mechanism, credential, password)
        self._fits(ScramMechanism.SCRAM_SHA_512, _NO_ONE, password)  # takes as long without a user
        return False

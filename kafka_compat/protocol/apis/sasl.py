"""SaslHandshake (17) and SaslAuthenticate (36): a connection proves who is at its other end, by a mechanism (KIP-152).

Brokers use them among themselves, too. After version 0 of SaslHandshake the messages have a length and no header, and
there is no SaslAuthenticate.
"""

from kafka_compat.protocol.api import NOT_FLEXIBLE, Api
from kafka_compat.protocol.schema import STRING, Message, array, int16, int64, octets, string


class SaslHandshakeRequest(Message):
    """Names the mechanism of the SaslAuthenticate requests that follow."""

    mechanism: str = string()


class SaslHandshakeResponse(Message):
    """The mechanisms for clients; error 33 means that the one asked for is not served."""

    error_code: int = int16()
    mechanisms: tuple[str, ...] = array(STRING)


class SaslAuthenticateRequest(Message):
    """The next message of the mechanism."""

    auth_bytes: bytes = octets()


class SaslAuthenticateResponse(Message):
    """The mechanism's answer; after an error the broker closes the connection."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    auth_bytes: bytes = octets(default=b"")
    session_lifetime_ms: int = int64("1+", default=0)


SASL_HANDSHAKE = Api.of(
    17, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse, versions="0-1", flexible=NOT_FLEXIBLE
)
SASL_AUTHENTICATE = Api.of(
    36, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse, versions="0-2", flexible="2+"
)

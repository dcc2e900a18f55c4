"""One request to one broker on a connection of its own: how the harness asks, past the fault network."""

from typing import Any, Final

import trio

from jepsen_like.operate.access import Login
from jepsen_like.port.wires import Address
from jepsen_like.systems.kafka.login import LoginRefused, steps_of
from jepsen_like.systems.tls_of import Stream, open_stream
from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.apis.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kafka_compat.protocol.errors import MalformedMessage
from raft.net.certificates import Certificates
from raft.net.decoder import PREFIX

CLIENT_ID: Final = "quorumlog"
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
CORRELATION: Final = 1


class NoAnswer(Exception):
    """A broker did not answer what it was asked; the text tells why."""


class NotAsked(NoAnswer):
    """No connection could be made: the broker has certainly not been asked."""


class NotLoggedIn(NotAsked):
    """The broker refuses the user: it has certainly not been asked."""


async def ask(
    address: Address,
    api: Api[Any, Any],
    version: int,
    body: Any,
    *,
    within_s: float,
    tls: Certificates | None = None,
    login: Login | None = None,
) -> Any:
    """Returns a broker's response. Raises `NotAsked` without a connection, `NoAnswer` once it may have been asked."""
    is_asked = False
    try:
        with trio.fail_after(within_s):
            stream = await open_stream(address, tls)
            async with stream:
                if login is not None:
                    await log_in(stream, login)
                is_asked = True
                return await converse(stream, api, version, body)
    except trio.TooSlowError:
        kind = NoAnswer if is_asked else NotAsked
        raise kind(f"no answer to {api.name} within {within_s:g} s") from None
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, MalformedMessage) as error:
        kind = NoAnswer if is_asked else NotAsked
        raise kind(f"{api.name}: {str(error) or type(error).__name__}") from error
    except LoginRefused as error:
        raise NotLoggedIn(str(error)) from None
    except NoAnswer as error:
        raise error if is_asked else NotAsked(str(error)) from error


async def log_in(stream: Stream, login: Login) -> None:
    """Shows a broker who asks. Raises `LoginRefused`, `NoAnswer`, and the errors of streams and of malformed messages."""
    handshake = await converse(stream, SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=login.mechanism))
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none on this listener"
        raise LoginRefused(f"the broker does not serve {login.mechanism}; its mechanisms: {offered}")
    steps = steps_of(login)
    message = next(steps)
    while True:
        answer = await converse(stream, SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=message))
        if answer.error_code:
            raise LoginRefused(f"the broker refuses {login.username}: {answer.error_message}")
        try:
            message = steps.send(answer.auth_bytes)
        except StopIteration:
            return


async def converse(stream: Stream, api: Api[Any, Any], version: int, body: Any) -> Any:
    """Returns the response to a request. Raises `NoAnswer`, and the errors of streams and of malformed messages."""
    frame = api.encode_request(RequestHeader(api.key, version, CORRELATION, CLIENT_ID), body)
    await stream.send_all(b"".join(frame))
    (length,) = PREFIX.unpack(await _exactly(stream, PREFIX.size))
    if not 0 <= length <= FRAME_BYTES_MAX:
        raise NoAnswer(f"a frame of {length} bytes")
    correlation, response = api.decode_response(await _exactly(stream, length), version)
    if correlation != CORRELATION:
        raise NoAnswer(f"{api.name} was answered with correlation id {correlation}")
    return response


async def _exactly(stream: Stream, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = await stream.receive_some(count - len(data))
        if not chunk:
            raise NoAnswer("the broker closed the connection")
        data += chunk
    return bytes(data)

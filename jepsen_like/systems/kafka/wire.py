"""One request to one broker on a connection of its own: how the harness asks, past the fault network."""

from typing import Any, Final

import trio

from jepsen_like.port.wires import Address
from jepsen_like.systems.tls_of import Stream, open_stream
from kafka_compat.protocol.api import Api, RequestHeader
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


async def ask(
    address: Address, api: Api[Any, Any], version: int, body: Any, *, within_s: float, tls: Certificates | None = None
) -> Any:
    """Returns a broker's response. Raises `NotAsked` without a connection, `NoAnswer` once it may have been asked."""
    is_asked = False
    frame = api.encode_request(RequestHeader(api.key, version, CORRELATION, CLIENT_ID), body)
    try:
        with trio.fail_after(within_s):
            stream = await open_stream(address, tls)
            is_asked = True
            async with stream:
                await stream.send_all(b"".join(frame))
                (length,) = PREFIX.unpack(await _exactly(stream, PREFIX.size))
                if not 0 <= length <= FRAME_BYTES_MAX:
                    raise NoAnswer(f"a frame of {length} bytes")
                answer = await _exactly(stream, length)
        correlation, response = api.decode_response(answer, version)
    except trio.TooSlowError:
        kind = NoAnswer if is_asked else NotAsked
        raise kind(f"no answer to {api.name} within {within_s:g} s") from None
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, MalformedMessage) as error:
        kind = NoAnswer if is_asked else NotAsked
        raise kind(f"{api.name}: {str(error) or type(error).__name__}") from error
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
